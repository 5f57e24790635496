"""Container logs, shippers, kubectl's text and recorder dumps: sample pairs, what is claimed, cuts, odd input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.knowledge import load_ruleset
from pipeline.formats import RecordFormat, registry, sniff
from pipeline.formats.base import SourceInfo
from pipeline.scanning.record_scan import Matcher
from schemas.facts import Facts, Stamp, merge_facts
from tests.pipeline.formats.framing import Before, as_json, frames, lines_of

SAMPLES = Path(__file__).parent / "samples"
OURS = (
    "docker.json", "filebeat", "fluentbit", "k8s.cri", "k8s.describe", "k8s.events_table", "loki.json", "loki.jsonl",
    "nccl.flight_recorder", "otlp.json", "vector",
)  # fmt: skip
PAIRS = sorted(p for name in OURS for p in (SAMPLES / name).glob("*.in"))
LINES = ("docker.json", "filebeat", "fluentbit", "k8s.cri", "loki.jsonl", "vector")


def parsed(name: str, data: bytes, path: str = "a.in") -> Facts:
    fmt = registry()[name]
    assert isinstance(fmt, RecordFormat)
    match = Matcher("s", fmt.family, load_ruleset())
    facts = fmt.parse(data, SourceInfo("s", path, "r", len(data), None), match)
    inner = [Facts(signals=m.fold.facts()) for m in match.streams.values()]
    return merge_facts([facts, Facts(signals=match.fold.facts()), *inner])


def said(name: str, path: Path) -> Any:
    """What a sample's reading must give, short enough to keep beside it."""
    data = path.read_bytes()
    fmt = registry()[name]
    if not isinstance(fmt, RecordFormat):
        out = []
        for number, line, frame in frames(fmt, data):
            row = as_json(fmt, line, number, frame)
            if frame.rank is not None:
                row["rank"] = frame.rank
            if frame.stream is not None:
                s = frame.stream
                row["stream"] = [s.key, s.family, s.format, s.host, list(s.job_ids), list(s.facts)]
            out.append(row)
        return out
    facts = parsed(name, data, path.name.removesuffix(".in"))
    return {
        "sources": [
            {"path": s.inner_paths[0], "family": s.family, "format": s.format, "host": s.host, "jobs": list(s.job_ids),
             "spans": [list(span) for span in s.spans], "facts": list(s.facts), "note": s.note}
            for s in sorted(facts.sources, key=lambda s: s.inner_paths)
        ],
        "signals": sorted(
            [s.rule, s.first.kind, s.first.us, s.first_offset, s.first_line, s.host, s.text] for s in facts.signals
        ),
        "fragments": [
            [f.job_id, f.step, f.state, f.start.us, f.end.us, f.exit_code, list(f.nodes), f.n_gpus, f.reason]
            for f in facts.fragments
        ],
        "progress": [[p.series, p.first_step, p.last_step, p.n] for p in facts.progress],
        "quarantine": [[q.offset, q.length, q.reason] for q in facts.quarantine],
    }  # fmt: skip


@pytest.mark.parametrize("path", PAIRS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_sample(path: Path):
    assert said(path.parent.name, path) == json.loads(path.with_suffix(".json").read_text())


@pytest.mark.parametrize("path", PAIRS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_sample_is_recognised_by_its_content(path: Path):
    found = sniff(path.read_bytes(), "some/file.txt")
    assert found is not None
    assert found.name == path.parent.name


def test_every_format_has_samples():
    assert {p.parent.name for p in PAIRS} == set(OURS)


@pytest.mark.parametrize("path", [p for p in PAIRS if p.parent.name not in LINES], ids=lambda p: p.parent.name)
def test_any_cut_is_accounted(path: Path):
    data = path.read_bytes()
    for cut in range(1, len(data), 61):
        facts = parsed(path.parent.name, data[:cut])
        assert sum(s.size for s in facts.sources) == cut
        for torn in facts.quarantine:
            assert torn.reason
            assert 0 <= torn.offset <= torn.offset + torn.length <= cut


@pytest.mark.parametrize("name", LINES)
@given(data=st.data())
@settings(max_examples=60)
def test_torn_and_flipped_lines_frame(name: str, data: st.DataObject):
    fmt = registry()[name]
    assert not isinstance(fmt, RecordFormat)
    path = data.draw(st.sampled_from([p for p in PAIRS if p.parent.name == name]))
    lines = lines_of(path.read_bytes())
    at = data.draw(st.integers(0, len(lines) - 1))
    line = lines[at]
    a, b = sorted((data.draw(st.integers(0, len(line))), data.draw(st.integers(0, len(line)))))
    line = line[:a] + data.draw(st.text(max_size=4)) + line[b:]
    frame = fmt.frame(line, Before(lines, at))
    fmt.mark(line, frame)


@given(st.text(max_size=300))
@settings(max_examples=80)
def test_any_text_is_no_reason_to_raise(text: str):
    for name in ("k8s.describe", "k8s.events_table", "otlp.json", "loki.json"):
        head = {"k8s.describe": "Name:   a\n", "k8s.events_table": "LAST SEEN   REASON   OBJECT   MESSAGE\n"}.get(
            name, "{"
        )
        facts = parsed(name, (head + text).encode())
        assert sum(s.size for s in facts.sources) == len((head + text).encode())


def test_a_partial_line_is_read_with_the_pieces_before_it():
    fmt = registry()["k8s.cri"]
    assert not isinstance(fmt, RecordFormat)
    lines = lines_of((SAMPLES / "k8s.cri" / "partial_lines_and_both_streams.in").read_bytes())
    frame = fmt.frame(lines[4], Before(lines, 4))
    assert frame.text == "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert frame.rank == 3


def test_a_described_pod_and_node_give_a_run_with_its_cause():
    facts = parsed("k8s.describe", (SAMPLES / "k8s.describe" / "oom_pod_and_lost_node.in").read_bytes())
    (pod,) = [f for f in facts.fragments if f.step]
    assert (pod.job_id, pod.state, pod.exit_code, pod.nodes, pod.n_gpus) == ("fit", "OOM_KILLED", 137, ("gpu-17",), 8)
    assert pod.start == Stamp("utc", 1772511620_000_000)
    rules = {s.rule for s in facts.signals}
    assert {"k8s_container_oom", "k8s_cond_not_ready"} <= rules
    # the age of an event counts from when the command ran, which the pod's start dates
    first, last = sorted(s.first.us for s in facts.signals if "BackOff" in s.text)
    assert (first, last) == tuple((1772511607 + (50 - ago) * 60) * 1_000_000 for ago in (8, 2))


def test_real_kubectl_texts_are_told(shared_data: Path):
    folder = shared_data / "k8s_fixtures"
    told = {"k8s.describe": 0, "k8s.events_table": 0}
    for path in sorted(folder.rglob("*.txt")):
        found = sniff(path.read_bytes()[:65536], path.name)
        if found is not None and found.name in told:
            told[found.name] += 1
            facts = parsed(found.name, path.read_bytes())
            assert sum(s.size for s in facts.sources) == path.stat().st_size
            assert not facts.quarantine
    assert told["k8s.describe"] >= 16
    assert told["k8s.events_table"] >= 3
