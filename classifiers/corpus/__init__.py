"""The text model's corpus: failure lines written for it, each with its component, cause and the source of its facts.

One `*.tsv` file a family (`text`, `component`, `cause`, `family`, `source`), in the wording of frameworks, kernels and
schedulers, with invented names and numbers. To teach the model a wording, add a line and run `faultbeam train`.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from classifiers.errors import ClassifierError
from classifiers.text.features import masked
from schemas.errors import FaultbeamError
from schemas.identity import digest
from schemas.taxonomy import component as taxonomy_component

ROOT = Path(__file__).parent
COLUMNS = ("text", "component", "cause", "family", "source")


class CorpusError(ClassifierError):
    """A corpus cannot be trained on; the text names file, line and value."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One failure line and what it says. family: of the corpus file, `label` for a line that a person labelled."""

    text: str
    component: str
    cause: str
    family: str
    source: str

    @property
    def group(self) -> str:
        """The template: samples of one group never stand on both sides of a split."""
        return masked(self.text)


def load_corpus(root: Path = ROOT) -> tuple[Sample, ...]:
    """All samples below `root`, by file name and line. `CorpusError` on a malformed file."""
    out: list[Sample] = []
    for path in sorted(root.glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as handle:
            rows = csv.reader(handle, delimiter="\t", quoting=csv.QUOTE_NONE)
            if (head := tuple(next(rows, ()))) != COLUMNS:
                msg = f"{path}:1: columns are {', '.join(head) or 'missing'}; expected {', '.join(COLUMNS)}"
                raise CorpusError(msg)
            for number, row in enumerate(rows, start=2):
                out.append(_sample(row, f"{path}:{number}"))
    check_corpus(out, str(root))
    return tuple(out)


def _sample(row: Sequence[str], where: str) -> Sample:
    if len(row) != len(COLUMNS) or not all(cell.strip() for cell in row):
        msg = f"{where}: needs {len(COLUMNS)} filled columns ({', '.join(COLUMNS)}), has {row!r}"
        raise CorpusError(msg)
    try:
        taxonomy_component(row[1])
    except FaultbeamError as error:
        msg = f"{where}: {error}"
        raise CorpusError(msg) from None
    return Sample(*row)


def check_corpus(samples: Sequence[Sample], where: str = "corpus") -> None:
    """`CorpusError` unless there are two classes or more, and no template stands for two components."""
    classes = Counter(s.component for s in samples)
    if len(classes) < 2:
        found = ", ".join(classes) or "no class"
        msg = f"{where}: {len(samples)} samples of {found}; a model needs lines of at least two components"
        raise CorpusError(msg)
    seen: dict[str, Sample] = {}
    for sample in samples:
        twin = seen.setdefault(sample.group, sample)
        if twin.component != sample.component and sample.family != "label":
            msg = (
                f"{where}: one template for two components, {twin.component} ({twin.text!r}) "
                f"and {sample.component} ({sample.text!r}); keep one"
            )
            raise CorpusError(msg)


def corpus_digest(samples: Sequence[Sample]) -> str:
    """Names the contents of a corpus: equal samples in any order have equal digests."""
    return digest("corpus", *sorted(f"{s.text}\t{s.component}\t{s.cause}" for s in samples))
