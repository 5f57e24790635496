"""Cutting one log into attempts: by restarts, banners, ends, and steps that are done again."""

# ruff: noqa: E501 - sample lines are as long as logs print them

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.runs.attempts import LogView, Mark, Part, cut, how_it_ended
from schemas.facts import NO_STAMP


def log(*marks: str) -> LogView:
    """A log in shorthand, ten bytes a mark: `step:3`, `start:rule`, `failure`, `restart`, `success`, `end:mlperf` ..."""
    out = []
    for i, word in enumerate(marks):
        kind, _, more = word.partition(":")
        step = int(more) if kind == "step" else None
        tags = frozenset({more}) if more == "mlperf" else frozenset[str]()
        rule = "" if step is not None else (more or kind)
        out.append(Mark(10 * i, kind, NO_STAMP, rule, "", step, (), tags))
    return LogView("s", tuple(out), (), "step/step")


def ends(*marks: str) -> list[tuple[int, int, str]]:
    return [(p.low, p.high, p.ended) for p in cut(log(*marks))]


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ((), [(0, -1, "")]),
        (("step:1", "step:2"), [(0, -1, "")]),
        (("step:1", "success"), [(0, -1, "success")]),
        (("step:1", "planned_end"), [(0, -1, "planned")]),
        (("step:1", "failure"), [(0, -1, "failure")]),
        (("step:1", "stop"), [(0, -1, "failure")]),
        (("failure", "step:1", "step:2"), [(0, -1, "")]),
        # an elastic restart, with all its agents' lines, is one cut
        (("step:1", "failure", "restart", "restart", "init", "step:2", "success"), [(0, 21, "restart"), (21, -1, "success")]),
        (("step:1", "restart", "init", "step:1", "restart", "step:1"), [(0, 11, "restart"), (11, 41, "restart"), (41, -1, "")]),
        # nothing behind the restart: the attempt that it ended is the last one
        (("resume", "restart"), [(0, -1, "restart")]),
        (("step:1", "failure", "restart", "teardown"), [(0, -1, "restart")]),
        # a banner behind real progress, or behind an end, begins an attempt; before progress it does not
        (("start:a", "step:1", "step:2", "failure", "start:a", "step:1"), [(0, 40, "restart"), (40, -1, "")]),
        (("failure", "start:a", "start:b", "step:1", "step:2"), [(0, -1, "")]),
        (("step:3500", "start:a", "step:1"), [(0, -1, "")]),
        (("start:a", "step:1", "step:2", "success", "start:a", "step:1"), [(0, 40, "success"), (40, -1, "")]),
        (("start:a", "failure", "start:a", "failure"), [(0, 20, "restart"), (20, -1, "failure")]),
        # a soft word begins one only behind an end or the scheduler's stop
        (("step:1", "step:2", "soft:x", "step:3"), [(0, -1, "")]),
        (("step:1", "step:2", "stop", "soft:x", "step:1"), [(0, 30, "restart"), (30, -1, "")]),
        # a crash, a checkpoint, and a step that was done before: a restart nobody announced
        (("step:10", "step:20", "failure", "resume", "step:11"), [(0, 30, "restart"), (30, -1, "")]),
        (("step:10", "step:20", "failure", "resume", "step:21"), [(0, -1, "")]),
        # benchmark trials in one file; its own end holds whatever follows
        (("start:mlperf", "step:1", "end:mlperf", "start:mlperf", "step:1"), [(0, 30, "end"), (30, -1, "")]),
        (("start:mlperf", "step:1", "success:mlperf", "step:2", "failure"), [(0, -1, "success")]),
        (("step:0", "start:mlperf", "step:1"), [(0, -1, "")]),
        # a word of success in the middle is about something else; a failure behind it takes it back
        (("step:1", "success", "step:2"), [(0, -1, "")]),
        (("step:1", "success", "failure"), [(0, -1, "failure")]),
        (("step:1", "success", "teardown"), [(0, -1, "success")]),
    ],
)  # fmt: skip
def test_where_attempts_end_and_how(marks: tuple[str, ...], expected: list[tuple[int, int, str]]) -> None:
    assert ends(*marks) == expected


def test_the_mark_that_ended_an_attempt_belongs_to_it() -> None:
    first, second = cut(log("step:1", "failure", "restart", "init", "step:2"))
    assert [m.kind for m in first.marks] == ["step", "failure", "restart"]
    assert [m.kind for m in second.marks] == ["init", "step"]
    assert first.end_mark is not None
    assert first.end_mark.kind == "restart"


def test_behind_the_end_and_a_save_a_time_out_is_only_the_shutdown() -> None:
    hung = Mark(90, "failure", tags=frozenset({"timeout"}))
    aborted = Mark(95, "failure", tags=frozenset({"exit_code"}))
    crashed = Mark(97, "failure", rule="cuda_oom")
    done = log("step:1", "step:2", "ckpt_saved", "success").marks
    assert how_it_ended((*done, hung, aborted))[0] == "success"
    assert how_it_ended((*done, hung, crashed))[0] == "failure"
    # without a save the results may be lost
    assert how_it_ended((*log("step:1", "step:2", "success").marks, hung))[0] == "failure"


WORDS = st.sampled_from(
    ["step:1", "step:2", "step:90", "failure", "stop", "teardown", "restart", "start:a", "soft:b", "init", "resume", "success",
     "end:mlperf", "start:mlperf", "planned_end", "ckpt_saved", "ckpt_begin"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=25))
def test_parts_cover_the_log_once(marks: list[str]) -> None:
    view = log(*marks)
    parts = cut(view)
    assert parts[0].low == 0
    assert parts[-1].high == -1
    assert [p.high for p in parts[:-1]] == [p.low for p in parts[1:]]
    assert [m for p in parts for m in p.marks] == list(view.marks)
    assert all(p.ended for p in parts[:-1])


@given(st.lists(WORDS, max_size=12))
def test_an_own_end_is_never_read_into_a_log_without_one(marks: list[str]) -> None:
    kept = [m for m in marks if not m.startswith(("success", "end", "planned_end"))]
    assert how_it_ended(log(*kept).marks)[0] in ("", "failure")
    assert isinstance(cut(log(*kept))[0], Part)
