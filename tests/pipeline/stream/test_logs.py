"""Log lines of the stream: for people and for programs."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime

import pytest

from pipeline.stream.logs import set_up_logs


@pytest.fixture(autouse=True)
def _root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level


def _written(as_json: bool) -> list[str]:
    out = io.StringIO()
    set_up_logs(as_json=as_json, out=out)
    log = logging.getLogger("pipeline.stream.supervisor")
    log.info("submitted", extra={"fields": {"submission": "s1", "message": "never replaces the message"}})
    logging.getLogger("apache_beam.runners").info("a bundle")
    try:
        int("x")
    except ValueError:
        log.exception("two\nlines")
    return out.getvalue().splitlines()


def test_a_json_line_for_each_event() -> None:
    first, second = map(json.loads, _written(True))
    assert (first["level"], first["logger"]) == ("info", "pipeline.stream.supervisor")
    assert (first["message"], first["submission"]) == ("submitted", "s1")
    assert datetime.fromisoformat(first["at"]).tzinfo is not None
    assert second["message"] == "two\nlines"
    assert second["error"].startswith("ValueError: invalid literal")
    assert "Traceback" in second["traceback"]


def test_lines_for_people() -> None:
    lines = _written(False)
    assert lines[0].split(" ", 1)[1].startswith("info submitted submission=s1")
    assert lines[-1].startswith("ValueError")
    assert not [line for line in lines if "a bundle" in line]


def test_what_another_library_installed_is_replaced() -> None:
    other = io.StringIO()
    logging.getLogger().addHandler(logging.StreamHandler(other))
    assert len(_written(True)) == 2
    assert other.getvalue() == ""
