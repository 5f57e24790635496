"""What each part of the attribution is worth: rules, text model, evidence model alone, all, and a family of rules off.

The same cases are diagnosed with the same code and other settings. *Without a family*: the strong rules that read job
logs of that family are taken out of the rule set, so that only generic failure rules mark its text; or they are
*muted*: they still mark their lines, without saying what they mean, which measures the model apart from the scan. A
case belongs to a family if, with all rules, its root evidence is a line of one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from classifiers.api import Rule
from classifiers.calibration import Calibration, calibration, coverage_curve
from classifiers.knowledge import RulesetImpl, load_ruleset
from classifiers.knowledge.files import RULES, rule_files
from pipeline.diagnose import DiagnosisResult, diagnose
from pipeline.measuring.evaluate import Case, EvaluationError, load_cases, run_case
from pipeline.measuring.scoring import Report, Share, score, wilson
from schemas.diagnosis import Diagnosis
from schemas.settings import Settings
from schemas.taxonomy import NONE, is_named

#: Whose opinion counts, in the order in which they are shown.
PARTS = ("rules", "text", "evidence", "all")
#: Family -> folders of rules, and ids or beginnings of ids (with `*`) inside them; () takes all.
FAMILIES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cuda": {"cuda": (), "gpu_tools": (), "nvidia": ()},
    "nccl": {
        "nccl": (),
        "mpi": (),
        "pytorch": ("pt_collective*", "pt_rdzv*", "pt_tcpstore*", "pt_watchdog*", "pt_addr*", "gloo", "pt_monitored*"),
    },
    "storage": {"os": (), "storage": (), "disk": ()},
    "slurm": {"slurm": ()},
    "python": {"python": (), "pytorch": ("shape_mismatch", "sigterm_seen"), "cpp": (), "jax": (), "ray": ()},
    "data": {"pytorch": ("pt_dataloader*", "pt_shm*"), "debug": (), "dependency": ("hf_*",)},
    "dependency": {"dependency": ()},
    "job": {},
}
#: The family of all strong rules of job logs at once.
EVERYTHING = "job"


@dataclass(frozen=True, slots=True)
class Part:
    """One row of an ablation. answered: named answers. calibration: of named answers, acceptable counts as right."""

    name: str
    report: Report
    precision: Share
    calibration: Calibration
    curve: tuple[tuple[float, float, float], ...]  # (threshold, coverage, precision)


@dataclass(frozen=True, slots=True)
class WithoutFamily:
    """The cases of one family once its rules are off or muted. rules_off: how many. cases: their names."""

    family: str
    muted: bool
    rules_off: int
    cases: tuple[str, ...]
    by_part: dict[str, tuple[Share, Share]]  # part -> (acceptable, precision when it answers)
    answers: dict[str, tuple[str, str, float | None]]  # case -> (expected, answer of the text model, confidence)


@cache
def _folders() -> dict[str, str]:
    return {path.stem: path.parent.name for path in rule_files(RULES)}


def in_family(rule: Rule, family: str) -> bool:
    """Whether a rule is one of those that are switched off for a family."""
    if rule.strength == "weak" or rule.family != "job":
        return False
    folder = _folders().get(rule.id, "")
    if family == EVERYTHING:
        return folder != "markers"
    wanted = FAMILIES[family].get(folder)
    if wanted is None:
        return False
    return not wanted or any(rule.id == w or (w.endswith("*") and rule.id.startswith(w[:-1])) for w in wanted)


def without(family: str, *, muted: bool = False) -> tuple[RulesetImpl, frozenset[str]]:
    """The installed rules without a family's, and the ids that are off. `EvaluationError` for an unknown family.

    muted: those rules stay as generic failure rules.
    """
    if family not in FAMILIES:
        msg = f"no family {family!r} of job-log rules; there are {', '.join(FAMILIES)}"
        raise EvaluationError(msg)
    full = load_ruleset()
    off = frozenset(r.id for r in full.rules.values() if in_family(r, family))
    kept = [_generic(r) if r.id in off else r for r in full.rules.values() if muted or r.id not in off]
    return RulesetImpl(kept, full.number, f"{full.stamp}-{family}-{muted}"), off


def _generic(rule: Rule) -> Rule:
    """The rule as one that only marks its line."""
    tags = frozenset({"exception"})
    return replace(rule, component="by_log", alt=None, role="symptom", strength="weak", tags=tags, links=())


def _run(
    cases: Sequence[Case],
    settings: Settings,
    ruleset: RulesetImpl | None = None,
    seen: Callable[[str, DiagnosisResult], None] | None = None,
) -> Report:
    answers = []
    for case in cases:
        name = case.expected.case

        def once(folder: Path, name: str = name) -> Diagnosis:
            result = diagnose([folder], settings, ruleset=ruleset)
            if seen is not None:
                seen(name, result)
            return result.document

        answers.append(run_case(case, once))
    return score([case.expected for case in cases], answers)


def _part(name: str, report: Report) -> Part:
    named = [v for v in report.verdicts if not v.error and v.answer != NONE and is_named(v.answer)]
    pairs = [(v.confidence or 0.0, v.acceptable) for v in named]
    answerable = sum(v.expected != NONE for v in report.verdicts)
    curve = tuple(coverage_curve(pairs, answerable))
    return Part(name, report, wilson(sum(ok for _, ok in pairs), len(pairs)), calibration(pairs), curve)


def ablate(folder: Path, settings: Settings, progress: Callable[[int, int], None] | None = None) -> list[Part]:
    """The cases of a folder by rules alone, by each model alone, and by all."""
    cases = load_cases(folder)
    parts = []
    for done, name in enumerate(PARTS, start=1):
        parts.append(_part(name, _run(cases, settings.model_copy(update={"opinions": name}))))
        if progress is not None:
            progress(done * len(cases), len(PARTS) * len(cases))
    return parts


def leave_out(folder: Path, family: str, settings: Settings, *, muted: bool = False) -> WithoutFamily:
    """The cases of a family with its rules off: text model alone, and the rest of the rules with the model."""
    ruleset, off = without(family, muted=muted)
    roots: dict[str, str] = {}

    def remember(name: str, result: DiagnosisResult) -> None:
        for decision in result.decisions[:1]:
            roots[name] = next((i.event.rule for i in decision.evidence if i.role == "root"), "")

    cases = load_cases(folder)
    _run(cases, settings, None, remember)
    mine = [c for c in cases if roots.get(c.expected.case) in off and is_named(c.expected.component)]
    by_part: dict[str, tuple[Share, Share]] = {}
    answers: dict[str, tuple[str, str, float | None]] = {}
    for name in PARTS:
        report = _run(mine, settings.model_copy(update={"opinions": name}), ruleset)
        by_part[name] = (report.acceptable, _part(name, report).precision)
        if name == "text":
            answers = {v.case: (v.expected, v.answer, v.confidence) for v in report.verdicts}
    return WithoutFamily(family, muted, len(off), tuple(c.expected.case for c in mine), by_part, answers)


def as_dict(parts: Sequence[Part]) -> dict[str, object]:
    """The parts as plain data for JSON."""
    return {
        "schema": "faultbeam.ablation/1",
        "parts": [
            {
                "name": p.name,
                "cases": p.report.cases,
                "strict": asdict(p.report.strict),
                "acceptable": asdict(p.report.acceptable),
                "precision": asdict(p.precision),
                "false_alarms": p.report.false_alarms,
                "wrong_sure": p.report.wrong_sure,
                "calibration": asdict(p.calibration),
                "coverage_precision": [list(point) for point in p.curve],
            }
            for p in parts
        ],
    }
