"""The decide graph: batches of subjects -> decisions, in as many processes as the runner has.

    Create(batches) | Spread | Decide

Subjects are joined where the store is and written to files batch by batch, so that no process holds them all; an
element is the name of a batch. Workers leave their decisions in files, too, and the submitting process, which is the
only writer, checks that every subject came back before anything is replaced.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from pipeline.beam.coders import pack, unpack
from pipeline.beam.errors import ReceiptError
from pipeline.beam.facts_graph import wait
from pipeline.beam.runners import DEFAULT_RUNNER, start
from pipeline.beam.shards import below, read_shard, shard_path, write_shard
from schemas.subject import Decision, Subject

#: Decides one batch of subjects.
Decider = Callable[[Sequence[Subject]], Sequence[Decision]]

_SUBJECT, _DECISION = "subject", "decision"


class _Decide(beam.DoFn):
    """One batch in, its decisions in a file, and how many they were out. Models predict on the batch as a whole."""

    def __init__(self, factory: Callable[[], Decider], subjects: str, decisions: str) -> None:
        self._factory = factory
        self._subjects = subjects
        self._decisions = decisions
        self._decide: Decider | None = None
        self._in = Metrics.counter("DecideSubjects", "in")
        self._out = Metrics.counter("DecideSubjects", "out")

    def setup(self) -> None:
        self._decide = self._factory()

    def process(self, element: str) -> Iterator[tuple[str, int]]:
        if self._decide is None:
            raise RuntimeError("setup() was not called before process(); the runner breaks the DoFn contract")
        batch = [unpack(Subject, p) for _, _, p in read_shard(shard_path(self._subjects, element))]
        self._in.inc(len(batch))
        decided = self._decide(batch)
        n = write_shard(self._decisions, element, [(_DECISION, 1, pack(d)) for d in decided])
        self._out.inc(n)
        yield element, n


class DecideSubjects(beam.PTransform[PCollection[str], PCollection[tuple[str, int]]]):
    """Names of batches -> (name, decisions written)."""

    def __init__(self, factory: Callable[[], Decider], subjects: str, decisions: str) -> None:
        super().__init__()
        self._do = _Decide(factory, subjects, decisions)

    def expand(self, names: PCollection[str]) -> PCollection[tuple[str, int]]:
        decide = beam.ParDo(self._do).with_output_types(tuple[str, int])
        decided: PCollection[tuple[str, int]] = names | "Spread" >> beam.Reshuffle() | "Decide" >> decide
        return decided


@dataclass(frozen=True, slots=True)
class BeamBatches:
    """Decides batches of subjects through Beam; takes the place of a plain loop in `pipeline.warehouse.redecide`.

    decider: importable factory, called once per worker. folder: empty, reachable for workers and this process.
    """

    decider: Callable[[], Decider]
    folder: str
    runner: str = DEFAULT_RUNNER
    pipeline_args: Sequence[str] = ()

    def __call__(self, batches: Iterable[Sequence[Subject]]) -> Iterator[Sequence[Decision]]:
        """Decisions batch by batch, in order. Raises ReceiptError where one did not come back whole."""
        subjects, decisions = below(self.folder, "subjects"), below(self.folder, "decisions")
        keys: dict[str, list[str]] = {}
        for number, batch in enumerate(batches):
            name = f"{number:06d}"
            write_shard(subjects, name, [(_SUBJECT, 1, pack(s)) for s in batch])
            keys[name] = [s.key for s in batch]
        if not keys:
            return
        pipeline = start(self.runner, self.pipeline_args)
        (
            pipeline
            | "Batches" >> beam.Create(list(keys), reshuffle=False).with_output_types(str)
            | "DecideSubjects" >> DecideSubjects(self.decider, subjects, decisions)
        )
        wait(pipeline.run(), self.runner)
        for name, wanted in keys.items():
            path = shard_path(decisions, name)
            if not FileSystems.exists(path):
                raise ReceiptError(
                    f"batch {name} of {len(wanted)} subjects has no decisions in {decisions}: runner {self.runner} did "
                    "not run it; nothing of it was stored, run it again or on FnApiRunner"
                )
            got = [unpack(Decision, p) for _, _, p in read_shard(path)]
            if [d.subject_key for d in got] != wanted:
                raise ReceiptError(
                    f"batch {name}: {len(wanted)} subjects went out and {len(got)} decisions came back, not of the "
                    f"same subjects in the same order; nothing of it was stored ({path})"
                )
            yield got
