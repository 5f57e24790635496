"""Exit codes, RDMA completion statuses, NIC events, CUDA and library errors: numbers and words to meanings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from classifiers.api import Meaning
from classifiers.knowledge import tables

EXIT_SOURCE = "POSIX: 128 + signal; torchelastic prints the negative signal"

#: Words by which shells and launchers name the signal that ended a process.
SIGNALS = {
    "hangup": 1,
    "interrupt": 2,
    "quit": 3,
    "illegal instruction": 4,
    "trace/breakpoint trap": 5,
    "aborted": 6,
    "bus error": 7,
    "floating point exception": 8,
    "killed": 9,
    "out of memory": 9,
    "segmentation fault": 11,
    "broken pipe": 13,
    "terminated": 15,
    "cpu time limit exceeded": 24,
    "bad system call": 31,
    "sighup": 1,
    "sigint": 2,
    "sigquit": 3,
    "sigill": 4,
    "sigtrap": 5,
    "sigabrt": 6,
    "sigbus": 7,
    "sigfpe": 8,
    "sigkill": 9,
    "sigsegv": 11,
    "sigpipe": 13,
    "sigterm": 15,
    "sigxcpu": 24,
    "sigsys": 31,
}
_ACTION = {"software.bug": "notify_owner", "gpu.sdc": "drain_host", "by_log": "collect_evidence"}


def exit_code(fields: Mapping[str, str]) -> int | None:
    """The shell's exit code (0..255) that the named groups hold: `code` (may be negative), `sig`, `rc`, or a word."""
    for name in ("code", "rc"):
        text = fields.get(name, "")
        if re.fullmatch(r"-?\d{1,10}", text):
            number = int(text)
            return 128 - number if number < 0 else number & 0xFF if number > 255 else number
    for name in ("sig", "s", "n"):
        text = fields.get(name, "")
        if text.isdigit() and 0 < int(text) < 65:
            return 128 + int(text)
    for name in ("what", "w", "s", "sig", "e"):
        words = re.sub(r" *\(.*\)$", "", fields.get(name, "")).strip().lower()
        if words in SIGNALS:
            return 128 + SIGNALS[words]
        match = re.search(r"exit code (\d+)", words)
        if match:
            return int(match[1])
    return None


def exit_meaning(base: Meaning, fields: Mapping[str, str]) -> Meaning:
    """The meaning of a process end. Unlisted codes are a plain program error."""
    code = exit_code(fields)
    if code is None:
        return replace(base, component="by_log", role="symptom")
    signal = f"exit.{code}"
    oom = "out of memory" in (fields.get("what") or "").lower()
    if oom:
        return replace(
            base,
            signal=signal,
            cause="oom_kill",
            component="software.bug",
            role="cause",
            tags=base.tags | {"oom", "exit_code"},
            action="notify_owner",
            meaning="killed for memory",
        )
    row = tables.exit_codes().get(code)
    if row is None:
        killed = 128 < code < 193
        return replace(
            base,
            signal=signal,
            cause=signal,
            component="by_log",
            role="symptom",
            tags=base.tags | {"exit_code"},
            meaning=f"ended by signal {code - 128}" if killed else f"exit code {code}",
            action="collect_evidence",
        )
    role = "symptom" if row.role in {"by_log", "none"} else row.role
    return replace(
        base,
        signal=signal,
        cause=signal,
        component=row.component,
        role=role,
        severity="info" if code == 0 else base.severity,
        fatal="n" if code == 0 else base.fatal,
        tags=base.tags | {"exit_code"},
        meaning=row.meaning,
        action=_ACTION.get(row.component, "none"),
        action_source=EXIT_SOURCE,
    )


