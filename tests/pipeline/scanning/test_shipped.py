"""Shipped files: what is inside them is read as if it had not been shipped, and streams never mix."""

# ruff: noqa: E501 - sample lines are as long as logs print them

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.knowledge import load_ruleset
from pipeline.analyse import analyse
from pipeline.formats import registry, sniff
from pipeline.formats.shippers import HIDDEN
from pipeline.scanning.lookback import NoBack
from pipeline.scanning.mask import secrets, template
from pipeline.scanning.scan import scan_engine, scan_paths, scan_range
from pipeline.scanning.shipped import CRI, Record, frame_of, job_of, pod_of_path, stamp_of
from pipeline.sources import Range, Source, discover
from schemas.facts import Facts, Stamp, merge_facts
from schemas.settings import Settings
from tests.pipeline.shipping import WRITERS, Place, Shipped, iso

T0 = 1_772_512_267_000_000
S = 1_000_000
SETTINGS = Settings()


def training(place: Place, start: int, steps: int, last: tuple[str, ...]) -> list[Shipped]:
    """A run's output: steps of ten seconds each and its last words."""
    out = [(place, start, "using world size: 16, data-parallel size: 1, tensor-model-parallel size: 8")]
    for i in range(1, steps + 1):
        said = f" iteration {i:8d}/ 2000 | consumed samples: {i} | elapsed time per iteration (ms): 10000.0 | lm loss: 2.1 |"
        out.append((place, start + i * 10 * S, said))
    return out + [(place, start + (steps * 10 + 1 + n) * S, text) for n, text in enumerate(last)]


NAN = ("Traceback (most recent call last):", "ZeroDivisionError: division by zero")
CUDA = ("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",)


def site() -> list[Shipped]:
    """Two jobs on two nodes and a node's kernel log, one line after the other as a collector writes them."""
    a, b = Place("gpu-1", pod="fit-worker-0"), Place("gpu-2", pod="tune-worker-0")
    lines = [*training(a, T0, 60, CUDA), *training(b, T0 + 3 * S, 58, NAN)]
    kern = Place("gpu-1", file="/var/log/kern.log")
    lines.append(
        (kern, T0 + 600 * S, "Mar  3 04:41:07 gpu-1 kernel: [ 8640.100000] NVRM: Xid (PCI:0000:3c:00): 48, pid=77, DBE")
    )
    return sorted(lines, key=lambda line: line[1])


def facts_of(tmp_path: Path, name: str, data: bytes) -> Facts:
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return scan_paths([folder], SETTINGS)


@pytest.mark.parametrize("shipper", sorted(WRITERS))
def test_jobs_and_hosts_of_one_shipped_file_are_told_apart(shipper: str, tmp_path: Path):
    data = WRITERS[shipper](site())
    found = sniff(data[: 64 * 1024], "all.log")
    assert found is not None
    assert found.name == shipper
    facts = facts_of(tmp_path, "all.log", data)
    assert not facts.quarantine
    streams = {s.inner_paths[0].split("!", 1)[1]: s for s in facts.sources if "!" in s.inner_paths[0]}
    assert {s.family for s in streams.values()} == {"job", "syslog"}
    assert {ids for s in streams.values() if s.family == "job" for ids in s.job_ids} == {"fit", "tune"}
    assert sum(s.size for s in facts.sources) == len(data)
    result = analyse(facts, load_ruleset(), SETTINGS)
    runs = {run.job_id: run for run in result.runs}
    assert set(runs) == {"fit", "tune"}
    assert (runs["fit"].last_step, runs["tune"].last_step) == (60, 58)
    decided = {d.run.job_id: d for d in result.decisions if d.incident and d.run is not None}
    assert decided["fit"].component in ("gpu.hbm", "gpu.sram", "gpu.device")
    assert decided["fit"].first_host == "gpu-1"
    assert "xid.48" in {e.event.signal for e in decided["fit"].evidence}
    assert decided["tune"].component == "software.bug"
    assert {e.event.host for e in decided["tune"].evidence} <= {"", "gpu-2"}


@pytest.mark.parametrize("shipper", sorted(set(WRITERS) - {"otlp.json", "loki.json"}))
def test_cuts_do_not_show(shipper: str, tmp_path: Path):
    lines = [line for k in range(12) for line in [(p, us + k * 700 * S, text) for p, us, text in site()]]
    data = WRITERS[shipper](lines)
    path = tmp_path / "in" / "all.jsonl"
    path.parent.mkdir()
    path.write_bytes(data)
    ruleset = load_ruleset()
    engine = scan_engine(ruleset, SETTINGS)
    (source,) = [s for s in discover([path.parent], SETTINGS) if isinstance(s, Source)]
    cuts = range(0, len(data), 64 * 1024)
    assert len(cuts) > 2
    ends = [min(start + 64 * 1024, len(data)) for start in cuts]
    parts = [scan_range(Range(source, a, b), ruleset, engine, SETTINGS) for a, b in zip(cuts, ends, strict=True)]
    whole = merge_facts([scan_range(Range(source, 0, len(data)), ruleset, engine, SETTINGS)])
    assert merge_facts(reversed(parts)).signals == whole.signals
    assert merge_facts(parts).progress == whole.progress
    rows = {s.source_id: (s.job_ids, bool(s.names), s.family, s.spans) for s in merge_facts(parts).sources}
    assert rows == {s.source_id: (s.job_ids, bool(s.names), s.family, s.spans) for s in whole.sources}


