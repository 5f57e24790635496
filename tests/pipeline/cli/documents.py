"""A made-up diagnosis for tests of what is printed."""

from __future__ import annotations

from typing import Any

from schemas.diagnosis import Diagnosis, EvidenceDoc, IncidentDoc

EVIDENCE: dict[str, Any] = {
    "id": "e1",
    "signal": "xid.94",
    "role": "root",
    "time": "2026-03-09T04:19:24.040Z",
    "host": "hn03",
    "device": "pci:0000:52:00",
    "rank": None,
    "source": "site.tar.gz!hosts/hn03/kern.log",
    "line": 41,
    "offset": 4242,
    "count": 2,
    "text": "NVRM: Xid (PCI:0000:52:00): 94, pid=1, name=python3, Contained: DRAM (0x1).",
}

INCIDENT: dict[str, Any] = {
    "incident_id": "aaaa000000000000aaaa",
    "fault_id": "ffff000000000000ffff",
    "kind": "job_interruption",
    "job_id": "5101",
    "attempt": 1,
    "started_at": "2026-03-09T01:10:00Z",
    "interrupted_at": "2026-03-09T04:22:00Z",
    "onset_at": "2026-03-09T04:19:24Z",
    "last_progress_at": "2026-03-09T04:18:37Z",
    "still_running": False,
    "time_uncertainty_s": 1.0,
    "outcome": "FAILED",
    "component": "gpu.hbm",
    "llama3_row": "GPU HBM3 Memory",
    "cause": "xid.94",
    "planned": False,
    "counts_as": "unexpected",
    "confidence": 0.97,
    "decided_by": "rule",
    "first_failing": {"host": "hn03", "gpu": 2, "rank": 18},
    "summary": "uncorrectable memory error of GPU 2 of hn03",
    "evidence": [EVIDENCE],
    "alternatives": [{"component": "gpu.sram", "confidence": 0.02}],
    "not_seen": [
        {
            "host": "hn01",
            "what": "kernel log",
            "from": "2026-03-09T04:08:00Z",
            "to": "2026-03-09T04:27:00Z",
            "get": "journalctl -k --since '2026-03-09 04:08:00'",
        }
    ],
    "restart": {
        "advice": "restart_excluding",
        "exclude_hosts": ["hn03"],
        "resume_from": {"step": 13800, "path": "/ckpt/gpt-27b", "time": "2026-03-09T04:18:37Z"},
        "lost_gpu_hours": 1.25,
        "why": "its GPU needs a reset first",
    },
    "action": {"kind": "reset_gpu", "target": "hn03 GPU 2", "why": "activates the row remapping", "source": "NVIDIA"},
}


def incident(**changes: Any) -> IncidentDoc:
    return IncidentDoc.model_validate({**INCIDENT, **changes})


def evidence(**changes: Any) -> EvidenceDoc:
    return EvidenceDoc.model_validate({**EVIDENCE, **changes})


def diagnosis(*incidents: IncidentDoc) -> Diagnosis:
    source = {
        "source": "site.tar.gz!hosts/hn03/kern.log",
        "format": "syslog.iso",
        "bytes": 12345,
        "signal_lines": 3,
        "unparsed_lines": 1,
        "note": None,
    }
    return Diagnosis.model_validate({"incidents": list(incidents), "health_events": [], "inputs": [source]})
