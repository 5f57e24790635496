"""The Beam graphs: thin transforms around plain functions, and the only place that imports apache_beam.

Nothing here decides anything about logs. A graph gets importable functions, moves `(kind, key)` elements whose
payloads are bytes (see `coders`), and proves that every range arrived (see `receipts`).

Importing this package does not import Beam, but prepares for it: without a handler on the root logger Beam installs
one of its own, and every library's warnings would then land on the user's terminal.
"""

from __future__ import annotations

import logging

if not logging.getLogger().handlers:
    logging.getLogger().addHandler(logging.NullHandler())
logging.getLogger("apache_beam").setLevel(logging.ERROR)
