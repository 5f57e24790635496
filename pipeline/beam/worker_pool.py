"""A worker pool for the EXTERNAL environment that listens on loopback only.

Beam's stock pool binds all interfaces without authentication and runs whatever it is sent. This one is the same
service on 127.0.0.1 (or on the address that you name, for instance one of a pod's own network):

    python -m pipeline.beam.worker_pool --port 50000 --port-file /tmp/pool.port

Then pass `--environment_type=EXTERNAL --environment_config=127.0.0.1:50000` to the job.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

import grpc  # type: ignore[import-untyped,unused-ignore]
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor

from pipeline.beam.errors import RunnerError


def start_pool(host: str = "127.0.0.1", port: int = 0) -> tuple[int, grpc.Server]:
    """Starts the pool; its workers are threads of this process. Returns the port and the running server."""
    server = grpc.server(
        thread_pool_executor.shared_unbounded_instance(),
        options=[("grpc.http2.max_pings_without_data", 0), ("grpc.http2.max_ping_strikes", 0)],
    )
    bound = server.add_insecure_port(f"{host}:{port}")
    if bound == 0:
        raise RunnerError(f"cannot listen on {host}:{port}; choose another --port")
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(BeamFnExternalWorkerPoolServicer(), server)
    server.start()
    return bound, server


def main(argv: list[str] | None = None) -> None:
    """Serves until SIGTERM or SIGINT. `--port-file` gets the port once the pool answers."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.beam.worker_pool", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", type=Path)
    args = parser.parse_args(argv)
    port, server = start_pool(args.host, args.port)
    if args.port_file:
        part = args.port_file.with_suffix(".part")
        part.write_text(str(port))
        part.rename(args.port_file)
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    over.wait()
    server.stop(0)


if __name__ == "__main__":
    main()
