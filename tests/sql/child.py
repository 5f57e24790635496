"""A process that loads or decides and then waits inside its transaction, to be killed there.

Usage: python -m tests.sql.child URL WHAT AFTER. WHAT: `facts` or `decisions`. It prints `waiting` when AFTER
statements that write have run inside the transaction, and sleeps until it is killed; with AFTER = 0 it runs through
and prints `done`.
"""

from __future__ import annotations

import sys
import time

from sqlalchemy import Connection, event

from schemas.facts import Facts, SignalFact, SourceFact, Stamp
from sql.store import Store, open_store
from tests.sql.builders import T0, decision, host_fault


def facts() -> Facts:
    """Two sources with 20,050 signals: three batches of `signals`."""
    signals = []
    for n in range(20_050):
        stamp = Stamp("utc", T0 + n)
        signals.append(
            SignalFact(f"g{n}", f"s{n % 2}", "r", "", "h", "t", "b", stamp, n, 1, stamp, n, "x", (), (), ((n, 2),))
        )
    sources = tuple(SourceFact(f"s{n}", (f"{n}.log",), "logs", "kern", "kernel", 10, None, "h") for n in range(2))
    return Facts(sources=sources, signals=tuple(signals))


def work(store: Store, what: str) -> None:
    """What the child does: the facts, or decisions that also retract a subject."""
    if what == "facts":
        store.load_facts(facts(), 1, "alpha")
    else:
        store.replace_decisions("alpha", [decision("job", cause="second", revision=8), decision("new")], {"gone"})


def prepare(store: Store) -> None:
    """What is there before."""
    store.replace_decisions("alpha", [decision("job"), host_fault("gone")])


def main(url: str, what: str, after: int) -> None:
    with open_store(url) as store:
        seen = 0

        def count(_c: Connection, _cursor: object, statement: str, *_rest: object) -> None:
            nonlocal seen
            seen += statement.lstrip().startswith(("INSERT", "UPDATE", "DELETE"))
            if after and seen == after:
                print("waiting", flush=True)
                time.sleep(120)

        event.listen(store.engine, "after_cursor_execute", count)
        work(store, what)
    print(f"done {seen}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
