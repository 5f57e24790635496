"""A process that decides and is killed (SIGKILL) at its N-th statement that writes.

python -m tests.pipeline.warehouse.killed_decider URL N
"""

from __future__ import annotations

import os
import signal
import sys

from sqlalchemy import event

from classifiers.knowledge import load_ruleset
from pipeline.warehouse.live import Decider
from schemas.settings import Settings
from sql.store import open_store

FAR = 1 << 60
_WRITES = ("INSERT", "UPDATE", "DELETE")


def main(url: str, last: int) -> None:
    """Decide what is pending, and die on the way."""
    seen = 0
    with open_store(url) as store:

        @event.listens_for(store.engine, "after_cursor_execute")
        def _count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            nonlocal seen
            if statement.lstrip().upper().startswith(_WRITES):
                seen += 1
                if seen == last:
                    os.kill(os.getpid(), signal.SIGKILL)

        Decider(store, Settings(), load_ruleset(), settle_s=0.0).decide_pending(FAR)
    print(f"only {seen} statements")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
