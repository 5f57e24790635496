"""What people read of a diagnosis."""

from __future__ import annotations

import pytest

from pipeline.cli.render import diagnosis_lines, evidence_lines, incident_lines, restart_line
from schemas.diagnosis import HealthEventDoc
from tests.pipeline.cli.documents import EVIDENCE, INCIDENT, diagnosis, evidence, incident

GOLDEN = """\
RESTART WITHOUT hn03: its GPU needs a reset first

Job           5101, attempt 2
What          uncorrectable memory error of GPU 2 of hn03
Cause         gpu.hbm (GPU HBM3 Memory), xid.94
Confidence    0.97, by rule
First failing host hn03, GPU 2, rank 18
Started       2026-03-09T01:10:00Z
Last progress 2026-03-09T04:18:37Z
Onset         2026-03-09T04:19:24Z
Interrupted   2026-03-09T04:22:00Z
Scheduler     FAILED, counts as unexpected
Resume from   step 13800 at 2026-03-09T04:18:37Z in /ckpt/gpt-27b
Lost work     1.2 GPU-hours
Action        reset_gpu hn03 GPU 2: activates the row remapping [NVIDIA]
Incident      aaaa000000000000aaaa

Evidence
  root     2026-03-09T04:19:24Z hn03 pci:0000:52:00  xid.94 x2  site.tar.gz!hosts/hn03/kern.log:41
           | NVRM: Xid (PCI:0000:52:00): 94, pid=1, name=python3, Contained: DRAM (0x1).

If it was not that: gpu.sram 0.02

Not seen, and how to get it
  hn01: kernel log, 2026-03-09T04:08:00Z to 2026-03-09T04:27:00Z
    $ journalctl -k --since '2026-03-09 04:08:00'

Read 1 input, 12,345 bytes, 3 lines with a signal.
  site.tar.gz!hosts/hn03/kern.log (syslog.iso): 1 line not understood"""


def test_a_whole_incident():
    assert "\n".join(diagnosis_lines(diagnosis(incident()))) == GOLDEN


@pytest.mark.parametrize(
    ("restart", "line"),
    [
        ({"advice": "restart", "exclude_hosts": []}, "RESTART: because"),
        ({"advice": "restart_excluding", "exclude_hosts": ["a", "b"]}, "RESTART WITHOUT a, b: because"),
        ({"advice": "do_not_restart", "exclude_hosts": []}, "DO NOT RESTART: because"),
        ({"advice": "wait", "exclude_hosts": ["a"]}, "WAIT (exclude a): because"),
    ],
)
def test_the_first_line_is_the_advice(restart: dict[str, object], line: str):
    document = incident(restart={**INCIDENT["restart"], "why": "because", **restart})
    assert restart_line(document) == line
    assert next(iter(incident_lines(document))) == line


def test_nothing_interrupted_shows_what_was_seen():
    event = HealthEventDoc.model_validate({**EVIDENCE, "component": "gpu.hbm", "kind": "seen"})
    document = diagnosis().model_copy(update={"health_events": [event]})
    text = "\n".join(diagnosis_lines(document))
    assert text.startswith("NOTHING WAS INTERRUPTED")
    assert "xid.94 x2" in text


def test_health_events_beside_an_incident_are_counted():
    event = HealthEventDoc.model_validate({**EVIDENCE, "component": "gpu.hbm", "kind": "seen"})
    document = diagnosis(incident()).model_copy(update={"health_events": [event]})
    assert "1 other event stopped nothing" in "\n".join(diagnosis_lines(document))


def test_no_evidence_is_said():
    lines = list(incident_lines(incident(evidence=[])))
    assert "Evidence: none was found" in lines


def test_evidence_without_line_host_and_time_gives_the_offset():
    lines = list(evidence_lines(evidence(line=None, host=None, device=None, time=None, count=1)))
    assert lines[0] == "  root     time not known         xid.94  site.tar.gz!hosts/hn03/kern.log at byte 4242"


def test_long_and_hostile_text_is_cut_and_escaped():
    lines = list(evidence_lines(evidence(text="\x1b]0;title\x07" + "x" * 500)))
    assert lines[1].startswith("           | \\x1b]0;title\\x07xxx")
    assert lines[1].endswith("xxx ...")
    assert "\x1b" not in lines[1]


def test_much_evidence_is_summed_up():
    lines = list(incident_lines(incident(evidence=[EVIDENCE] * 15)))
    assert "  ... and 3 more (--format json shows all)" in lines


def test_only_the_last_of_what_stood_around_is_shown():
    around = [{**EVIDENCE, "role": "context", "text": f"saved {n}"} for n in range(9)]
    text = "\n".join(incident_lines(incident(evidence=[EVIDENCE, *around])))
    assert "| saved 8" in text
    assert "| saved 5" not in text
    assert "... and 6 more" in text


def test_a_hanging_job_and_a_host_fault_say_what_they_are():
    hanging = "\n".join(incident_lines(incident(still_running=True, interrupted_at=None)))
    assert "still allocated and making no progress" in hanging
    assert "Scheduler" not in hanging
    fault = "\n".join(incident_lines(incident(kind="host_fault", job_id=None, attempt=0)))
    assert "Job  " not in fault
    assert "First failing host hn03" in fault
