"""Commands on real inputs and a real warehouse."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.cli.conftest import EXAMPLE, run

KERNEL = (
    "2026-03-09T04:19:24+00:00 n3 kernel: NVRM: Xid (PCI:0000:52:00): 79, pid=1, name=x, GPU has fallen off the bus.\n"
)


def _incident(warehouse: str, job: str) -> str:
    rows = json.loads(run("query", "incidents", "--format", "json", "--warehouse", warehouse).output)
    (found,) = [row["incident_id"] for row in rows if row["job_id"] == job]
    return found


# ---- diagnose ----------------------------------------------------------------------------------------------------


def test_diagnose_one_job_for_people():
    result = run("diagnose", EXAMPLE, "--job", "5102")
    assert result.exit_code == 0
    first, *rest = result.output.splitlines()
    assert first.startswith("RESTART WITHOUT hn02")
    text = "\n".join(rest)
    assert "gpu.device" in text
    assert "hosts/hn02/kern.log:" in text
    assert "5101" not in text


def test_diagnose_reads_standard_input():
    result = run("diagnose", "-", "--format", "json", stdin=KERNEL.encode())
    assert result.exit_code == 0
    (incident,) = json.loads(result.output)["incidents"]
    assert (incident["kind"], incident["component"]) == ("host_fault", "gpu.device")


def test_diagnose_by_time_and_host():
    result = run("diagnose", EXAMPLE, "--around", "2026-03-09T05:40:00Z", "--host", "hn06", "--format", "json")
    assert [i["job_id"] for i in json.loads(result.output)["incidents"]] == ["5103"]


def test_fail_on_incident(tmp_path: Path):
    quiet = tmp_path / "quiet.log"
    quiet.write_text("2026-03-09T04:19:24+00:00 hn03 kernel: eth0: renamed from veth1\n")
    assert run("diagnose", quiet, "--fail-on", "incident").exit_code == 0
    assert run("diagnose", EXAMPLE, "--job", "5101", "--fail-on", "incident").exit_code == 1


def test_a_torn_input_is_named_and_the_rest_is_done(tmp_path: Path):
    (tmp_path / "kern.log").write_text(KERNEL)
    (tmp_path / "torn.log.gz").write_bytes(gzip.compress(KERNEL.encode() * 2000)[:60])
    result = run("diagnose", tmp_path)
    assert result.exit_code == 3
    assert "torn.log.gz" in result.stderr
    assert "gpu.device" in result.stdout


def test_an_empty_file_is_no_incident(tmp_path: Path):
    (tmp_path / "empty.log").touch()
    result = run("diagnose", tmp_path / "empty.log")
    assert result.exit_code in (0, 3)
    assert result.stdout.startswith("NOTHING WAS INTERRUPTED")


def test_a_path_that_is_not_there_is_named(tmp_path: Path):
    result = run("diagnose", tmp_path / "nowhere.log")
    assert result.exit_code in (2, 3)
    assert "nowhere.log" in result.stderr


# ---- warehouse ---------------------------------------------------------------------------------------------------


def test_a_second_ingest_changes_nothing(warehouse: str):
    result = run("ingest", EXAMPLE, "--cluster", "example", "--warehouse", warehouse, "--format", "json")
    assert result.exit_code == 0, result.output
    again = json.loads(result.output)
    assert again["changed"] == []
    assert again["bytes"] > 1_000_000


def test_ingest_of_bad_input_is_done_and_told(tmp_path: Path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "kern.log").write_text(KERNEL)
    (tmp_path / "logs" / "torn.log.gz").write_bytes(gzip.compress(KERNEL.encode() * 2000)[:60])
    url = f"sqlite:///{tmp_path / 'bad.db'}"
    result = run("ingest", tmp_path / "logs", "--warehouse", url)
    assert result.exit_code == 3
    assert "torn.log.gz" in result.stderr
    assert "faultbeam query quarantine" in result.stdout
    rows = json.loads(run("query", "quarantine", "--format", "json", "--warehouse", url).output)
    assert len(rows) == 1
    assert [
        r["component"] for r in json.loads(run("query", "incidents", "--format", "json", "--warehouse", url).output)
    ]


def test_ingest_shows_its_progress_on_a_terminal_and_only_there(tmp_path: Path):
    (tmp_path / "kern.log").write_text(KERNEL)
    words = [sys.executable, "-m", "pipeline.cli.main", "ingest", str(tmp_path / "kern.log"), "--warehouse"]
    piped = subprocess.run([*words, f"sqlite:///{tmp_path / 'a.db'}"], capture_output=True, text=True, check=True)
    assert piped.stderr == ""
    assert "incidents 1 new" in piped.stdout
    screen, terminal = pty.openpty()
    with subprocess.Popen(
        [*words, f"sqlite:///{tmp_path / 'b.db'}"],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                part = os.read(screen, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
    os.close(screen)
    assert process.returncode == 0
    for stage in (b"reading", b"loading", b"deciding"):
        assert stage in shown


def test_a_bare_direct_runner_is_refused(tmp_path: Path):
    result = run("ingest", EXAMPLE, "--runner", "DirectRunner", "--warehouse", f"sqlite:///{tmp_path / 'x.db'}")
    assert result.exit_code == 2
    assert "DirectRunner" in result.stderr


def test_explain_tells_the_story_in_the_order_of_time(warehouse: str):
    incident = _incident(warehouse, "5101")
    result = run("explain", incident[:8], "--warehouse", warehouse)
    assert result.exit_code == 0, result.output
    story = result.output.split("Why this cause")[0]
    times = [line[2:22] for line in story.splitlines() if line.startswith("  2026-")]
    assert len(times) >= 5
    assert times == sorted(times)
    assert "xid.48" in story
    assert "hosts/hn03/kern.log:" in story
    assert "Why not the next" in result.output
    assert incident in result.output


def test_explain_from_logs_gives_the_same_as_from_the_warehouse(warehouse: str):
    incident = _incident(warehouse, "5114")
    stored = run("explain", incident, "--warehouse", warehouse)
    fresh = run("explain", incident, str(EXAMPLE), "--cluster", "example")
    assert fresh.exit_code == 0, fresh.output
    assert fresh.output == stored.output


def test_explain_of_an_unknown_incident_says_what_to_do(warehouse: str):
    result = run("explain", "ffff", "--warehouse", warehouse)
    assert result.exit_code == 2
    assert "faultbeam query incidents" in result.stderr


def test_a_label_wins_and_is_kept(warehouse: str):
    incident = _incident(warehouse, "5112")
    wrong = run("label", incident, "--component", "net.fabrik", "--warehouse", warehouse)
    assert wrong.exit_code == 2
    assert "did you mean net.fabric" in wrong.stderr
    done = run("label", incident[:10], "--component", "net.fabric", "--note", "bad optic", "--warehouse", warehouse)
    assert done.exit_code == 0, done.output
    assert incident in done.output
    assert run("reattribute", "--cluster", "example", "--warehouse", warehouse).exit_code == 0
    rows = json.loads(run("query", "incidents", "--format", "json", "--warehouse", warehouse).output)
    (row,) = [r for r in rows if r["incident_id"] == incident]
    assert (row["component"], row["decided_by"]) == ("net.fabric", "label")
    assert "net.fabric" in run("explain", incident, "--warehouse", warehouse).output


def test_diagnose_with_a_warehouse_knows_what_people_said(warehouse: str):
    incident = _incident(warehouse, "5112")
    run("label", incident, "--component", "net.fabric", "--warehouse", warehouse)
    words = ["diagnose", EXAMPLE, "--job", "5112", "--cluster", "example", "--format", "json"]
    (alone,) = json.loads(run(*words).output)["incidents"]
    (helped,) = json.loads(run(*words, "--warehouse", warehouse).output)["incidents"]
    assert alone["component"] == "unknown.nccl_timeout"
    assert (helped["incident_id"], helped["component"], helped["decided_by"]) == (incident, "net.fabric", "label")


def test_reattribute_without_a_reason_changes_nothing(warehouse: str):
    result = run("reattribute", "--cluster", "example", "--warehouse", warehouse, "--format", "json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["changes"] == []
    assert document["decided"] >= 15


def test_reattribute_with_another_threshold_says_what_changed(warehouse: str):
    changed = run("reattribute", "--cluster", "example", "--set", "threshold=0.99", "--warehouse", warehouse)
    assert changed.exit_code == 0, changed.output
    assert "unknown" in changed.output
    assert "gpu.hbm" in changed.output


def test_collect_from_the_warehouse_and_from_logs(warehouse: str, tmp_path: Path):
    log = tmp_path / "slurm-5112.out"
    import tarfile

    with tarfile.open(EXAMPLE) as archive:
        for member in archive.getmembers():
            if member.name.endswith(("slurm-5112.out", "sacct.txt")):
                handle = archive.extractfile(member)
                assert handle is not None
                (tmp_path / Path(member.name).name).write_bytes(handle.read())
    assert log.exists()
    result = run("collect", "--job", "5112", tmp_path)
    assert result.exit_code == 0, result.output
    assert "ssh hn01 " in result.output
    assert "kernel log" in result.output
    stored = run("collect", "--job", "5112", "--cluster", "example", "--warehouse", warehouse)
    assert stored.exit_code == 0
    assert len(stored.output) < len(result.output), "with kernel logs at hand less is missing"
    assert run("collect", "--job", "1", "--warehouse", warehouse).exit_code == 2


def test_every_saved_query_runs(warehouse: str):
    listed = json.loads(run("query", "--list", "--format", "json").output)
    assert len(listed) >= 5
    values = {"job": "5101", "host": "hn03", "incident": _incident(warehouse, "5101")}
    for query in listed:
        words: list[str] = []
        for parameter in query["parameters"]:
            if parameter["required"]:
                words += ["--param", f"{parameter['name']}={values[parameter['name']]}"]
        for output_format in ("table", "json"):
            result = run("query", query["query"], *words, "--format", output_format, "--warehouse", warehouse)
            assert result.exit_code == 0, f"{query['query']}: {result.output}"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["query", "incidentz"], "did you mean incidents"),
        (["query", "job_evidence"], "--param job="),
        (["query", "incidents", "--param", "limit=many"], "limit=many"),
        (["query", "incidents", "--param", "limit"], "name=value"),
    ],
)
def test_a_wrong_query_says_what_is_right(warehouse: str, words: list[str], says: str):
    result = run(*words, "--warehouse", warehouse)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_warehouse_that_is_not_there_says_how_to_make_one(tmp_path: Path):
    result = run("query", "incidents", "--warehouse", f"sqlite:///{tmp_path / 'no.db'}")
    assert result.exit_code == 2
    assert "faultbeam ingest" in result.stderr


def test_db_sweep_forgets_what_a_stream_left(tmp_path: Path):
    from schemas.facts import Facts, SourceFact
    from sql.store import open_store
    from sql.touched import marks_since, settle_marks

    url = f"sqlite:///{tmp_path / 'swept.db'}"
    with open_store(url, create=True) as store:
        source = SourceFact("s1", ("a.log",), "stream", "kern", "kernel", 1, None, "h")
        store.load_facts(Facts((source,)), cluster="c", mark=True)
        with store.writing("c") as connection:
            settle_marks(connection, "c", {"s1": 1})
    kept = run("db", "sweep", "--warehouse", url, "--cluster", "c", "--format", "json")
    assert json.loads(kept.stdout) == {"lines": 0, "marks": 0, "messages": 0}
    swept = run("db", "sweep", "--warehouse", url, "--cluster", "c", "--keep-days", "0")
    assert swept.stdout == "forgot 0 sets of lines, 1 marks, 0 messages\n"
    with open_store(url) as store, store.reading() as connection:
        assert marks_since(connection, "c", None) == {}


def test_db_check_and_upgrade(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'new.db'}"
    missing = run("db", "check", "--warehouse", url)
    assert missing.exit_code == 1
    assert "faultbeam" in missing.output
    assert run("db", "upgrade", "--warehouse", url).exit_code == 0
    checked = run("db", "check", "--warehouse", url, "--format", "json")
    assert checked.exit_code == 0
    assert json.loads(checked.output)["ok"] is True


# ---- rules -------------------------------------------------------------------------------------------------------


def test_rules_list_filters():
    rows = json.loads(run("rules", "list", "--component", "gpu.hbm", "--format", "json").output)
    assert rows
    everything = json.loads(run("rules", "list", "--format", "json").output)
    assert len(everything) > len(rows)


def test_rules_show_a_rule_and_a_code():
    (rule,) = json.loads(run("rules", "show", "nv_xid", "--format", "json").output)
    assert rule["must_match"]
    *_, code = json.loads(run("rules", "show", "xid.79", "--format", "json").output)
    assert (code["rule"], code["component"]) == ("nv_xid", "gpu.device")
    assert "fallen off" in run("rules", "show", "xid.79").output or "PCIe" in run("rules", "show", "xid.79").output


def test_rules_show_of_nothing_known_names_what_is_close():
    result = run("rules", "show", "nv_xidd")
    assert result.exit_code == 2
    assert "nv_xid" in result.stderr


def test_rules_test_says_what_a_line_means():
    (hit,) = json.loads(run("rules", "test", "--format", "json", "--text", KERNEL.split("kernel: ")[1].strip()).output)
    assert (hit["signal"], hit["device"]) == ("xid.79", "pci:0000:52:00")
    assert "no rule matches" in run("rules", "test", "--text", "all is well").output


def test_rules_test_runs_all_samples():
    result = run("rules", "test")
    assert result.exit_code == 0, result.output
    assert int(result.output.split()[0]) > 300


def test_rules_lint_is_clean():
    result = run("rules", "lint")
    assert result.exit_code == 0, result.output


# ---- evaluate, doctor --------------------------------------------------------------------------------------------


def test_evaluate_prints_a_line_a_case(tmp_path: Path):
    for name, expected in (("a", "gpu.device"), ("b", "none")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kern.log").write_text(KERNEL)
        (tmp_path / name / "case.json").write_text(json.dumps({"expected": expected}))
    result = run("evaluate", tmp_path, "--verbose")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[1].split()[:4] == ["right", "a", "gpu.device", "gpu.device"]
    assert lines[2].split()[:2] in (["WRONG", "b"], ["WRONG", "AND"])
    assert "strict            0.500 (1/2" in result.output
    assert "0.353" in result.output
    assert run("evaluate", tmp_path, "--fail-under", "0.6").exit_code == 1
    document = json.loads(run("evaluate", tmp_path, "--format", "json", "-v").output)
    assert document["schema"] == "faultbeam.evaluation/1"
    assert [v["case"] for v in document["verdicts"]] == ["a", "b"]


def test_doctor_is_well_here(warehouse: str):
    result = run("doctor", "--warehouse", warehouse, "--format", "json")
    document = json.loads(result.output)
    assert [c for c in document["checks"] if c["level"] == "fail"] == []
    assert result.exit_code == 0
    names = {c["name"] for c in document["checks"]}
    assert {"python", "ruleset", "name sql", "warehouse", "stream: java", "time zones", "cache"} <= names


def test_rows_as_csv_are_those_of_json(warehouse: str):
    import csv

    wanted = json.loads(run("query", "incidents", "--format", "json", "--warehouse", warehouse).output)
    text = run("query", "incidents", "--format", "csv", "--warehouse", warehouse).output
    rows = list(csv.DictReader(text.splitlines()))
    assert [r["incident_id"] for r in rows] == [w["incident_id"] for w in wanted]
    assert list(rows[0]) == list(wanted[0])
    assert {k: v for k, v in rows[0].items() if v} == {k: str(v) for k, v in wanted[0].items() if v is not None}
