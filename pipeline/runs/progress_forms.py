"""How training frameworks print a step: one form a line, and how one line is read by them.

A form is tried where one of its words stands in the line; the first that fits gives series, step and seconds a step.
To add a framework, add a line to `FORMS` and a sample to tests/pipeline/runs/test_progress.py.
"""

# ruff: noqa: E501 - one form a line is easier to check than a pattern cut in pieces

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.formats import mlperf
from pipeline.records.rank_prefix import clean

#: A line longer than this is cut before it is read for progress.
LINE = 4096

_NOT_TRAINING = re.compile(
    r"(?i)\b(?:eval\w*|valid\w*|test(?:ing)?|infer\w*|predict\w*|generat\w*|download\w*|upload\w*|fetch\w*|load\w*|sav(?:e|ing|ed)"
    r"|tokeniz\w*|map|filter\w*|sanity|prepar\w*|processing|extract\w*|shuffl\w*|resolv\w*|import\w*|convert\w*|creating"
    r"|building|computing|capturing|compil\w*|warm-?up|resum\w*|restor\w*|checkpoint\w*|skipping|rendezvous)\b"
)
_TRAINING = re.compile(r"(?i)\btrain(?:ing)?\b")
#: Numbers of steps that are settings or totals, not steps done.
_NOT_STEPS = re.compile(
    r"(?i)\b(?:max\w*|total|effective|warm\w*|constant|decay|every|each|per|number of|num|n|accum\w*|logging|save|of)[ _-]"
    r"(?:train\w*[ _]|global[ _])?(?:steps?|iter\w*|updates?|epochs?|batch\w*)\b"
)
LOSS = re.compile(r"(?i)loss|\blr\b|learning.rate|grad_?.?norm|tok(?:ens)?/s|tflop|mfu|samples/s|\bppl\b|reward")


@dataclass(frozen=True, slots=True)
class Form:
    """One way to print a step. `step`, and where there are any `total`, `epoch`: names of groups of `pattern`.

    rank: order of trust, 0 best. need: a word that must stand in the line before the pattern is tried.
    """

    name: str
    unit: str
    rank: int
    need: tuple[str, ...]
    pattern: re.Pattern[str]
    seconds: tuple[tuple[re.Pattern[str], float], ...] = ()
    training_only: bool = True  # lines with words of other work are not read


def _p(text: str) -> re.Pattern[str]:
    return re.compile(text)


_NUM = r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_SECONDS: tuple[tuple[re.Pattern[str], float], ...] = (
    (_p(rf"elapsed time per iteration \(ms\): {{0,3}}{_NUM}"), 1e-3),
    (_p(rf"elapsed time per iteration \(s\): {{0,3}}{_NUM}"), 1.0),
    (_p(rf"train_step_timing in s['\"]?[:=] {{0,3}}{_NUM}"), 1.0),
    (_p(rf"iteration_time : {_NUM} ms"), 1e-3),
    (_p(rf"(?i)iter(?:ation)?[_ ]time(?: \(s\))?[:=] {{0,2}}{_NUM}"), 1.0),
    (_p(rf"(?i)step[_ ]time(?:_s|\(s\))?[:=] {{0,2}}{_NUM} ?(?!ms)(?:s|sec)?\b"), 1.0),
    (_p(rf"(?i)(?:step[_ ]time|\btime)[:=]? {{0,2}}{_NUM} ?ms\b"), 1e-3),
    (_p(rf"{_NUM} ?(?:s|sec)/(?:it|step|iter|batch)\b"), 1.0),
    (_p(rf"{_NUM} ?ms/(?:it|step|iter|batch)\b"), 1e-3),
    (_p(rf"(?<![_\w])[tT]ime:?\s{{1,3}}{_NUM}(?: ?s\b| ?\(|,|\s|$)"), 1.0),
    (_p(rf"(?i)\bseconds: {_NUM}"), 1.0),
    (_p(rf"(?<![(\d.]){_NUM} ?(?:s|sec|seconds)\)?(?:,|$)"), 1.0),
)
_PER_SECOND = (
    _p(rf"{_NUM} ?(?:it|steps?|iter|batch)/s"),
    _p(rf"global_step/sec: {_NUM}"),
)
_TIME_OF_N = _p(rf"Time\((\d+) iters\): {_NUM}s")
_STEP_WORD = r"(?:global[_ ]?|train(?:ing)?[_/ ]?|trainer/)*step"

