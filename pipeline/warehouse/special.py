"""Signals that reach beyond their own time: those that name jobs, and those of switches.

A run takes what names its job whenever it was said, and whether a root has one fabric is told by all its switches, so
these are held in memory; all else is found in the warehouse by time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from classifiers.api import Ruleset
from pipeline.joining.events import Placed
from pipeline.joining.fabric import SWITCH, is_switch

#: Groups of rules that may name a job.
_NAMING = re.compile(r"\(\?P<(?:job|jobid|job_id)>")


def special_rules(ruleset: Ruleset) -> frozenset[str]:
    """The rules that such signals can be of."""
    return frozenset(r.id for r in ruleset.rules.values() if _NAMING.search(r.pattern) or SWITCH in r.tags)


class Special:
    """These signals, as placed last. Jobs and switches are found by themselves."""

    def __init__(self, placed: Iterable[Placed]) -> None:
        self._by_source: dict[str, dict[str, Placed]] = {}
        self.renew(placed, ())

    def renew(self, placed: Iterable[Placed], moved: Collection[str]) -> None:
        """Take in signals that changed; moved: sources all of whose signals are given."""
        for source_id in moved:
            self._by_source.pop(source_id, None)
        for p in placed:
            if p.job_id or is_switch(p):
                self._by_source.setdefault(p.fact.source_id, {})[p.fact.signal_id] = p

    def __iter__(self) -> Iterator[Placed]:
        return (p for own in self._by_source.values() for p in own.values())

    def of_jobs(self, job_ids: Collection[str]) -> list[Placed]:
        """Those that name one of these jobs."""
        return [p for p in self if p.job_id in job_ids]

    def of_switches(self) -> list[Placed]:
        """Those of switches."""
        return [p for p in self if is_switch(p)]
