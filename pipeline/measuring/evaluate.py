"""Evaluation: known incidents are diagnosed without their names and answers in sight, then scored.

A *folder of cases* holds folders with a `case.json` (`expected`, `acceptable`, `decidable`, `first_failing`); each is
copied to a folder of a neutral name, without its `case.json`, and read as one input. A *folder of labelled files*
holds a `labels_dev.tsv` (`file`, `component_class`, `also_acceptable` split by `;`; without `component_class` every
run whose `run_stop_status` is `success` or `aborted` is expected to have no incident); each file is read alone.
File names are kept (they may carry a job's id), folder names are not.
"""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import PipelineError
from pipeline.measuring.scoring import Answer, Expected, Place, Report, score
from schemas.diagnosis import Diagnosis
from schemas.errors import FaultbeamError
from schemas.taxonomy import NONE, component

CASE_FILE = "case.json"
LABELS_FILE = "labels_dev.tsv"
#: What the copied input is called: a name that says nothing.
NEUTRAL = "input"

#: From one input folder to its diagnosis.
Diagnose = Callable[[Path], Diagnosis]


class EvaluationError(PipelineError):
    """A set of cases cannot be used; the text names the file, the value and what to do."""


@dataclass(frozen=True, slots=True)
class Case:
    """One input with its known answer. `files`: (place, path inside the neutral folder)."""

    expected: Expected
    files: tuple[tuple[Path, str], ...]


def load_cases(folder: Path) -> list[Case]:
    """The cases of a folder, by name. `EvaluationError` where it holds none, or one is malformed."""
    if (folder / LABELS_FILE).is_file():
        return list(_labelled_files(folder))
    own = [folder] if (folder / CASE_FILE).is_file() else []
    found = own or sorted(p.parent for p in folder.glob(f"*/{CASE_FILE}"))
    if not found:
        msg = f"{folder}: no cases here; expected folders with a {CASE_FILE}, or a {LABELS_FILE} beside the files"
        raise EvaluationError(msg)
    return [_case_folder(path) for path in found]


def _known(component_id: str, where: str) -> str:
    if component_id != NONE:
        try:
            component(component_id)
        except FaultbeamError as error:
            msg = f"{where}: {error}"
            raise EvaluationError(msg) from None
    return component_id


def _case_folder(folder: Path) -> Case:
    where = str(folder / CASE_FILE)
    try:
        data = json.loads((folder / CASE_FILE).read_text(encoding="utf-8"))
        expected = _known(str(data["expected"]), where)
        acceptable = frozenset(_known(str(c), where) for c in data.get("acceptable") or ())
        place = data.get("first_failing") or {}
        known = Expected(
            case=folder.name,
            component=expected,
            acceptable=acceptable | {expected},
            decidable=str(data.get("decidable") or ""),
            first_failing=Place(*(place.get(name) for name in ("host", "gpu", "rank"))),
        )
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        msg = f"{where}: not a case ({type(error).__name__}: {error}); it needs at least {{'expected': COMPONENT}}"
        raise EvaluationError(msg) from error
    files = tuple(
        (path, str(path.relative_to(folder)))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != CASE_FILE
    )
    return Case(known, files)


def _labelled_files(folder: Path) -> Iterator[Case]:
    table = folder / LABELS_FILE
    with table.open(encoding="utf-8", newline="") as handle:
        for number, row in enumerate(csv.DictReader(handle, dialect="excel-tab"), start=2):
            where = f"{table}:{number}"
            name = row.get("file")
            if not name:
                msg = f"{where}: no value in column 'file'; this table labels something other than files"
                raise EvaluationError(msg)
            path = folder / name
            if not path.is_file():
                msg = f"{where}: {name!r} is not a file below {folder}"
                raise EvaluationError(msg)
            expected = _known(_expected_of_row(row, where), where)
            also = [c.strip() for c in (row.get("also_acceptable") or "").split(";") if c.strip()]
            known = Expected(
                case=name,
                component=expected,
                acceptable=frozenset(_known(c, where) for c in also) | {expected},
                decidable=row.get("outcome") or row.get("run_stop_status") or "",
            )
            yield Case(known, ((path, path.name),))


def _expected_of_row(row: dict[str, Any], where: str) -> str:
    given = row.get("component_class")
    if given:
        return str(given)
    status = row.get("run_stop_status")
    if status in ("success", "aborted"):
        return NONE
    msg = f"{where}: neither a component_class nor a run_stop_status of success or aborted (it is {status!r})"
    raise EvaluationError(msg)


def answer_of(case: str, diagnosis: Diagnosis, seconds: float = 0.0) -> Answer:
    """The first incident as the answer; `none` where there is no incident."""
    if not diagnosis.incidents:
        return Answer(case, NONE, seconds=seconds)
    first = diagnosis.incidents[0]
    return Answer(
        case=case,
        component=first.component,
        confidence=first.confidence,
        cause=first.cause,
        first_failing=Place(first.first_failing.host, first.first_failing.gpu, first.first_failing.rank),
        incidents=len(diagnosis.incidents),
        seconds=seconds,
    )


def run_case(case: Case, diagnose: Diagnose) -> Answer:
    """Copy a case to a neutral place, diagnose it there, and remove the copy."""
    with tempfile.TemporaryDirectory(prefix="eval-") as scratch:
        target = Path(scratch) / NEUTRAL
        target.mkdir()
        for path, inner in case.files:
            (target / inner).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / inner)
        began = time.perf_counter()
        name = case.expected.case
        try:
            diagnosis = diagnose(target)
        except FaultbeamError as error:
            return Answer(name, "error", seconds=time.perf_counter() - began, error=str(error))
        except Exception as error:
            error.add_note(f"while evaluating {name}")
            raise
        return answer_of(name, diagnosis, time.perf_counter() - began)


def default_diagnose(**overrides: Any) -> Diagnose:  # noqa: ANN401 - settings of any type
    """The project's own `diagnose` with default settings, as a function of one folder."""
    from pipeline.diagnose import diagnose
    from schemas.settings import Settings

    settings = Settings(**overrides)
    return lambda folder: diagnose([folder], settings).document


def evaluate(
    folder: Path, diagnose: Diagnose | None = None, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Diagnose and score every case of a folder, in this process. `progress` is told (done, all) after each."""
    run = diagnose or default_diagnose()
    cases = load_cases(folder)
    answers = []
    for done, case in enumerate(cases, start=1):
        answers.append(run_case(case, run))
        if progress is not None:
            progress(done, len(cases))
    return score([case.expected for case in cases], answers)