FORMS: tuple[Form, ...] = (
    Form("megatron", "step", 0, ("iteration",), _p(r"\biteration\s{1,12}(?P<step>\d{1,9}) ?/ {0,12}(?P<total>\d{1,9}) \|"), training_only=False),
    Form("nemo", "step", 0, ("global_step",), _p(r"\bglobal_step['\"]?[:=] {0,2}(?P<step>\d{1,10})\b.{0,200}?(?:loss|timing)")),
    Form("dll", "step", 0, ("DLL ",), _p(r"^.{0,80}DLL .{0,40}- Iteration (?P<step>\d{1,10}) \|"), training_only=False),
    Form("hugectr", "step", 0, ("[HCTR]",), _p(r"\]: Iter: (?P<step>\d{1,10}) Time\("), training_only=False),
    Form("fairseq", "step", 0, ("num_updates",), _p(r"['\"]?num_updates['\"]?[:=]? ['\"]?(?P<step>\d{1,10})\b"), training_only=False),
    Form("darknet", "step", 0, ("avg",), _p(r"^\s{0,4}(?P<step>\d{1,9}): \d[\d.]*, \d[\d.]* avg"), training_only=False),
    Form("composer", "step", 0, ("[batch=",), _p(r"\[batch=(?P<step>\d{1,9})/(?P<total>\d{1,9})\]")),
    Form("mm.iter", "step", 0, ("Iter",), _p(r"\bIter(?:\(train\))? \[ {0,8}(?P<step>\d{1,9})/ {0,8}(?P<total>\d{1,9})\]")),
    Form("mm.epoch", "step", 1, ("Epoch",), _p(r"\bEpoch(?:\(train\))?:? {1,3}\[ ?(?P<epoch>\d{1,6})\]\s{0,3}\[ {0,8}(?P<step>\d{1,9})/ {0,8}(?P<total>\d{1,9})\]")),
    Form("wenet", "step", 1, ("TRAIN Batch ",), _p(r"\bTRAIN Batch (?P<epoch>\d{1,6})/(?P<step>\d{1,9}) loss ")),
    Form("fairseq.bar", "step", 1, ("epoch ",), _p(r"\bepoch (?P<epoch>\d{1,6}): {1,8}(?P<step>\d{1,9}) / (?P<total>\d{1,9}) ")),
    Form("iteration.of", "step", 1, ("teration",), _p(r"\bepoch (?P<epoch>\d{1,6}), iteration (?P<step>\d{1,9})/(?P<total>\d{1,9})\b")),
    Form("tqdm", "step", 2, ("%|",), _p(r"(?P<desc>[^|\r\n\]]{0,80}?)\d{1,3}%\|[^|\r\n]{0,300}\| {0,8}(?P<step>\d{1,10})/(?P<total>\d{1,10}) \[(?P<rest>[^\]\r\n]{1,200})\]"), training_only=False),
    Form("step", "step", 1, ("step", "Step", "STEP"), _p(rf"(?i)(?<![\w./-]){_STEP_WORD}s?['\"]?\s{{0,3}}[:=#\[]?\s{{0,8}}['\"]?(?P<step>\d{{1,10}})(?:\s?/\s?(?P<total>\d{{1,10}}))?(?![\w.])")),
    Form("iter", "step", 1, ("iter", "Iter"), _p(r"(?i)(?<![\w./-])iter(?:ation)?s?['\"]?\s{0,3}[:=#\[]?\s{0,8}(?P<step>\d{1,10})(?:\s?/\s?(?P<total>\d{1,10}))?(?![\w.])")),
    Form("keras", "step", 2, ("[=", "=]", "━"), _p(r"^\s{0,4}(?P<step>\d{1,9})/(?P<total>\d{1,9}) (?:\[[=>.]{5,60}\]|[━ ]{5,60}) ")),
    Form("update", "step", 2, ("pdate", "atch"), _p(r"(?i)\b(?:update|batch)(?:_idx|_id|es)?['\"]?\s{0,3}[:=#\[]?\s{0,8}(?P<step>\d{1,10})(?:\s?/\s?(?P<total>\d{1,10}))?(?![\w.])")),
    Form("epoch", "epoch", 4, ("poch",), _p(r"(?i)\bepoch['\"]?\s{0,3}[:=#\[]?\s{0,8}(?P<step>\d{1,7})(?:\s?/\s?(?P<total>\d{1,7}))?(?![\w.])")),
    Form("hf.dict", "mille", 4, ("'epoch'", '"epoch"'), _p(r"['\"]epoch['\"]: ['\"]?(?P<step>\d{1,6}\.\d{1,6})")),
    Form("bare", "step", 6, (), _p(r"^\s{0,8}(?P<step>\d{1,9})\s{0,4}$"), training_only=False),
)  # fmt: skip
_EPOCH_WORD = _p(r"(?i)\bepoch[:= ]{1,3}\[?(\d{1,6})")
_OTHER_UNIT = _p(r"\d ?(?:[kMGT]?i?B|examples?|files?|ex|rows?|docs?|tokens?|img|images?)/s")


