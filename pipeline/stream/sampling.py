"""Which lines that no rule asks for are read all the same: for host names, the times that a log covers, and progress.

Reading a line in full costs twenty times what looking for rules' literals in it costs. While there is time all lines
are read, which is what a batch does with small files. Where messages come faster than that, the first and the last
line of every stream of a poll are, and of those not more than one pair in `EVERY_S`.

Streams are told apart before anything is decoded, by the values of those members of a record that name where it came
from: cheap, and fine if it is too fine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pipeline.stream.messages import Message

#: Lines that may be read at once, and a second on the average.
BURST, RATE = 50_000, 2_000
#: How often a stream gets a pair of lines read when there is no time for all, seconds.
EVERY_S = 10.0
#: Of so many polls in a row the streams of one are looked at then.
ONE_OF = 4
_NAMES = re.compile(
    rb'"(?:path|file|filename|name|pod_name|pod|pod_uid|host|hostname|container_name|container|node_name)":'
    rb' ?"((?:[^"\\]|\\.)*)"'
)
_REMEMBERED = 100_000


def signature(message: Message) -> object:
    """What names the stream of a message: equal for lines of one stream unless they hold such words themselves."""
    value = message.value or b""
    headers = message.headers
    where = (headers.get("host"), headers.get("source")) if headers else None
    return (*_NAMES.findall(value), where) if value[:1] == b"{" else where


class Sampler:
    """Chooses lines to read. Clock values (seconds, any origin) must not fall."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._at: float | None = None
        self._read: dict[object, float] = {}
        self._skipped = 0

    def choose(self, messages: Sequence[Message], candidates: Iterable[int], now: float) -> list[int]:
        """Indexes of the messages to read, among `candidates` (in order)."""
        if self._at is not None:
            self._left = min(float(BURST), self._left + (now - self._at) * RATE)
        self._at = now
        wanted = list(candidates)
        if len(wanted) <= self._left:
            self._left -= len(wanted)
            return wanted
        self._skipped = (self._skipped + 1) % ONE_OF
        if self._skipped:
            return []
        ends: dict[tuple[str, object], tuple[int, int]] = {}
        for index in wanted:
            name = (messages[index].topic, signature(messages[index]))
            ends[name] = (ends[name][0] if name in ends else index, index)
        if len(self._read) > _REMEMBERED:
            self._read.clear()
        chosen: set[int] = set()
        for name, pair in ends.items():
            if now - self._read.get(name, -EVERY_S) >= EVERY_S:
                self._read[name] = now
                chosen.update(pair)
        self._left = max(0.0, self._left - len(chosen))
        return sorted(chosen)
