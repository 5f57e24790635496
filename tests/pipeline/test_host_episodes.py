"""What becomes of the lines of one host without a job: events and the order of incidents."""

from __future__ import annotations

from pathlib import Path

from pipeline.diagnose import diagnose
from schemas.diagnosis import IncidentDoc
from schemas.settings import Settings

PORT = "[  {t:10.6f}] pcieport 0000:3a:01.0: PCIe Bus Error: severity={sev}, type={layer}, ({agent})\n"


def _incidents(folder: Path, log: str) -> list[IncidentDoc]:
    (folder / "kern.log").write_text(log)
    return list(diagnose([folder], Settings()).document.incidents)


def test_corrected_errors_of_a_link_do_not_hide_the_fatal_one(tmp_path: Path) -> None:
    corrected = PORT.format(t=100.0, sev="Corrected", layer="Data Link Layer", agent="Transmitter ID")
    fatal = PORT.format(t=160.0, sev="Uncorrected (Fatal)", layer="Transaction Layer", agent="Receiver ID")
    lost = "[  160.100000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    (both,) = _incidents(tmp_path, corrected + fatal + lost)
    assert (both.component, both.evidence[0].signal) == ("host.pcie", "pcie.aer_bus_error")
    assert "Uncorrected (Fatal)" in both.evidence[0].text
    (only_corrected,) = _incidents(tmp_path, corrected + lost)
    assert only_corrected.component == "gpu.device"


def test_a_boot_that_nothing_explains_stands_after_the_fault_before_it(tmp_path: Path) -> None:
    head = "2026-03-03T{t}.000000+00:00 pine4 kernel: "
    fault = (
        head.format(t="08:00:00") + "EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2)\n"
    )
    boot = head.format(t="11:00:00") + "[    0.000000] Linux version 6.8.0-60-generic (build@host) #63-Ubuntu SMP\n"
    found = _incidents(tmp_path, fault + boot)
    assert [i.component for i in found] == ["host.memory", "host.os"]
    assert [i.component for i in _incidents(tmp_path, head.format(t="07:00:00") + "a line\n" + boot)] == ["host.os"]
