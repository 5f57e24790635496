"""Commands that fetch what is missing: to paste, and safe to paste."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pipeline.cli.collect import missing, script_lines
from schemas.diagnosis import NotSeenDoc
from tests.pipeline.cli.documents import INCIDENT, incident


def _gap(host: str | None, what: str = "kernel log", get: str = "journalctl -k") -> NotSeenDoc:
    return NotSeenDoc.model_validate({"host": host, "what": what, "from": None, "to": None, "get": get})


def test_each_gap_once_by_host():
    first = incident(not_seen=[_gap("b"), _gap("a"), _gap(None, "scheduler record", "sacct -j 1")])
    again = incident(not_seen=[_gap("a")])
    assert [(g.host, g.what) for g in missing([first, again])] == [
        (None, "scheduler record"),
        ("a", "kernel log"),
        ("b", "kernel log"),
    ]


def test_the_script_runs_each_command_on_its_host():
    gap = missing([incident()])[0]
    assert list(script_lines("5101", [gap])) == [
        "# hn01: kernel log, 2026-03-09T04:08:00Z to 2026-03-09T04:27:00Z",
        "ssh hn01 'journalctl -k --since '\"'\"'2026-03-09 04:08:00'\"'\"'' > hn01-kernel-log.log",
    ]
    assert list(script_lines("1", [_gap(None, "scheduler record", "sacct -j 1")]))[1] == "sacct -j 1"


def test_a_hosts_name_from_a_log_cannot_become_an_option_or_a_command(tmp_path: Path):
    for name in ("-oProxyCommand=touch pwned", "a; touch pwned", "a\ntouch pwned", "$(touch pwned)", ""):
        script = "\n".join(script_lines("1", [_gap(name)]))
        assert all(line.startswith("#") for line in script.splitlines())
        subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True)
    assert list(tmp_path.iterdir()) == []


def test_nothing_missing_is_said():
    lines = list(script_lines("5101\nrm", missing([incident(not_seen=[])])))
    assert lines == ["# nothing is missing for job 5101 rm: every log that could bear on it was seen"]


def test_the_script_is_valid_shell():
    gaps = missing([incident(not_seen=[*INCIDENT["not_seen"], _gap(None, "x", "sacct -j 1"), _gap("h", "y", "")])])
    script = "\n".join(script_lines("5101", gaps))
    subprocess.run(["bash", "-n", "-c", script], check=True)