def seconds_of(text: str) -> float | None:
    """Seconds a step that a line prints, None where it prints none."""
    if m := _TIME_OF_N.search(text):
        return float(m[2]) / max(1, int(m[1]))
    for pattern, unit in _SECONDS:
        if m := pattern.search(text):
            value = float(m[1]) * unit
            return value if 0 < value < 86_400 else None
    for pattern in _PER_SECOND:
        if (m := pattern.search(text)) and float(m[1]) > 0:
            return 1.0 / float(m[1])
    return None


def read_line(line: str) -> tuple[Form, str, int, float | None] | None:
    """(form, series, completed step, seconds a step) of one line by the first form that fits; None for other lines."""
    text = clean(line)[:LINE]
    if mlperf.MARK in text:
        event = mlperf.step(text)
        return None if event is None else (_MLLOG[event[0].split("/", 1)[0]], *event)
    for form in FORMS:
        if form.need and not any(word in text for word in form.need):
            continue
        m = None
        for m in form.pattern.finditer(text):  # noqa: B007 - bars glued into one line: the last one counts
            if form.name != "tqdm":
                break
        if m is None or (form.training_only and _is_other(text)):
            continue
        groups = m.groupdict()
        total = groups.get("total")
        series = f"{form.unit}/{form.name}" + (f":{total}" if total else "")
        if form.name == "tqdm":
            desc = groups["desc"]
            if _NOT_TRAINING.search(desc) or _OTHER_UNIT.search(groups["rest"]):
                continue
            epoch = _EPOCH_WORD.search(desc)
            groups["epoch"] = epoch[1] if epoch else None
        step = int(float(groups["step"]) * 1000) if form.unit == "mille" else int(groups["step"])
        if groups.get("epoch") and total and step <= int(total):
            step += int(groups["epoch"]) * int(total)
        return form, series, step, seconds_of(m[0] if form.name == "tqdm" else text)
    return None


_MLLOG = {
    "step": Form("mllog", "step", 0, (), _p("x")),
    "samples": Form("mllog", "samples", 3, (), _p("x")),
    "epoch": Form("mllog", "epoch", 4, (), _p("x")),
}


def _is_other(text: str) -> bool:
    """Whether a line speaks of other work or of settings. A line of training with a loss may name both."""
    if _NOT_STEPS.search(text):
        return True
    return bool(_NOT_TRAINING.search(text)) and not (_TRAINING.search(text) and LOSS.search(text))


def trust(series: str) -> int:
    """Order of trust of a series by its name; smaller is better."""
    unit, _, rest = series.partition("/")
    name = rest.split(":", 1)[0]
    if name.startswith("mllog"):
        return _MLLOG[unit].rank
    return next((form.rank for form in FORMS if form.name == name and form.unit == unit), 9)