def ib_meaning(base: Meaning, fields: Mapping[str, str]) -> Meaning:
    """The meaning of a failed RDMA work request by its completion status."""
    text = fields.get("status") or fields.get("err") or ""
    if not text.isdigit():
        name = fields.get("sname", "")
        text = next((str(r.status) for r in tables.ib_statuses().values() if r.name == name), "")
    row = tables.ib_statuses().get(int(text)) if text.isdigit() else None
    if row is None:
        return base
    signal = f"nccl.ib_completion.{row.status}"
    symptom = row.component == "symptom_only"
    return replace(
        base,
        signal=signal,
        cause=signal,
        component=row.component,
        alt=row.alt,
        role="symptom" if symptom else "either",
        severity="warning" if symptom else base.severity,
        fatal="maybe" if symptom else base.fatal,
        meaning=f"{row.name}: {row.meaning}",
        action="none" if symptom else base.action,
    )


@dataclass(frozen=True, slots=True)
class CudaError:
    """One CUDA error: number, words of its text, class."""

    code: int
    words: str
    cause: str
    component: str
    alt: str | None
    role: str


#: CUDA runtime errors that stop training. Source: CUDA toolkit headers (numbers, texts), classes are a judgement.
CUDA_ERRORS = (
    CudaError(1, "invalid argument", "cuda_invalid_argument", "software.bug", None, "either"),
    CudaError(2, "out of memory", "cuda_oom", "software.bug", None, "cause"),
    CudaError(3, "initialization error", "cuda_init", "software.driver", "gpu.device", "either"),
    CudaError(35, "driver version is insufficient", "cuda_driver_old", "software.driver", None, "cause"),
    CudaError(46, "busy or unavailable", "cuda_busy", "gpu.device", "software.bug", "either"),
    CudaError(100, "no CUDA-capable device", "cuda_no_device", "gpu.device", "software.bug", "either"),
    CudaError(101, "invalid device ordinal", "cuda_invalid_device", "gpu.device", "software.bug", "either"),
    CudaError(209, "no kernel image", "cuda_no_kernel_image", "software.bug", None, "cause"),
    CudaError(214, "uncorrectable ECC error", "cuda_ecc", "gpu.hbm", "gpu.sram", "cause"),
    CudaError(217, "peer access is not supported", "cuda_peer_access", "gpu.nvlink", "software.bug", "either"),
    CudaError(220, "NVLink error", "cuda_nvlink", "gpu.nvlink", None, "cause"),
    CudaError(226, "peer GPU memory over nvlink", "cuda_contained", "gpu.nvlink", "gpu.hbm", "either"),
    CudaError(700, "illegal memory access", "cuda_illegal_access", "software.bug", "gpu.device", "either"),
    CudaError(702, "launch timed out", "cuda_launch_timeout", "gpu.device", "software.bug", "either"),
    CudaError(710, "device-side assert", "cuda_assert", "software.bug", None, "cause"),
    CudaError(714, "hardware stack error", "cuda_hw_stack", "gpu.device", "software.bug", "either"),
    CudaError(715, "illegal instruction", "cuda_illegal_instruction", "software.bug", "gpu.sram", "either"),
    CudaError(716, "misaligned address", "cuda_misaligned", "software.bug", None, "cause"),
    CudaError(719, "unspecified launch failure", "cuda_launch_failure", "software.bug", "gpu.device", "either"),
    CudaError(802, "system not yet initialized", "cuda_system_not_ready", "software.driver", "gpu.nvlink", "cause"),
    CudaError(803, "unsupported display driver", "cuda_driver_mismatch", "software.driver", None, "cause"),
    CudaError(911, "external entity outside of CUDA", "cuda_external", "gpu.device", None, "either"),
    CudaError(999, "unknown error", "cuda_unknown", "gpu.device", "software.driver", "either"),
)
_BY_CODE = {e.code: e for e in CUDA_ERRORS}

