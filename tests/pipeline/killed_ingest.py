"""An ingest that is killed (SIGKILL) before or after a call of the store, or after some time; run as a process.

python -m tests.pipeline.killed_ingest URL FOLDER METHOD before|after
python -m tests.pipeline.killed_ingest URL FOLDER - SECONDS
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from typing import Any

from pipeline.warehouse.ingest import ingest
from schemas.settings import Settings
from sql.store import Store


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(method: str, when: str) -> None:
    real = getattr(Store, method)

    @functools.wraps(real)
    def deadly(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            _die()
        real(*args, **kwargs)
        return _die()

    setattr(Store, method, deadly)


if __name__ == "__main__":
    warehouse, folder, method, when = sys.argv[1:]
    if method == "-":
        threading.Timer(float(when), _die).start()
    else:
        _arm(method, when)
    ingest([folder], warehouse, Settings())
    if method != "-":
        raise SystemExit(f"{method} was never called")
    os._exit(0)
