"""`python -m tests.services`: fetch and build what the servers of the tests need.

Prints a line for each part. Under CI a part that cannot be made ends the command with 1; elsewhere its tests skip.
"""

from __future__ import annotations

import os
import sys

from tests.services.cache import set_up


def main() -> int:
    missing = 0
    for part, told, seconds in set_up():
        missing += told.startswith("not available")
        took = f" ({seconds:.0f} s)" if seconds >= 1 else ""
        print(f"services: {part}: {told}{took}", flush=True)
    return 1 if missing and os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
