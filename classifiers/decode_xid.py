"""Xid and SXid: from number and text to component, role, action. Sources: the tables' own source columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from classifiers.api import Meaning
from classifiers.knowledge import tables

XID_SOURCE = "NVIDIA Xid catalog"
SXID_SOURCE = "NVIDIA Fabric Manager User Guide, appendix D"

#: What the first action of the tables means as an action of a decision.
ACTIONS = {
    "ignore": "none",
    "restart_app": "restart_job",
    "reset_gpu": "reset_gpu",
    "restart_node": "reboot_host",
    "restart_node_or_guest": "reboot_host",
    "contact_support": "drain_host",
    "check_mechanicals": "drain_host",
    "check_link_mechanicals": "drain_host",
    "check_cooling": "drain_host",
    "check_partition_then_contact_support": "drain_host",
    "update_sw_fw": "notify_owner",
    "reset_gpus_and_nvswitches": "reset_gpu",
    "restart_app_then_reset_gpus_and_nvswitches": "reset_gpu",
    "unspecified": "collect_evidence",
    "workflow": "collect_evidence",
}
_WORKFLOW = {45: "none", 48: "reset_gpu", 64: "replace_part", 74: "drain_host", 94: "restart_job", 95: "reset_gpu"}

_DBE_UNIT = re.compile(r"detected on GPU in the ([\w /-]+?)(?: at |\.|$)")
_CONTAINED = re.compile(r"(?:Contained|Uncontained): ([A-Za-z0-9 -]+?) ?(?:\(0x|\.|,|$)")
_COUNTERS = re.compile(r"DRAM:(\d+), LTC:(\d+), MMU:(\d+), PCIE:(\d+)")
_PREVIOUS = re.compile(r"caused by previous Xid (\d+)")
_LINK_WORDS = re.compile(r"\((0x[0-9a-fA-F]+(?:,? 0x[0-9a-fA-F]+)*)\)")
_NVLINK5 = re.compile(
    r"([A-Z][A-Z0-9_]+(?:/[A-Z0-9_]+)?)\s+(Non-?fatal|Link Fatal|Fatal)\s+XC[01]\s+i(\d+)\s+Link\s+(-?\d+)\s+"
    r"\((0x[0-9a-f]{8}(?: 0x[0-9a-f]{8})*)",
    re.IGNORECASE,
)
_RECOVERY = {
    "gpu reset required": "reset_gpu",
    "node reboot required": "reboot_host",
    "drain p2p": "drain_host",
    "drain and reset": "drain_host",
    "recover imex domain": "notify_owner",
}


def _unknown(rule_meaning: Meaning, signal: str, number: str, source: str) -> Meaning:
    return replace(
        rule_meaning,
        signal=signal,
        cause=signal,
        component="gpu.nvlink" if signal.startswith("sxid") else "gpu.device",
        role="unknown",
        severity="warning",
        fatal="maybe",
        maturity="incubating",
        action="collect_evidence",
        action_source="",
        meaning=f"code {number} is not in {source}",
    )


def xid_meaning(base: Meaning, fields: Mapping[str, str]) -> Meaning:
    """The meaning of an Xid line. fields: `xid`, and what the rule found of `msg`, `prev`, `unit`, `words` ..."""
    number = fields.get("xid") or fields.get("x") or ""
    if not number.isdigit():
        return base
    code = int(number)
    signal = f"xid.{code}"
    row = tables.xids().get(code)
    if row is None:
        return _unknown(base, signal, f"Xid {number}", "the catalogue")
    action = _WORKFLOW.get(code) or ACTIONS.get(row.first_action, "collect_evidence")
    out = replace(
        base,
        signal=signal,
        cause=signal,
        component=row.component,
        alt=row.alt,
        role=row.role,
        severity=row.severity,
        fatal=row.fatal,
        action=action,
        action_source=f"{XID_SOURCE}: {row.bucket}" if row.bucket else XID_SOURCE,
        meaning=row.meaning,
        maturity="stable" if row.verified else "incubating",
    )
    refine = _REFINE.get(code)
    return refine(out, fields) if refine else out


def _xid45(out: Meaning, fields: Mapping[str, str]) -> Meaning:
    """The clean-up may name the Xid it follows: that one is the evidence."""
    previous = fields.get("prev")
    if not previous:
        match = _PREVIOUS.search(fields.get("msg", ""))
        previous = match[1] if match else None
    return replace(out, back=f"xid.{previous}", meaning=f"clean-up after Xid {previous}") if previous else out


def _xid43(out: Meaning, _fields: Mapping[str, str]) -> Meaning:
    """Software made the channel fault; hardware only if the same GPU repeats it over jobs."""
    return replace(out, component="software.bug", alt="gpu.device", role="symptom")


def _xid48(out: Meaning, fields: Mapping[str, str]) -> Meaning:
    """`framebuffer` is HBM, any other unit on-chip memory; without a unit both stay open."""
    unit = fields.get("unit")
    if not unit:
        match = _DBE_UNIT.search(fields.get("msg", ""))
        unit = match[1].strip() if match else ""
    if not unit:
        return out
    if unit.lower() in {"framebuffer", "frame buffer", "fb", "dram"}:
        return replace(out, component="gpu.hbm", alt=None)
    return replace(out, component="gpu.sram", alt="gpu.hbm", meaning=f"{out.meaning} (unit: {unit})")


def _xid94(out: Meaning, fields: Mapping[str, str]) -> Meaning:
    """The unit that met the poisoned data is weak evidence of its origin: the other memory stays the alternative."""
    unit = fields.get("unit")
    if not unit:
        match = _CONTAINED.search(fields.get("msg", ""))
        unit = match[1].strip() if match else ""
    component = tables.xid_units().get(unit.lower()) if unit else None
    if component is None:
        return out
    alt = "gpu.sram" if component == "gpu.hbm" else "gpu.hbm"
    return replace(
        out, component=component, alt=alt, tags=out.tags | {"weak_unit"}, meaning=f"{out.meaning} (met in {unit})"
    )


def _xid140(out: Meaning, fields: Mapping[str, str]) -> Meaning:
    """The counter that is not zero names the memory."""
    counters = tuple(fields.get(name, "") for name in ("dram", "ltc", "mmu", "pcie"))
    if not all(c.isdigit() for c in counters):
        match = _COUNTERS.search(fields.get("msg", ""))
        if not match:
            return out
        counters = (match[1], match[2], match[3], match[4])
    dram, ltc, mmu, pcie = (int(c) for c in counters)
    if dram:
        return replace(out, component="gpu.hbm", alt="gpu.sram" if ltc or mmu else None)
    if ltc or mmu:
        return replace(out, component="gpu.sram", alt=None)
    if pcie:
        return replace(out, component="host.pcie", alt="gpu.sram")
    return out


def _xid74(out: Meaning, fields: Mapping[str, str]) -> Meaning:
    """The set bits of words 1, 3, 4 and 5 tell a failing link from a by-product."""
    match = _LINK_WORDS.search(fields.get("words") or fields.get("msg", ""))
    if not match:
        return out
    words = [int(w, 16) for w in re.findall(r"0x[0-9a-fA-F]+", match[1])]
    kinds: dict[str, str] = {}
    for row in tables.link_bits():
        if row.word <= len(words) and any(words[row.word - 1] >> bit & 1 for bit in row.bits):
            kinds[row.kind] = row.component
    if not kinds:
        return out
    if "gpu.nvlink" in kinds.values():
        said = ", ".join(sorted(k for k, c in kinds.items() if c == "gpu.nvlink"))
        return replace(out, meaning=f"{out.meaning}: {said}")
    if any(kind.startswith("secondary") for kind in kinds):
        return replace(
            out,
            component="symptom_only",
            alt="gpu.nvlink",
            role="symptom",
            meaning="by-product of another NVLink error",
        )
    return replace(out, component="informational", alt=None, role="symptom", severity="info", fatal="n", action="none")


def _nvlink5(out: Meaning, fields: Mapping[str, str]) -> Meaning:
    """Unit, severity and error status choose the row of the decode table; Xid 149 adds the reason of the link loss."""
    code = int(out.signal.removeprefix("xid."))
    unit, severity, words, injected = (fields.get(n, "") for n in ("unit", "sev", "words", "inj"))
    if not (unit and words):
        match = _NVLINK5.search(fields.get("msg", ""))
        if not match:
            return out
        unit, severity, injected, words = match[1], match[2], match[3], match[5]
    numbers = [int(w, 16) for w in re.findall(r"0x[0-9a-fA-F]+", words)]
    kind = re.sub(r"[^a-z]", "", severity.lower())
    if injected.isdigit() and int(injected):
        return replace(
            out,
            component="informational",
            alt=None,
            role="symptom",
            severity="info",
            fatal="n",
            action="none",
            meaning="injected test error",
        )
    status = numbers[1] if len(numbers) > 1 else 0
    rows = [r for r in tables.nvlink5() if r.xid == code and unit.upper() in r.units]
    fitting = [r for r in rows if r.severity in {kind, f"link{kind}"} and status in r.statuses] or [
        r for r in rows if r.severity in {kind, f"link{kind}"}
    ]
    fatal = kind != "nonfatal"
    if fatal:
        out = replace(out, role="cause", severity="critical", fatal="y", action="reset_gpu")
    else:
        out = replace(out, role="symptom", severity="warning", fatal="n", action="none")
    if len({(r.bucket, r.hw_sw, r.crash_expected) for r in fitting}) == 1:
        row = fitting[0]
        out = replace(
            out,
            action={"RESET_GPU": "reset_gpu", "IGNORE": "none", "XID_154_EVAL": "restart_job"}.get(
                row.bucket, out.action
            ),
            action_source=f"{XID_SOURCE}, decode of 144-150: {row.bucket}",
        )
        if row.crash_expected and not fatal:
            out = replace(
                out,
                role="either",
                severity="error",
                fatal="maybe",
                alt="software.bug" if "SW" in row.hw_sw else out.alt,
            )
    if code == 149 and "LINK" in unit.upper():
        out = _link_reason(out, numbers[0])
    return out


def _link_reason(out: Meaning, first_word: int) -> Meaning:
    reason = tables.link_reasons().get(first_word >> 20 & 0x3F)
    if reason is None:
        return out
    said = reason.meaning or reason.blame.replace("_", " ")
    out = replace(out, component=reason.component, meaning=f"NVLink went down: {said} (reason 0x{reason.code:02x})")
    if reason.blame == "peer":
        return replace(out, role="symptom", alt="gpu.device", tags=out.tags | {"peer"})
    if reason.blame == "secondary":
        return replace(out, role="symptom", alt="gpu.nvlink")
    if reason.blame.startswith("software"):
        return replace(out, role="either", alt="gpu.nvlink" if reason.component != "gpu.nvlink" else "software.bug")
    if reason.component == "net.fabric":
        # An NVLink cable of a rack: the taxonomy keeps the NVLink domain in gpu.nvlink.
        return replace(out, component="gpu.nvlink", alt="net.fabric")
    return out


def _xid154(out: Meaning, fields: Mapping[str, str]) -> Meaning:
    """Never a cause; the new recovery action is the driver's advice."""
    match = re.search(r" to 0x[0-9a-f]+ \(([^)]*)\)", fields.get("msg", ""))
    name = (fields.get("newn") or (match[1] if match else "")).lower()
    action = next((kind for words, kind in _RECOVERY.items() if words in name), "none")
    return replace(
        out,
        component="symptom_only",
        role="symptom",
        action=action,
        action_source=f"driver's recovery action: {name or 'none'}",
    )


