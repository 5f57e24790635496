"""What a stream leaves behind and may forget: sets of counted lines, marks of sources, delivered messages.

Nothing of it changes an answer. A set of lines is needed for as long as a line may come again (the retention of the
topic); afterwards the counts stay as they are. `sweep` is called by the stream's periodic pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sql.lines import forget_lines
from sql.published import forget_sent
from sql.touched import forget_touched

if TYPE_CHECKING:
    from sql.store import Store

#: As long as brokers keep messages by default, seconds.
KEEP_S = 7 * 86400.0
#: Messages that nobody takes (no topic of incidents is named) are kept this many times as long as delivered ones.
UNSENT = 4


@dataclass(frozen=True, slots=True)
class Swept:
    """How many rows went: sets of lines, sources that were marked, messages of the outbox."""

    lines: int
    marks: int
    messages: int


def sweep(store: Store, cluster: str, keep_s: float = KEEP_S) -> Swept:
    """Forget what is older than `keep_s` (wall clock), each table in a transaction of its own."""
    now_us = store.now_us()
    before_us = now_us - int(keep_s * 1e6)
    with store.writing() as connection:
        lines = forget_lines(connection, cluster, before_us)
    with store.writing(cluster) as connection:
        marks = forget_touched(connection, cluster, before_us)
    with store.writing() as connection:
        messages = forget_sent(connection, before_us, now_us - int(UNSENT * keep_s * 1e6))
    return Swept(lines, marks, messages)
