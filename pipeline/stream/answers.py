"""Counts of the incidents that a stream gave out, and how long after the end of its run each came.

Read from the outbox of incidents, which is written in the transaction of the decision, so nothing needs to be counted
where deciding runs. Counting begins with what is written after the first look.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from pipeline.stream.stats import Totals, WorkerStats

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from sql.streamstats import Answer

#: Numbers of the outbox are given before a transaction commits: a row may appear behind others.
_BEHIND = 200
_REMEMBERED = 50_000

K = TypeVar("K")


class Answers:
    """Looks at the outbox now and then. Each row counts once."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._stats = WorkerStats("answers")
        self._newest: int | None = None
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._timed: OrderedDict[tuple[str, bool], None] = OrderedDict()

    def look(self, connection: Connection) -> Totals:
        """All counts up to now."""
        from sql.streamstats import answers_since, newest_answer

        if self._newest is None:
            self._newest = newest_answer(connection)
            self._seen.update(dict.fromkeys(range(self._newest - _BEHIND, self._newest + 1)))
        for answer in answers_since(connection, self._cluster, self._newest - _BEHIND):
            if _first(self._seen, answer.seq):
                self._newest = max(self._newest, answer.seq)
                self._count(answer)
        return self._stats.row(0).totals

    def _count(self, answer: Answer) -> None:
        component = json.loads(answer.incident)["component"] if answer.incident else ""
        provisional = "true" if answer.provisional else "false"
        self._stats.count("incidents", component=component, provisional=provisional, what=answer.what)
        # of each incident the first answer of either kind: later ones come of later facts
        if answer.ended_us is None or not answer.incident:
            return
        if _first(self._timed, (answer.incident_id, answer.provisional)):
            name = "end_to_provisional" if answer.provisional else "end_to_final"
            self._stats.observe(name, (answer.created_us - answer.ended_us) / 1e6)


def _first(known: OrderedDict[K, None], key: K) -> bool:
    if key in known:
        return False
    known[key] = None
    if len(known) > _REMEMBERED:
        known.popitem(last=False)
    return True