_REFINE = {
    43: _xid43,
    45: _xid45,
    48: _xid48,
    74: _xid74,
    94: _xid94,
    95: _xid94,
    140: _xid140,
    154: _xid154,
    **dict.fromkeys(range(144, 151), _nvlink5),
}


def sxid_meaning(base: Meaning, fields: Mapping[str, str]) -> Meaning:
    """The meaning of an NVSwitch error; the severity word on the line overrides the table."""
    number = fields.get("sxid", "")
    if not number.isdigit():
        return base
    signal = f"sxid.{int(number)}"
    row = tables.sxids().get(int(number))
    if row is None:
        out = _unknown(base, signal, f"SXid {number}", "the tables")
    else:
        out = replace(
            base,
            signal=signal,
            cause=signal,
            component=row.component,
            alt=None,
            role=row.role,
            severity=row.severity,
            fatal=row.fatal,
            action=ACTIONS.get(row.first_action, "collect_evidence"),
            action_source=SXID_SOURCE,
            meaning=row.meaning,
        )
    word = re.sub(r"[^a-z]", "", (fields.get("sev") or "").lower())
    component = "gpu.nvlink" if out.component in {"informational", "unknown"} else out.component
    if word == "fatal":
        listed = row is not None and row.category.endswith("fatal")
        role = out.role if listed else "cause"  # the table knows which fatal codes a dead peer brings about
        out = replace(out, component=component, role=role, severity="critical", fatal="y")
        if out.action in {"none", "collect_evidence"}:
            out = replace(out, action="reset_gpu")
    elif word == "nonfatal":
        out = replace(out, role="symptom" if out.role != "cause" else "either", severity="warning", fatal="n")
    elif word in {"correctable", "corrected"}:
        out = replace(out, component="informational", role="symptom", severity="info", fatal="n", action="none")
    return out
