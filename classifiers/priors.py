"""Prior shares of components, by name: how often each was the cause at one site. Never hard-wired to a site.

`none` (the default) prefers nothing; `llama3` is Table 5 of arXiv 2407.21783, `fthsdp` the later mix of arXiv
2602.00277; `labels` is what people labelled, as counted by `faultbeam train`. A prior breaks ties of weak evidence.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from classifiers.errors import ClassifierError


class PriorError(ClassifierError):
    """A setting names a prior that does not exist."""


@cache
def mixes() -> dict[str, dict[str, float]]:
    """The named mixes as shares that sum to 1."""
    text = files("classifiers").joinpath("priors.tsv").read_text(encoding="utf-8")
    counts: dict[str, Counter[str]] = {}
    for row in csv.DictReader(text.splitlines(), delimiter="\t"):
        counts.setdefault(row["mix"], Counter())[row["component"]] += int(row["n"])
    return {mix: shares(c.elements()) for mix, c in counts.items()}


def shares(components: Iterable[str]) -> dict[str, float]:
    """Shares of components among those given, rounded to six places; empty for none."""
    counts = Counter(components)
    return {name: round(n / counts.total(), 6) for name, n in sorted(counts.items())}


def prior_of(name: str, labelled: Mapping[str, float]) -> Mapping[str, float]:
    """The prior that a setting names; empty for `none`. labelled: the model's own, for `labels`."""
    if name == "none":
        return {}
    if name == "labels":
        return labelled
    known = mixes()
    if name not in known:
        msg = f"prior {name!r} is not known; there are none, labels, {', '.join(sorted(known))}"
        raise PriorError(msg)
    return known[name]
