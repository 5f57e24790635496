"""How many steps came after an event of another log: by time, as far as clocks and sparse progress lines can tell."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pipeline.joining.events import ProgressIndex
from schemas.facts import ProgressFact, Stamp


@dataclass(frozen=True)
class _Utc:
    host: str = "b1"
    assumed: tuple[str, ...] = ()

    def utc(self, stamp: Stamp) -> tuple[int | None, float]:
        return stamp.us, 0.1


def _index(*lines: tuple[float, int]) -> ProgressIndex:
    facts = [
        ProgressFact(
            source_id="job",
            cell=n,
            first=Stamp("utc", int(t * 1e6)),
            last=Stamp("utc", int(t * 1e6)),
            first_step=step,
            last_step=step,
            first_offset=100 * n,
            last_offset=100 * n,
            n=1,
        )
        for n, (t, step) in enumerate(lines)
    ]
    return ProgressIndex(facts, {"job": _Utc()}, ())


HUNDRED = ((0.0, 100), (100.0, 120), (200.0, 140))


@pytest.mark.parametrize(
    ("t", "unc", "after"),
    [
        (250.0, 0.0, 0),  # behind the last line
        (199.0, 0.0, 0),  # a second before it: none of its twenty steps came after the event
        (199.0, 5.0, 0),  # and a clock that may be five seconds off proves nothing
        (150.0, 0.0, 10),  # half way between two lines
        (150.0, 5.0, 9),
        (150.0, 3600.0, 9),  # a clock that may be hours off is not asked for more than seconds
        (50.0, 0.0, 30),
    ],
)
def test_steps_between_sparse_lines_count_by_share(t: float, unc: float, after: int) -> None:
    assert _index(*HUNDRED).around("kern", 0, 0, t, t, unc)[1] == after


def test_before_the_first_line_only_what_follows_it_is_known() -> None:
    assert _index(*HUNDRED).around("kern", 0, 0, -10.0, -10.0, 0.5) == (0, 40)


def test_nothing_is_known_without_a_clock() -> None:
    assert _index(*HUNDRED).around("kern", 0, 0, None, None) == (0, 0)
