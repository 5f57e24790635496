"""Scheduler, cluster, BMC and login formats: sample pairs found by name, real outputs, cuts, hostile input."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.knowledge import load_ruleset
from pipeline.formats import RecordFormat, registry, sniff
from pipeline.formats.base import HEAD
from pipeline.scanning.record_scan import Matcher
from schemas.facts import Facts, RunFragment
from tests.pipeline.formats.recording import parse, read_sample

SAMPLES = Path(__file__).parent / "samples"
OURS = (
    "sacct", "sacct.json", "squeue", "squeue.json", "slurm_daemon", "scontrol", "sacctmgr.event", "k8s.json",
    "ipmi.sel", "last", "torchelastic.error", "df",
)  # fmt: skip
RECORDS = tuple(name for name in OURS if isinstance(registry()[name], RecordFormat))
PAIRS = sorted(p for name in OURS for p in (SAMPLES / name).glob("*.in"))

#: What the files of the shared cases are.
CASE_FORMATS = {
    "sacct.txt": "sacct",
    "slurmctld.log": "slurm_daemon",
    "sel.txt": "ipmi.sel",
    "last.txt": "last",
    "k8s-events.json": "k8s.json",
    "torchelastic-error.json": "torchelastic.error",
    "df-shm.txt": "df",
}


def accounted(facts: Facts, data: bytes) -> None:
    (source,) = facts.sources
    assert source.size == len(data)
    for torn in facts.quarantine:
        assert 0 <= torn.offset <= len(data)
        assert 0 <= torn.length <= len(data) - torn.offset
        assert torn.reason
    keys = [f.key for f in facts.fragments]
    assert len(keys) == len(set(keys))


def without_place(fragments: tuple[RunFragment, ...]) -> list[RunFragment]:
    return [replace(f, offset=0, line=None) for f in fragments]


@pytest.mark.parametrize("path", PAIRS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_sample(path: Path):
    assert read_sample(path.parent.name, path.read_bytes()) == json.loads(path.with_suffix(".json").read_text())


@pytest.mark.parametrize("path", PAIRS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_sample_is_recognised_by_its_content(path: Path):
    found = sniff(path.read_bytes(), "some/file.txt")
    assert found is not None
    assert found.name == path.parent.name


def test_every_format_has_samples():
    assert {p.parent.name for p in PAIRS} == set(OURS)


@pytest.mark.parametrize(
    "path", [p for p in PAIRS if p.parent.name in RECORDS], ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_any_cut_is_accounted_and_keeps_what_stands_before(path: Path):
    data = path.read_bytes()
    whole = {f.key: f for f in parse(path.parent.name, data).fragments}
    for cut in range(0, len(data), 37):
        facts = parse(path.parent.name, data[:cut])
        accounted(facts, data[:cut])
        if path.parent.name in ("sacct", "sacct.json"):
            # The row that the cut is in may read shorter; all earlier ones are what they were.
            *before, _ = sorted(facts.fragments, key=lambda f: f.key) or [None]
            assert all(whole[f.key] == f for f in before)


@pytest.mark.parametrize("name", RECORDS)
@given(data=st.binary(max_size=300))
@settings(max_examples=30, deadline=None)
def test_no_bytes_make_a_format_raise(name: str, data: bytes):
    accounted(parse(name, data), data)


def test_a_record_that_says_what_no_column_holds_is_quarantined_alone():
    head = "JobID|State|Start|ExitCode\n"
    rows = ["1|FAILED|yesterday|1:0", "2|GONE|2026-03-03T04:31:07|1:0", "3|FAILED|2026-03-03T04:31:07|x", "|FAILED||"]
    data = (head + "\n".join(rows) + "\n4|COMPLETED|2026-03-03T04:31:07|0:0\n").encode()
    facts = parse("sacct", data)
    assert [f.job_id for f in facts.fragments] == ["4"]
    assert [q.reason.split(":")[0] for q in facts.quarantine] == [
        "not a time in column start", "not a job state", "not an exit code in column exitcode", "no job id",
    ]  # fmt: skip
    offsets = [head.encode().__len__() + sum(len(r) + 1 for r in rows[:i]) for i in range(4)]
    assert [q.offset for q in facts.quarantine] == offsets


def test_a_bar_inside_a_job_name_is_put_right_only_where_all_typed_columns_then_fit():
    data = b"JobID|JobName|State|End\n1|a|b|FAILED|2026-03-03T04:31:07\n2|a|FAILED|2026-03-03T04:31:07|x\n"
    facts = parse("sacct", data)
    assert [(f.job_id, f.name) for f in facts.fragments] == [("1", "a|b")]
    assert [q.reason for q in facts.quarantine] == ["5 fields where the header has 4"]


FULL = (SAMPLES / "sacct" / "parsable_steps_arrays_het.in").read_text().splitlines()
COLUMNS = FULL[0].split("|")
#: Columns that one field of a fragment comes from alone.
FIELD = {
    "State": "state", "Start": "start", "End": "end", "Submit": "submit", "ExitCode": "exit_code",
    "NodeList": "nodes", "AllocTRES": "n_gpus", "User": "user", "Account": "account", "JobName": "name",
    "Reason": "reason", "NNodes": "n_nodes",
}  # fmt: skip


@given(
    columns=st.lists(st.sampled_from(COLUMNS[1:]), unique=True), at=st.integers(0, 18), delim=st.sampled_from("|;\t^")
)
@settings(deadline=None)
def test_any_columns_in_any_order_give_equal_fields(columns: list[str], at: int, delim: str):
    columns.insert(min(at, len(columns)), "JobID")
    rows = [dict(zip(COLUMNS, line.split("|"), strict=True)) for line in FULL]
    text = "\n".join(delim.join(row[c] for c in columns) for row in rows) + "\n"
    whole = parse("sacct", "\n".join(FULL).encode()).fragments
    if len(columns) > 1:
        found = sniff(text.encode(), "x")
        assert found is not None
        assert found.name == "sacct"
    part = parse("sacct", text.encode())
    assert not part.quarantine
    assert [(f.job_id, f.step) for f in part.fragments] == [(f.job_id, f.step) for f in whole]
    for column, name in FIELD.items():
        if column in columns:
            assert [getattr(f, name) for f in part.fragments] == [getattr(f, name) for f in whole]
        else:
            assert all(getattr(f, name) == getattr(RunFragment("s", 0, 0, "", "", ""), name) for f in part.fragments)


@given(columns=st.lists(st.sampled_from([c for c in COLUMNS if not c.startswith("JobID")]), unique=True, min_size=3))
@settings(deadline=None)
def test_a_table_without_job_ids_is_quarantined_as_a_whole(columns: list[str]):
    rows = [dict(zip(COLUMNS, line.split("|"), strict=True)) for line in FULL]
    data = ("\n".join("|".join(row[c] for c in columns) for row in rows) + "\n").encode()
    facts = parse("sacct", data)
    assert not facts.fragments
    assert [(q.offset, q.length) for q in facts.quarantine] == [(0, len(data))]


@given(row=st.integers(1, len(FULL) - 1), cells=st.integers(1, len(COLUMNS) - 1))
@settings(deadline=None)
def test_a_row_with_too_few_fields_is_quarantined_and_the_rest_loaded(row: int, cells: int):
    lines = list(FULL)
    lines[row] = "|".join(lines[row].split("|")[:cells])
    facts = parse("sacct", ("\n".join(lines) + "\n").encode())
    assert len(facts.fragments) == len(FULL) - 2
    assert [q.offset for q in facts.quarantine] == [sum(len(x.encode()) + 1 for x in lines[:row])]


# --- real outputs -------------------------------------------------------------------------------------------------


def test_public_outputs_parse_with_every_byte_accounted(shared_data: Path):
    read = 0
    for folder in ("gcm_slurm", "slurm_exporters", "jc_fixtures", "k8s_fixtures"):
        for path in sorted(p for p in (shared_data / folder).rglob("*") if p.is_file()):
            data = path.read_bytes()
            if path.suffix == ".gz":
                data = gzip.decompress(data)
            found = sniff(data[:HEAD], path.name)
            if found is None or found.name not in RECORDS:
                continue
            read += 1
            accounted(parse(found.name, data, path.name), data)
            accounted(parse(found.name, data[: len(data) // 2], path.name), data[: len(data) // 2])
    assert read >= 15


@pytest.mark.parametrize(
    ("name", "rows", "torn"),
    [
        ("sample-sacct-fake-line-break.txt", 4, 0),
        ("sample-sacct-multiple-multiline.txt", 6, 0),
        ("sample-sacct-one-multiline.txt", 4, 0),
        ("sample-sacct-output-invalid-utf8.txt", 11, 0),
        ("sample-sacct-output-midnight-edge-case.txt", 1186, 0),
        ("sample-sacct-output-with-invalid-lines.txt", 0, 1),
        ("sample-sacct-output.txt", 68, 0),
        ("sample-sacct-running-output-large.txt.gz", 5040, 0),
    ],
)
def test_public_sacct_outputs(shared_data: Path, name: str, rows: int, torn: int):
    data = (shared_data / "gcm_slurm" / name).read_bytes()
    facts = parse("sacct", gzip.decompress(data) if name.endswith(".gz") else data)
    assert (len(facts.fragments), len(facts.quarantine)) == (rows, torn)


@pytest.mark.parametrize("kind", ["fake-line-break", "multiple-multiline", "one-multiline"])
def test_line_breaks_inside_fields_lose_nothing(shared_data: Path, kind: str):
    folder = shared_data / "gcm_slurm"
    broken = parse("sacct", (folder / f"sample-sacct-{kind}.txt").read_bytes())
    mended = parse("sacct", (folder / f"sample-sacct-{kind}-expected.txt").read_bytes())
    strip = [
        [
            replace(f, extra=tuple(e for e in f.extra if not e.startswith("submit_line")))
            for f in without_place(x.fragments)
        ]
        for x in (broken, mended)
    ]
    assert strip[0] == strip[1]


def test_shared_cases_sniff_to_their_format(shared_cases: Path):
    seen = set()
    for path in sorted(shared_cases.glob("*/*")):
        if path.name in CASE_FORMATS:
            found = sniff(path.read_bytes()[:HEAD], path.name)
            assert found is not None
            assert found.name == CASE_FORMATS[path.name], path
            seen.add(path.name)
    assert seen == set(CASE_FORMATS)


def case_fragments(shared_cases: Path, case: str, file: str) -> dict[tuple[str, str], RunFragment]:
    (path,) = shared_cases.glob(f"{case}-*/{file}")
    facts = parse(CASE_FORMATS[file], path.read_bytes(), file)
    assert not facts.quarantine
    return {(f.job_id, f.step): f for f in facts.fragments}


def test_case_of_a_cancelled_job(shared_cases: Path):
    run = case_fragments(shared_cases, "j005", "sacct.txt")["1528763", ""]
    assert (run.state, run.user, run.n_nodes, len(run.nodes)) == ("CANCELLED", "kerstin", 48, 48)
    assert "cancelled_by=41077" in run.extra
    assert run.nodes[33:36] == ("vega-gp34", "vega-gp36", "vega-gp37")


def test_case_of_steps_and_signals(shared_cases: Path):
    runs = case_fragments(shared_cases, "h037", "sacct.txt")
    assert {key: (r.state, r.exit_code, r.exit_signal) for key, r in runs.items()} == {
        ("7311902", ""): ("OUT_OF_MEMORY", 0, 125),
        ("7311902", "0"): ("OUT_OF_MEMORY", 0, 125),
    }


def test_case_of_an_evicted_pod(shared_cases: Path):
    """The node is known from its own shortage; the deletion minutes later is no later end."""
    runs = case_fragments(shared_cases, "j020", "k8s-events.json")
    run = runs["fit-affinity", ""]
    assert (run.state, run.nodes) == ("EVICTED", ("gke-seg-n1-t4-1b2c3d4e-q9zk",))
    assert run.end.us == 1_949_601_689_000_000
    assert runs["fit-affinity", "fit-affinity-worker-0"].state == "EVICTED"


def test_case_of_a_node_that_was_removed(shared_cases: Path):
    run = case_fragments(shared_cases, "j051", "k8s-events.json")["asr-tfjob", ""]
    assert (run.state, run.reason, run.nodes) == ("FAILED", "TFJobFailed", ("gke-spot-v100-7c1e-x2p1",))
    assert (run.start.us, run.end.us) == (1_937_185_802_000_000, 1_937_209_623_000_000)


def test_case_of_a_drained_pod_and_of_pods_that_are_no_runs(shared_cases: Path):
    assert case_fragments(shared_cases, "h058", "k8s-events.json")["resnet", ""].state == "KILLED"
    assert case_fragments(shared_cases, "h040", "k8s-events.json") == {}
    assert case_fragments(shared_cases, "h014", "k8s-events.json") == {}
    failed = case_fragments(shared_cases, "h041", "k8s-events.json")["app-6c9d", "app-6c9d-0"]
    assert (failed.state, failed.exit_code, failed.nodes) == ("FAILED", 1, ("gw-node4",))


# --- what the rules say of it -------------------------------------------------------------------------------------

SIGNALS = {
    "ipmi.sel/ipmitool_elist": ["bmc_memory_ce", "bmc_over", "bmc_psu_input", "bmc_redundancy_lost", "bmc_temp"],
    "ipmi.sel/freeipmi_table": ["bmc_good", "bmc_memory_ue", "bmc_psu_fail"],
    "ipmi.sel/record_form": ["bmc_over", "bmc_processor"],
    "last/crash_and_shutdown": ["last_crash", "last_reboot", "last_shutdown"],
    "scontrol/nodes_and_reservations": ["slurm_drain_gres_low", "slurm_node_down", "slurm_reservation_maint"],
    "sacctmgr.event/history": ["slurm_drain_not_responding", "slurm_drain_said_memory", "slurm_node_down"],
    "k8s.json/events_evicted_and_node_gone": [
        "k8s_backoff", "k8s_evicted_memory", "k8s_failed_mount", "k8s_job_failed", "k8s_pod_killing",
    ],
    "k8s.json/pods_nodes_jobs": [
        "k8s_cond_job_failed", "k8s_cond_not_ready", "k8s_container_crash_loop", "k8s_container_error",
        "k8s_container_oom", "k8s_taint_not_ready",
    ],
    "df/many_hosts": ["df_full_local", "df_full_shared"],
}  # fmt: skip


@pytest.mark.parametrize("sample", sorted(SIGNALS))
def test_what_the_rules_find_in_a_sample(sample: str):
    name = sample.split("/")[0]
    fmt = registry()[name]
    match = Matcher("s", fmt.family, load_ruleset())
    parse(name, (SAMPLES / f"{sample}.in").read_bytes(), match=match)
    found = {s.rule for s in match.fold.facts()}
    assert set(SIGNALS[sample]) <= found


def test_torchelastic_message_reaches_the_rules_with_its_rank():
    match = Matcher("s", "job", load_ruleset())
    data = (SAMPLES / "torchelastic.error" / "traceback.in").read_bytes()
    parse("torchelastic.error", data, "nodes/node017/rank_3/error.json", match)
    signals = match.fold.facts()
    assert signals
    assert {s.host for s in signals} == {"node017"}
    assert {r for s in signals for _, _, r in s.ranks} == {3}
