"""Parses a record format's input with a matcher that writes down what it is asked, short enough to keep as a sample."""

from __future__ import annotations

from typing import Any

from pipeline.formats import RecordFormat, SourceInfo, registry
from schemas.facts import NO_STAMP, Facts, RunFragment, Stamp
from tests.pipeline.formats.framing import as_json, frames


class Recorder:
    """A `LineMatcher` without rules."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def __call__(
        self, text: str, *, offset: int, line: int | None, stamp: Stamp, host: str = "", rank: int | None = None
    ) -> Facts:
        said: dict[str, Any] = {"text": text, "offset": offset, "line": line}
        if stamp != NO_STAMP:
            said["stamp"] = [stamp.kind, stamp.us]
        said.update({k: v for k, v in (("host", host), ("rank", rank)) if v not in ("", None)})
        self.said.append(said)
        return Facts()


def fragment_as_json(fragment: RunFragment) -> dict[str, Any]:
    """Only what is set."""
    out: dict[str, Any] = {"job": fragment.job_id, "offset": fragment.offset, "line": fragment.line}
    for name in ("scheduler", "cluster", "step", "state", "user", "account", "name", "reason"):
        if value := getattr(fragment, name):
            out[name] = value
    for name in ("exit_code", "exit_signal", "n_nodes", "n_gpus"):
        if (number := getattr(fragment, name)) is not None:
            out[name] = number
    for name in ("submit", "start", "end"):
        if (stamp := getattr(fragment, name)) != NO_STAMP:
            out[name] = [stamp.kind, stamp.us]
    out.update({k: list(v) for k, v in (("nodes", fragment.nodes), ("extra", fragment.extra)) if v})
    return out


def parse(name: str, data: bytes, path: str = "a.in", match: Any = None) -> Facts:
    fmt = registry()[name]
    assert isinstance(fmt, RecordFormat)
    return fmt.parse(data, SourceInfo("s", path, "r", len(data), None), match or Recorder())


def read_sample(name: str, data: bytes) -> Any:
    fmt = registry()[name]
    if not isinstance(fmt, RecordFormat):
        return [as_json(fmt, line, number, frame) for number, line, frame in frames(fmt, data)]
    recorder = Recorder()
    facts = parse(name, data, match=recorder)
    (source,) = facts.sources
    assert source.size == len(data)
    return {
        "fragments": [fragment_as_json(f) for f in facts.fragments],
        "said": recorder.said,
        "spans": [list(span) for span in source.spans],
        "host": source.host,
        "facts": list(source.facts),
        "quarantine": [[q.offset, q.length, q.reason] for q in facts.quarantine],
    }
