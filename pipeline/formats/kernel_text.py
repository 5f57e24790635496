"""Kernel messages, however they arrive: cleaning, joining of messages that span lines, and what marked lines tell.

Shared by the kernel, syslog and journal formats. All functions are pure and linear in their input.

*Joining.* A hit may stand on a later line of a message, and the lines before it name the device. Two cases are joined
with one blank into `Frame.text`, so that a rule sees the whole message:
- printk messages with line breaks: dmesg prints the rest unstamped and indented below the stamped line;
- messages that syslog and the journal split into records of their own, one tag and less than a second apart: those
  that `SPLIT_MESSAGES` lists by the beginning of each line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from pipeline.formats.base import Frame
from pipeline.records.launches import LAUNCH, launched
from schemas.facts import Stamp
from schemas.identity import short_host

#: ANSI colours and titles, also as rsyslog writes them (`#033[31m`).
ANSI = re.compile(
    r"\x1b\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)?|#033\[[0-9;?]{0,32}[@-~]"
)
_RSYSLOG = re.compile(r"#(0[0-3][0-7]|177)")
_KMSG_BYTE = re.compile(r"\\x([0-9a-f]{2})")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

#: Longest text that a join may make, and most lines that it may take.
JOIN_CHARS = 1_900
JOIN_LINES = 12

#: Messages in several records: what each line begins with, last line first. Source: kernel-open of the NVIDIA module.
SPLIT_MESSAGES: tuple[tuple[str, ...], ...] = (
    ("NVRM: fallen off the bus", "NVRM: (PCI ID:", "NVRM: The NVIDIA GPU"),
    ("NVRM: (PCI ID:", "NVRM: The NVIDIA GPU"),
    ("NVRM: installed in this system", "NVRM: The NVIDIA GPU"),
    ("NVRM: GPU Board Serial Number:", "NVRM: GPU at PCI:"),
)

#: Literals whose lines are read for facts of the source. As rare as a boot, a driver load or a first fault.
MARKS: tuple[bytes, ...] = (
    b"Linux version ",
    b"NVRM: loading NVIDIA UNIX",
    b"NVRM: GPU at PCI:",
    b"NVRM: GPU Board Serial Number:",
    b"]: Hostname set to <",
    b"]: Set hostname to <",
    b"# dmesg",
    b"$ dmesg",
    b"# journalctl",
    b"$ journalctl",
    LAUNCH,
)

_VERSION = re.compile(r"NVRM: loading NVIDIA UNIX[^\n]{0,60}?\s(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)\s")
_GPU_AT = re.compile(
    r"NVRM: GPU at PCI:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.\d)?:? (GPU-[0-9a-f-]{36})"
)
_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: *(\w{5,20})")
_SET_HOSTNAME = re.compile(r"(?:Hostname set to|Set hostname to) <([\w.-]{1,253})>")
_PROMPT = re.compile(
    r"\s*(?:\([\w./ -]{1,40}\) ?)?\[?[\w.-]{1,32}@([A-Za-z0-9][\w.-]{0,252})[: ][^\n$#%]{0,200}[$#%] ?(?=\S|$)"
)
_BARE_PROMPT = re.compile(r"\s*[$#] (?:sudo )?(?:dmesg|journalctl|cat|grep|zgrep|tail|less)\b")


def clean(text: str) -> str:
    """Without colours and control characters (tabs stay)."""
    if "\x1b" in text or "#033" in text:
        text = ANSI.sub("", text)
    return text if text.isprintable() else _CONTROL.sub(" ", text).rstrip()


def unescape_rsyslog(text: str) -> str:
    """rsyslog's `#011`, `#012`, `#033`: tab, blank (a line break would hide the rest from a pattern), colours gone."""
    if "#0" not in text and "#177" not in text:
        return text
    return _RSYSLOG.sub(lambda m: "\t" if m[1] == "011" else " ", ANSI.sub("", text))


def unescape_kmsg(text: str) -> str:
    """Bytes that /dev/kmsg and printk escape as `\\xNN`; line breaks become blanks."""
    if "\\x" not in text:
        return text
    raw = _KMSG_BYTE.sub(lambda m: chr(int(m[1], 16)), text)
    try:
        raw = raw.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return raw
    return raw