def _escaped(text: str, how: str) -> str:
    out = json.dumps(text, ensure_ascii=how != "utf8")
    if how == "slash":
        out = out.replace("/", "\\/")
    if how == "go":
        out = out.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return out


@pytest.mark.parametrize("how", ["plain", "utf8", "slash", "go"])
def test_rules_find_their_samples_inside_json_however_it_is_escaped(how: str, tmp_path: Path):
    """What a rule finds in a line of job output it also finds once that line was shipped."""
    ruleset = load_ruleset()
    texts = sorted(
        {text for rule in ruleset.rules.values() if "job" in (rule.families or ("job",)) and rule.maturity != "retired"
         for text in rule.must_match if "\n" not in text and "\t" not in text}
    )  # fmt: skip
    rows = [
        f'{{"log":{_escaped(text, how)},"stream":"stdout","time":"{iso(T0 + n * S)}","attrs":{{"k":"{n}"}}}}'
        for n, text in enumerate(texts)
    ]
    data = ("\n".join(rows) + "\n").encode()
    facts = facts_of(tmp_path, "c-json.log", data)
    seen = {(s.rule, s.template) for s in facts.signals}
    fmt = registry()["docker.json"]
    missed = []
    for row in rows:
        frame = fmt.frame(row, NoBack())  # type: ignore[union-attr]
        if frame.stream is None or frame.stream.family != "job":
            continue
        for rule, _ in ruleset.match(frame.text, "job"):
            if how == "slash" and all(a.startswith("re:") for a in rule.anchors):
                continue  # no shipper that we know writes slashes so; what is found is found by literals
            if (rule.id, template(secrets(frame.text))) not in seen:
                missed.append((rule.id, frame.text))
    assert not missed


def test_json_lines_without_a_place_belong_to_the_job_of_the_files_path(tmp_path: Path):
    rows = [{"time": iso(us), "level": "info", "message": text} for _, us, text in training(Place(""), T0, 30, NAN)]
    (tmp_path / "in").mkdir()
    facts = facts_of(tmp_path, "slurm-4711.out", "".join(json.dumps(row) + "\n" for row in rows).encode())
    (inner,) = [s for s in facts.sources if s.family == "job"]
    assert inner.job_ids == ("4711",)
    (run,) = analyse(facts, load_ruleset(), SETTINGS).runs
    assert (run.job_id, run.last_step) == ("4711", 30)


def test_every_hidden_literal_is_a_mark_and_long_enough():
    assert all(len(mark) >= 6 for mark in HIDDEN)
    for name in ("docker.json", "fluentbit", "vector", "filebeat", "loki.jsonl"):
        assert set(HIDDEN) <= set(registry()[name].marks)  # type: ignore[union-attr]


def test_a_record_of_several_lines_is_matched_line_by_line(tmp_path: Path):
    text = 'Traceback (most recent call last):\n  File "/a/b.py", line 3, in f\nZeroDivisionError: division by zero'
    data = WRITERS["fluentbit"](
        [*training(Place("n1", pod="fit-0"), T0, 3, ()), (Place("n1", pod="fit-0"), T0 + 99 * S, text)]
    )
    rules = {s.rule for s in facts_of(tmp_path, "x.jsonl", data).signals}
    assert "py_exc" in rules or any(r.startswith("weak_") for r in rules), rules


def test_a_containers_log_belongs_to_the_job_that_its_pods_object_names(tmp_path: Path):
    """The pod's name does not give the job's; its labels do, which only the API's dump holds."""
    name = "llm-head-worker-gpu-xk7p2"
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "train", "labels": {"ray.io/cluster": "llm-7b"},
                     "ownerReferences": [{"kind": "RayCluster", "name": "llm-7b"}]},
        "spec": {"nodeName": "gpu-3", "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
        "status": {"phase": "Failed", "startTime": "2026-03-03T04:31:00Z", "containerStatuses": [
            {"name": "main", "restartCount": 0, "state": {"terminated": {
                "exitCode": 1, "reason": "Error", "startedAt": "2026-03-03T04:31:00Z",
                "finishedAt": "2026-03-03T04:42:00Z"}}}]},
    }  # fmt: skip
    folder = tmp_path / "in"
    log = folder / "pods" / f"train_{name}_9f0c1b2a-77aa" / "main" / "0.log"
    log.parent.mkdir(parents=True)
    lines = training(Place("", pod=name), T0, 40, NAN)
    log.write_text("".join(f"{iso(us)} stdout F {text}\n" for _, us, text in lines))
    (folder / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]}))
    result = analyse(scan_paths([folder], SETTINGS), load_ruleset(), SETTINGS)
    (run,) = result.runs
    assert (run.job_id, run.last_step, run.nodes) == ("llm-7b", 40, ("gpu-3",))
    (incident,) = [d for d in result.decisions if d.incident]
    assert (incident.component, incident.first_host) == ("software.bug", "gpu-3")


