"""Values of options: times, assignments, settings."""

from __future__ import annotations

import click
import pytest

from pipeline.cli.options import parse_assignment, parse_time, settings
from pipeline.cli.output import plain, when

NOON = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01 12:00", NOON),
        ("2026-03-01T13:00:00+01:00", NOON),
        ("2026-03-01T12:00:00.000001Z", NOON + 1),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("2026-03-01", NOON - 12 * 3600 * 1_000_000),
    ],
)
def test_times_are_microseconds_utc(text: str, us: int):
    assert parse_time(text) == us


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "12:00"])
def test_what_is_no_time_is_wrong_use(text: str):
    with pytest.raises(click.BadParameter, match="write it like"):
        parse_time(text)


def test_a_time_is_printed_as_it_is_read():
    assert when(NOON) == "2026-03-01T12:00:00Z"
    assert when(None) is None
    assert parse_time(when(NOON) or "") == NOON


def test_assignments():
    assert parse_assignment("job=4711") == ("job", "4711")
    assert parse_assignment("text=a=b") == ("text", "a=b")
    with pytest.raises(click.BadParameter):
        parse_assignment("job")


def test_options_win_over_the_environment_which_wins_over_defaults(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FAULTBEAM_CLUSTER", "from-environment")
    monkeypatch.setenv("FAULTBEAM_TZ", "Europe/Berlin")
    made = settings(cluster="given", assignments=(("threshold", "0.5"),))
    assert (made.cluster, made.tz, made.threshold, made.window_after_s) == ("given", "Europe/Berlin", 0.5, 300.0)


def test_other_variables_of_ours_do_not_disturb(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FAULTBEAM_WAREHOUSE", "sqlite:///x.db")
    assert settings().cluster == "default"


@pytest.mark.parametrize(
    ("assignment", "words"),
    [(("treshold", "0.5"), "Settings are: cluster"), (("threshold", "much"), "threshold='much'")],
)
def test_wrong_settings_are_wrong_use(assignment: tuple[str, str], words: str):
    with pytest.raises(click.UsageError) as caught:
        settings(assignments=(assignment,))
    assert words in caught.value.message


def test_a_zone_that_does_not_exist_is_wrong_use():
    with pytest.raises(click.UsageError, match="Europe/Berlin or UTC"):
        settings(tz="Mars/Olympus")


def test_control_characters_of_logs_never_reach_the_terminal():
    assert plain("a\x1b[31mred\x07\r\n\tb\x9b") == "a\\x1b[31mred\\x07\\x0d  b\\x9b"
    assert plain(None) == ""
    assert plain(True) == "yes"
    assert plain(0.123456) == "0.1235"
    assert plain("2026-03-01T12:00:00.000250Z") == "2026-03-01T12:00:00Z"
    assert plain("at 2026-03-01T12:00:00.5Z") == "at 2026-03-01T12:00:00.5Z"
