"""The decide graph: the same decisions as a plain loop, in order, and an error where one does not come back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from pipeline.beam.decide_graph import BeamBatches
from pipeline.beam.errors import ReceiptError
from pipeline.warehouse.redecide import make_decider
from schemas.facts import Facts
from schemas.settings import Settings
from schemas.subject import Decision, Subject
from tests.pipeline.loading import site
from tests.pipeline.tiny_sites import write


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    from pipeline.diagnose import diagnose

    root = write(site("idle"), tmp_path_factory.mktemp("subjects") / "logs")
    found = list(diagnose([root], Settings()).analysis.subjects)
    assert len(found) > 2
    return found


@pytest.mark.parametrize("args", [(), ("--direct_num_workers=2", "--direct_running_mode=multi_processing")])
def test_beam_decides_as_a_loop_does(subjects: list[Subject], args: tuple[str, ...], tmp_path: Path) -> None:
    batches = [subjects[:2], subjects[2:]]
    decide = make_decider(Settings(), 7)
    through = list(BeamBatches(partial(make_decider, Settings(), 7), str(tmp_path), pipeline_args=args)(batches))
    assert through == [list(decide(batch)) for batch in batches]


def test_no_subjects_no_run(tmp_path: Path) -> None:
    assert list(BeamBatches(partial(make_decider, Settings(), 7), str(tmp_path))([])) == []


def forgetful(batch: Sequence[Subject]) -> Sequence[Decision]:
    return make_decider(Settings(), 7)(batch)[1:]


def make_forgetful() -> object:
    return forgetful


def test_a_lost_decision_is_an_error(subjects: list[Subject], tmp_path: Path) -> None:
    with pytest.raises(ReceiptError, match="2 subjects went out and 1 decisions came back"):
        list(BeamBatches(make_forgetful, str(tmp_path))([subjects[:2]]))  # type: ignore[arg-type]


def test_facts_without_anything_have_no_subjects() -> None:
    from classifiers.knowledge import load_ruleset
    from pipeline.analyse import analyse

    assert analyse(Facts(), load_ruleset(), Settings()).subjects == ()
