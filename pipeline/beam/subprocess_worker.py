"""The worker that FnApiRunner starts for `--direct_running_mode=multi_processing`, without its start-up chatter.

Beam's own entry point logs a dozen lines a process to the user's terminal before any option is read.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import logging
import sys

if __name__ == "__main__":
    logging.disable(logging.WARNING)  # Beam sets levels itself, after it has logged
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)
