"""Whether this machine is set up right: a list of checks, each with a verdict and the next step.

Levels: `ok`; `note`, something optional is not there; `fail`, something required is missing. Nothing is changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distributions, packages_distributions, requires, version
from pathlib import Path

from schemas.errors import FaultbeamError

#: Names that faultbeam puts at the top level; others use them too.
TOP_LEVEL = ("pipeline", "classifiers", "schemas", "sql")
OLDEST_PYTHON = (3, 11)
_LIBRARIES = ("hyperscan", "re2")
_STREAM_TOOLS = {
    "java": "needed by the Flink runner and a Kafka broker for tests",
    "mvn": "fetches a Kafka broker for tests",
    "go": "builds Beam's Prism runner",
    "prism": "Beam's runner for trying the stream on one machine",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `hint` is the next step where the level is not `ok`."""

    name: str
    level: str  # ok | note | fail
    found: str
    hint: str = ""


def run_checks(warehouse: str | None = None, *, stream: bool = True) -> list[Check]:
    """All checks in a fixed order. `warehouse`: URL to look at, None for no such check.

    stream: also the short look at what a stream needs; `pipeline.stream.checks` looks closely.
    """
    checks: list[Callable[[], Iterator[Check]]] = [
        _python,
        _packages,
        _engines,
        _clashes,
        _ruleset,
        _cache,
        _clock,
        *([_stream] if stream else []),
    ]
    found = [check for group in checks for check in group()]
    if warehouse is not None:
        found.append(check_warehouse(warehouse))
    return found


def ruleset_number() -> int:
    """Number of the knowledge in use, from its lock file and those of plugins."""
    from classifiers.knowledge import ruleset_number as of_all

    return of_all()


def _python() -> Iterator[Check]:
    have = ".".join(map(str, sys.version_info[:3]))
    if tuple(sys.version_info[:2]) >= OLDEST_PYTHON:
        yield Check("python", "ok", f"{have} ({sys.executable})")
    else:
        yield Check("python", "fail", have, "install Python 3.11 or later")
    inside = sys.prefix != sys.base_prefix
    hint = "" if inside else "use an environment of its own: python3 -m venv DIR"
    yield Check("environment", "ok" if inside else "note", "own" if inside else "the system's", hint)


def _packages() -> Iterator[Check]:
    from packaging.requirements import Requirement

    wanted = [Requirement(text) for text in requires("faultbeam") or ()]
    for requirement in sorted(wanted, key=lambda r: r.name.lower()):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            have = version(requirement.name)
        except PackageNotFoundError:
            yield Check(f"package {requirement.name}", "fail", "not installed", f"pip install '{requirement}'")
            continue
        if requirement.specifier.contains(have, prereleases=True):
            yield Check(f"package {requirement.name}", "ok", have)
        else:
            yield Check(f"package {requirement.name}", "fail", have, f"pip install '{requirement}'")


def _engines() -> Iterator[Check]:
    usable = []
    for name in _LIBRARIES:
        try:
            import_module(name)
        except ImportError as error:
            yield Check(f"engine {name}", "note", f"cannot be loaded: {error}", "the other engine is used")
        else:
            usable.append(name)
            yield Check(f"engine {name}", "ok", "loads")
    if not usable:
        yield Check("engine", "fail", "none", "pip install hyperscan google-re2")


def _clashes() -> Iterator[Check]:
    """Whether another distribution, or a file on the path, also provides one of our top-level names."""
    owners = packages_distributions()
    for name in TOP_LEVEL:
        others = sorted({d for d in owners.get(name, ()) if d.lower() != "faultbeam"})
        module = import_module(name)
        place = Path(module.__file__ or "").resolve().parent
        ours = Path(__file__).resolve().parent.parent / name
        if place != ours:
            hint = "install faultbeam in an environment of its own"
            yield Check(f"name {name}", "fail", f"taken by {place}", hint)
        elif others:
            hint = f"remove {', '.join(others)} from this environment: files of one may overwrite the other's"
            yield Check(f"name {name}", "fail", f"also provided by {', '.join(others)}", hint)
        else:
            yield Check(f"name {name}", "ok", str(place))
    installed = [d for d in distributions() if d.name and d.name.lower() == "faultbeam"]
    if not installed:
        yield Check("distribution", "note", "runs from a folder, not installed", "pip install --editable .")


def _ruleset() -> Iterator[Check]:
    try:
        from classifiers.knowledge import load_ruleset

        ruleset = load_ruleset()
    except FaultbeamError as error:
        yield Check("ruleset", "fail", str(error), "faultbeam rules lint")
        return
    yield Check("ruleset", "ok", f"number {ruleset.number}, {len(ruleset.rules)} rules")


def _cache() -> Iterator[Check]:
    from classifiers.knowledge.files import cache_dir

    place = cache_dir()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        yield Check("cache", "note", f"{place}: {error.strerror}", "every start compiles the rules again (0.1 s)")
    else:
        yield Check("cache", "ok", str(place))


def _clock() -> Iterator[Check]:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo("Europe/Berlin")
    except ZoneInfoNotFoundError:
        yield Check("time zones", "fail", "no zone data", "install tzdata (the system's package or pip install tzdata)")
    else:
        yield Check("time zones", "ok", "zone data found")
    yield Check("local zone", "ok", f"{time.tzname[0]} (never used for logs; --tz says the zone of bare stamps)")


def _stream() -> Iterator[Check]:
    for tool, why in _STREAM_TOOLS.items():
        place = shutil.which(tool)
        if place is None:
            yield Check(f"stream: {tool}", "note", "not found", f"optional: {why}")
        else:
            yield Check(f"stream: {tool}", "ok", _tool_version(tool) or place)
    try:
        yield Check("stream: confluent-kafka", "ok", version("confluent-kafka"))
    except PackageNotFoundError:
        hint = "optional: pip install 'faultbeam[stream]' reads Kafka"
        yield Check("stream: confluent-kafka", "note", "not installed", hint)


@cache
def _tool_version(tool: str) -> str | None:
    """First line that the tool prints about its version; None where it gives none within 5 s."""
    flags = {"go": ("version",), "java": ("-version",), "mvn": ("--batch-mode", "--version")}.get(tool)
    if flags is None:
        return None
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run([tool, *flags], capture_output=True, text=True, timeout=5, env=environment, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    printed = (done.stdout or done.stderr).strip().splitlines()
    return printed[0] if done.returncode == 0 and printed else None


def check_warehouse(url: str) -> Check:
    """Whether the warehouse answers and its schema is the one that this version writes."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        shown = make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return Check("warehouse", "fail", f"{url!r} is not a database URL", "write sqlite:///FILE or postgresql://...")
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database and not Path(parsed.database).exists():
        return Check("warehouse", "note", f"{shown}: not there yet", "faultbeam ingest PATH makes it")
    return _schema_state(url, shown)


def _schema_state(url: str, shown: str) -> Check:
    from sql.migrations import check

    try:
        state = check(url)
    except FaultbeamError as error:
        return Check("warehouse", "fail", str(error), "see the message")
    if not state.ok:
        return Check("warehouse", "fail", state.advice, "faultbeam db upgrade")
    return Check("warehouse", "ok", f"{shown}: schema {state.current}, up to date")