#: Endings of CUBLAS_STATUS_* and CUDNN_STATUS_*.
_LIBRARY = {
    "ALLOC_FAILED": ("cuda_oom", "software.bug", None, "cause"),
    "NOT_INITIALIZED": ("library_not_initialized", "software.bug", "gpu.device", "either"),
    "INVALID_VALUE": ("library_invalid_value", "software.bug", None, "either"),
    "BAD_PARAM": ("library_invalid_value", "software.bug", None, "either"),
    "NOT_SUPPORTED": ("library_not_supported", "software.bug", None, "either"),
    "ARCH_MISMATCH": ("library_arch_mismatch", "software.bug", "software.driver", "cause"),
    "EXECUTION_FAILED": ("library_execution_failed", "software.bug", "gpu.device", "either"),
    "INTERNAL_ERROR": ("library_internal_error", "software.bug", "gpu.device", "either"),
    "MAPPING_ERROR": ("library_mapping_error", "software.bug", "gpu.device", "either"),
}


def cuda_error(text: str) -> CudaError | None:
    """The CUDA error that a number or a text names."""
    stripped = text.strip()
    if stripped.isdigit():
        return _BY_CODE.get(int(stripped))
    lower = stripped.lower()
    best = None
    for error in CUDA_ERRORS:
        if error.words.lower() in lower and (best is None or len(error.words) > len(best.words)):
            best = error
    return best


def cuda_meaning(base: Meaning, fields: Mapping[str, str]) -> Meaning:
    """The meaning of a CUDA, cuBLAS or cuDNN error; without a known error the job's log decides."""
    for name in ("e", "num", "msg", "t"):
        error = cuda_error(fields.get(name, ""))
        if error:
            return replace(
                base,
                cause=error.cause,
                component=error.component,
                alt=error.alt,
                role=error.role,
                meaning=f"CUDA error {error.code}: {error.words}",
            )
    status = fields.get("s", "").removeprefix("STATUS_")
    if status in _LIBRARY:
        cause, component, alt, role = _LIBRARY[status]
        return replace(base, cause=cause, component=component, alt=alt, role=role, meaning=f"library status {status}")
    return replace(base, component="by_log", role="symptom")


#: InfiniBand asynchronous events by number and by words of their text. Source: verbs header; classes are a judgement.
_IB_EVENTS = (
    (0, "CQ error", "net.nic", None, "cause", "error"),
    (1, "QP fatal", "net.nic", "net.fabric", "either", "error"),
    (2, "QP request error", "software.bug", "net.nic", "either", "error"),
    (3, "QP access error", "software.bug", "net.nic", "either", "error"),
    (8, "device fatal", "net.nic", None, "cause", "critical"),
    (9, "port active", "informational", None, "symptom", "info"),
    (10, "port error", "net.fabric", "net.nic", "cause", "error"),
    (11, "LID change", "net.fabric", None, "symptom", "info"),
    (12, "PKey change", "net.fabric", None, "symptom", "info"),
    (13, "SM change", "net.fabric", None, "symptom", "info"),
    (17, "client reregistration", "informational", None, "symptom", "info"),
    (18, "GID table change", "net.fabric", "net.nic", "symptom", "info"),
)


def ib_event_meaning(base: Meaning, fields: Mapping[str, str]) -> Meaning:
    """The meaning of an asynchronous event of a NIC as NCCL prints it."""
    number = fields.get("n", "")
    words = (fields.get("ev") or fields.get("ev2") or "").strip().lower()
    for code, text, component, alt, role, severity in _IB_EVENTS:
        known = text.lower()
        if (number.isdigit() and int(number) == code) or (not number and words and (known in words or words in known)):
            return replace(
                base,
                signal=f"nccl.ib_event.{code}",
                cause=f"nccl.ib_event.{code}",
                component=component,
                alt=alt,
                role=role,
                severity=severity,
                fatal="n" if severity == "info" else "maybe",
                meaning=f"NIC event: {text}",
                action="none" if severity == "info" else base.action,
            )
    if "fatal" in words or "catastrophic" in words or fields.get("ev"):
        return replace(base, component="net.nic", alt="net.fabric", role="cause", severity="critical")
    return replace(base, component="net.fabric", alt="net.nic", role="either", severity="warning")