@pytest.mark.parametrize(
    ("path", "pod"),
    [
        ("var/log/pods/train_fit-worker-3_9f0c1b2a-77aa-4c1d-9b3e-0123456789ab/main/2.log", ("fit-worker-3", "train", "main", 2)),
        ("a.tar.gz!pods/train_fit-worker-3_7ce47179673a/trainer/0.log.gz", ("fit-worker-3", "train", "trainer", 0)),
        ("var/log/containers/fit-0-x7p2k_ml_main-0123456789abcdef0123456789abcdef.log", ("fit-0-x7p2k", "ml", "main", -1)),
        ("logs/slurm-123.out", None),
        ("pods/readme.log", None),
    ],
)  # fmt: skip
def test_pods_of_paths(path: str, pod: tuple[str, str, str, int] | None):
    found = pod_of_path(path)
    assert (found and (found.name, found.namespace, found.container, found.restart)) == pod


def test_the_job_of_a_pod_comes_from_labels_then_from_its_name():
    pod = pod_of_path("pods/train_fit-worker-3_7ce47179673a/trainer/0.log")
    assert pod is not None
    assert job_of(pod, {}) == "fit"
    assert job_of(pod, {"training.kubeflow.org/job-name": "fit-7b"}) == "fit-7b"
    assert job_of(pod, {"training_kubeflow_org_job_name": "fit-7b"}) == "fit-7b"
    system = pod_of_path("pods/kube-system_kube-proxy-abcde_7ce47179673a/kube-proxy/0.log")
    assert system is not None
    assert job_of(system, {}) == ""


@pytest.mark.parametrize(
    "value",
    ["2026-03-03T04:31:07Z", "2026-03-03T04:31:07.000000000Z", 1772512267, 1772512267.0, "1772512267000", 1772512267000000,
     "1772512267000000000", "2026-03-03T05:31:07+01:00"],
)  # fmt: skip
def test_stamps_of_records(value: object):
    assert stamp_of(value) == Stamp("utc", T0)


@pytest.mark.parametrize("value", [None, True, "", "soon", -1, 12, {}, [], float("nan"), "9" * 40])
def test_odd_stamps_are_none(value: object):
    assert stamp_of(value).kind == "none"


def test_cri_text_inside_a_record_is_unwrapped():
    text = "2026-03-03T04:31:07.000000000Z stderr F [rank3]: RuntimeError: boom"
    assert CRI.match(text)
    frame = frame_of(Record(text, Stamp("utc", T0 + 5 * S), "n1"))
    assert (frame.text, frame.rank, frame.stamp) == ("RuntimeError: boom", 3, Stamp("utc", T0))


@pytest.mark.parametrize("shipper", sorted(WRITERS))
def test_torn_and_wild_documents_never_raise(shipper: str, tmp_path: Path):
    data = WRITERS[shipper](site())
    for n, cut in enumerate((1, len(data) // 2, len(data) - 3)):
        (tmp_path / str(n)).mkdir()
        facts = facts_of(tmp_path / str(n), "x.log", data[:cut])
        assert sum(s.size for s in facts.sources) == cut


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["log", "message", "date", "@timestamp", "kubernetes", "pod_name", "labels", "line", "host", "pod",
                         "name", "agent", "source_type", "timestamp", "file", "stream", "time", "attrs", "values"])
        | st.text(max_size=5), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
@settings(max_examples=150)
def test_any_json_line_frames(value: object):
    line = json.dumps(value)
    for name in ("docker.json", "fluentbit", "vector", "filebeat", "loki.jsonl"):
        fmt = registry()[name]
        frame = fmt.frame(line, NoBack())  # type: ignore[union-attr]
        fmt.mark(line, frame)  # type: ignore[union-attr]
        assert 0.0 <= fmt.sniff(line.encode(), "x") <= 1.0


@pytest.mark.parametrize("path", ["/var/log/dmesg", "/var/log/kern.log", ""])
def test_a_kernel_line_keeps_the_name_of_its_driver(path: str) -> None:
    """`nvme nvme2:` behind an uptime looks like a host and a tag."""
    text = "[ 8640.100000] nvme nvme2: I/O 5 QID 3 timeout, aborting"
    frame = frame_of(Record(text, Stamp("utc", T0), "gpu-1", path=path))
    assert (frame.text, frame.host) == ("nvme nvme2: I/O 5 QID 3 timeout, aborting", "gpu-1")
    assert frame.clock == ("utc", 8_640_100_000, T0)