def prompt_host(line: str) -> str | None:
    """Host of a shell prompt in front of a copied command (`root@gpu-1:~# dmesg -T`), "" where it names none."""
    if m := _PROMPT.match(line):
        return short_host(m[1])
    return "" if _BARE_PROMPT.match(line) else None


def split_chain(text: str) -> tuple[str, ...]:
    """Beginnings of the records before this one that belong to its message, nearest first; () for most texts."""
    if not text.startswith("NVRM: "):
        return ()
    for chain in SPLIT_MESSAGES:
        if text.startswith(chain[0]):
            return chain[1:]
    return ()


def join_split(frame: Frame, earlier: Iterable[Frame]) -> Frame:
    """The frame with the records before it that belong to one message, where `SPLIT_MESSAGES` knows it.

    earlier: frames of the lines before, nearest first. Foreign records in between are passed over (other daemons
    write into the same file), records more than a second away end the search.
    """
    chain = split_chain(frame.text)
    if not chain:
        return frame
    wanted = list(chain)
    parts = [frame.text]
    for n, other in enumerate(earlier):
        if n >= JOIN_LINES or not wanted or _apart(frame.stamp, other.stamp):
            break
        if other.host != frame.host or not other.text.startswith("NVRM: "):
            continue
        if not other.text.startswith(wanted[0]):
            break
        parts.append(other.text)
        wanted.pop(0)
    if len(parts) == 1:
        return frame
    text = " ".join(part.strip() for part in reversed(parts))[:JOIN_CHARS]
    return Frame(text, frame.stamp, frame.host, frame.rank, frame.clock, frame.extra, frame.ok)


def _apart(a: Stamp, b: Stamp) -> bool:
    return a.kind == b.kind and a.kind != "none" and abs(a.us - b.us) > 1_000_000


def continuation(line: str, back: Iterator[str], is_head: Callable[[str], bool]) -> tuple[str, str] | None:
    """For an indented line without a stamp: (its head line, the text of the lines below it up to here).

    is_head: whether a line has a stamp. None where no head stands within `JOIN_LINES` indented lines.
    """
    if not line[:1].isspace() or not line.strip():
        return None
    parts = [line.strip()]
    for n, earlier in enumerate(back):
        if is_head(earlier):
            return earlier, " ".join(reversed(parts))[:JOIN_CHARS]
        if n >= JOIN_LINES or not earlier[:1].isspace():
            return None
        parts.append(earlier.strip())
    return None


def marked(line: str, frame: Frame) -> dict[str, str]:
    """Facts that a marked line states (see `LineFormat.mark`).

    `host`, `kernel`, `driver_version`, `gpu_uuid:<bdf>`, `gpu_serial:<bdf>`; `boot` is the wall time of the boot in the
    frame of the line's stamp (UTC or local microseconds), `boot_noyear` where the stamp has no year. Of slurmd's lines,
    the moment of a step's launch.
    """
    host = prompt_host(line)
    if host is not None:
        return {"host": host} if host else {}
    text = frame.text
    facts: dict[str, str] = {}
    if m := _SET_HOSTNAME.search(text):
        facts["host"] = short_host(m[1])
    if m := _VERSION.search(text + " "):
        facts["driver_version"] = m[1]
    gpu = _GPU_AT.search(text)
    if gpu:
        facts[f"gpu_uuid:{gpu[1].lower()}"] = gpu[2]
        if serial := _SERIAL.search(text):
            facts[f"gpu_serial:{gpu[1].lower()}"] = serial[1]
    if frame.extra.get("tag", "").startswith("slurmd"):
        facts.update(launched(frame))
    if text.startswith("Linux version "):
        facts.update(_boot(frame))
        facts["kernel"] = text.split(" ", 3)[2]
    return facts


def _boot(frame: Frame) -> dict[str, str]:
    """Wall time of the boot, where a `Linux version` line has a wall stamp."""
    kind, us = frame.stamp.kind, frame.stamp.us
    if frame.clock is not None:
        kind, us = frame.clock[0], frame.clock[2] - frame.clock[1]
    names = {"utc": "boot", "local": "boot", "noyear": "boot_noyear"}
    return {names[kind]: str(us)} if kind in names else {}
