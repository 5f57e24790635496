"""Runs one transform on a list and gives a list back, so that tests of transforms read like tests of functions."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline.beam.facts_graph import counters
from pipeline.beam.runners import make_runner


def _append(item: Any, path: str) -> None:
    with Path(path).open("ab") as out:
        pickle.dump(item, out)


def run(transform: beam.PTransform, items: Sequence[Any], types: Any = None) -> tuple[list[Any], dict[str, int]]:
    """(outputs in any order, counters) of a transform on FnApiRunner."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        path.touch()
        pipeline = beam.Pipeline(runner=make_runner("FnApiRunner"), options=PipelineOptions([]))
        create = beam.Create(list(items), reshuffle=False)
        if types is not None:
            create = create.with_output_types(types)
        _ = pipeline | create | transform | "Keep" >> beam.Map(_append, str(path))
        result = pipeline.run()
        result.wait_until_finish()
        out = []
        with path.open("rb") as handle:
            while True:
                try:
                    out.append(pickle.load(handle))
                except EOFError:
                    return out, counters(result)
