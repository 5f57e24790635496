"""Fixtures that every package's tests share: the data folder that lies beside the repository.

Its place is `FAULTBEAM_SHARED`, else `../shared` from the root of the repository. Tests on it skip where it is absent;
under CI its absence is a failure, so that a green run there says that the real inputs were read.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A time limit for one example says more about the machine than about the code. `make soak` tries many more.
settings.register_profile("everyday", settings.default, deadline=None, derandomize=bool(os.environ.get("CI")))
settings.register_profile("soak", settings.default, deadline=None, max_examples=3000, derandomize=False)
settings.load_profile("everyday")

pytest_plugins = ("tests.services.fixtures",)

ROOT = Path(__file__).resolve().parent.parent


def _shared(part: str) -> Path:
    place = Path(os.environ.get("FAULTBEAM_SHARED") or ROOT.parent / "shared") / part
    if place.is_dir():
        return place
    message = f"{place} is not a folder: set FAULTBEAM_SHARED to the folder that holds cases/ and data/"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the work tree."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public logs of other projects (`../shared/data`); never part of the repository."""
    return _shared("data")


@pytest.fixture(scope="session")
def shared_cases() -> Path:
    """Incidents and non-incidents re-created from public reports (`../shared/cases`)."""
    return _shared("cases")


@pytest.fixture(scope="session")
def shared_knowledge() -> Path:
    """The tables that the rules were taken from (`../shared/knowledge`)."""
    return _shared("knowledge")
