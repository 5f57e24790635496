r"""The kernel's ring buffer as dmesg and /dev/kmsg print it, whatever the options, and what people copy around it.

| name | lines |
|---|---|
| `dmesg.raw` | `[12345.678901] text`; `<6>[..]` (-r), `[ T123]` caller, `[.. <  0.02>]` (-d) |
| `dmesg.ctime` | `[Mon Nov 30 21:50:11 2026] text` (-T) |
| `dmesg.iso` | `2026-11-30T21:50:11,412797+00:00 text` (--time-format iso, decimal comma) |
| `dmesg.reltime` | `[Nov30 21:50] text` then `[  +0.080805] text` (-e, -H) |
| `dmesg.delta` | `[<    0.021786>] text`: cannot be placed |
| `dmesg.notime` | text alone (-t, journalctl -o cat): cannot be placed |
| `kmsg` | `6,1234,5678901234,-;text` |

Each may follow `kern  :info  : ` (-x) and the file name that grep puts in front. All share one `frame`, because copies
mix them; the name only says what most lines are. Not stamped: indented lines (they are joined to the stamped line
above, whose stamp they get), shell prompts (empty text), and anything else, which comes back with `ok=False`.

Stamps: `mono`, `local` (ctime), `utc` (iso), `noyear` (relative times: the last minute printed plus the steps since
then; up to 60 s early), `none`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from pipeline import stamps
from pipeline.formats.base import HEAD, Frame, LookBack
from pipeline.formats.kernel_text import (
    MARKS,
    clean,
    continuation,
    join_split,
    marked,
    prompt_host,
    split_chain,
    unescape_kmsg,
)
from pipeline.formats.sniffing import Shares, sample, shares
from schemas.facts import NO_STAMP, Stamp
from schemas.identity import short_host

_FACILITY = r"kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]"
_LEVEL = r"emerg|alert|crit|err|warn|notice|info|debug"
#: What grep (`messages:`, `kern.log-`, line number) and pdsh (`node7: `) put in front, then what -r and -x do.
_FRONT = re.compile(
    r"\ufeff?(?:(?P<host>[A-Za-z][\w.-]{0,80}): (?=[\[<]|\d{4}-|[a-z]{3,8} *:[a-z]+ *:)"
    rf"|[\w./@+-]{{1,160}}[:-](?! *(?:{_LEVEL}) *:)(?:\d{{1,9}}[:-])?"
    r"(?=[\[<]|\d{4}-\d\d-\d\dT|[a-z]{3,8} *:[a-z]+ *:))?"
    rf"(?:<(?P<pri>\d{{1,4}})>)?(?:(?P<fac>{_FACILITY}) *:(?P<lvl>{_LEVEL}) *: ?)?"
)
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:?\d\d ?")
_CTIME = re.compile(r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] ?")
_CALLER = re.compile(r"\[\s*([TC]\d+)\] ?")
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_NAMED = re.compile(r"(?i)dmesg|kmsg|kern")
#: What a line without any stamp begins with, if it is the kernel's.
_KERNELISH = re.compile(
    r"NVRM: |nvidia[\w-]*[: ]|\[drm|amdgpu[: ]|pci(?:eport|ehp)? |mlx5_core |mlx5_\d|EXT4-fs|XFS |BTRFS|mce: |EDAC |"
    r"audit: |usb |Linux version |Command line: |BIOS-|ACPI: |e820: |systemd\[1\]: |IPv6: |docker0: |nvme\d? |"
    r"\{\d+\}\[Hardware|"
    r"\[Hardware Error\]|INFO: task |Call Trace:|RIP: |CPU: \d|Memory cgroup |Out of memory|oom|overlayfs: |cgroup: |"
    r"nfs: |Lustre|LNet|perf: |EXT3-fs|sd \d|ata\d|eth\d|infiniband|kauditd|traps: |watchdog: |rcu: |NMI "
)


class _Form(NamedTuple):
    name: str
    stamp: Stamp
    end: int


def _form(line: str, pos: int) -> _Form | None:
    """Which of the stamped forms begins at `pos`."""
    c = line[pos : pos + 1]
    if c == "[":
        if found := stamps.uptime(line, pos):
            return _Form("raw", *found) if found[0].kind == "mono" else None
        if (m := _CTIME.match(line, pos)) and (wall := stamps.ctime(line, pos + 1)):
            return _Form("ctime", wall[0], m.end())
        if found := stamps.minute(line, pos):
            return _Form("minute", *found)
        if found := stamps.delta(line, pos):
            return _Form("step" if "+" in line[pos : found[1]] else "delta", *found)
        return None
    if c.isdigit():
        if (m := _ISO.match(line, pos)) and (wall := stamps.iso(line, pos)):
            return _Form("iso", wall[0], m.end())
        if found := stamps.kmsg(line, pos):
            return _Form("kmsg", *found)
    return None


def _split(line: str) -> tuple[re.Match[str], _Form] | None:
    front = _FRONT.match(line)
    form = None if front is None else _form(line, front.end())
    return None if front is None or form is None else (front, form)


def _is_stamped(line: str) -> bool:
    return _split(line) is not None


def _relative(back: Iterator[str], step: int) -> Stamp:
    """The last printed minute plus all steps since; `none` where it lies too far back."""
    total = step
    for earlier in back:
        front = _FRONT.match(earlier)
        pos = front.end() if front else 0
        if found := stamps.minute(earlier, pos):
            return Stamp("noyear", found[0].us + total)
        total += stamps.delta_us(earlier, pos) or 0
    return NO_STAMP


def frame_line(line: str, back: LookBack) -> Frame:
    """A line of any form of this module without its wrapping (see the module docstring)."""
    parts = _split(line)
    if parts is None:
        return _unstamped(line, back)
    front, form = parts
    rest = line[form.end :].removeprefix(" ") if form.name != "kmsg" else line[form.end :]
    extra: dict[str, str] = {}
    if m := _CALLER.match(rest):
        extra["caller"], rest = m[1], rest[m.end() :]
    level = front["lvl"] or (_level(front["pri"]) if front["pri"] else None)
    if form.name == "kmsg":
        level = _level(line[front.end() :].split(",", 1)[0])
        rest = unescape_kmsg(rest)
    if level:
        extra["level"] = level
    if front["fac"] and front["fac"] != "kern":
        extra["facility"] = front["fac"]
    if form.name == "iso" and (offset := stamps.printed_offset(line)):
        extra["utc_offset"] = offset
    stamp = form.stamp
    if form.name == "step":
        stamp = _relative(back.lines(), stamps.delta_us(line, front.end()) or 0)
    frame = Frame(clean(rest), stamp, short_host(front["host"] or ""), extra=extra)
    return join_split(frame, _earlier(back)) if split_chain(frame.text) else frame


def _earlier(back: LookBack) -> Iterator[Frame]:
    for line in back.lines():
        if parts := _split(line):
            front, form = parts
            yield Frame(clean(line[form.end :].removeprefix(" ")), form.stamp, short_host(front["host"] or ""))


def _level(pri: str) -> str:
    return _LEVELS[int(pri) & 7]


def _unstamped(line: str, back: LookBack) -> Frame:
    if prompt_host(line) is not None:
        return Frame("")
    front = _FRONT.match(line)
    if front is not None and front["lvl"]:
        return Frame(clean(line[front.end() :]), extra={"level": front["lvl"]})
    joined = continuation(line, back.lines(), _is_stamped)
    if joined is None:
        return Frame(clean(line.strip()), ok=False)
    head = frame_line(joined[0], _NO_BACK)
    stamp = head.stamp
    if parts := _split(joined[0]):
        stamp = parts[1].stamp
        if parts[1].name == "step":
            stamp = _relative_of(joined[0], back)
    return Frame(f"{head.text} {clean(joined[1])}".strip(), stamp, extra=head.extra)


def _relative_of(head: str, back: LookBack) -> Stamp:
    """Relative stamp of an earlier line: skip to it, then go on back."""
    earlier = back.lines()
    for line in earlier:
        if line == head:
            break
    front = _FRONT.match(head)
    return _relative(earlier, stamps.delta_us(head, front.end() if front else 0) or 0)


class _Nothing:
    def lines(self) -> Iterator[str]:
        return iter(())


_NO_BACK = _Nothing()


@lru_cache(maxsize=4)
def _looked_at(head: bytes) -> Shares:
    return shares(sample(head), _kind)


def _kind(line: str) -> str | None:
    if parts := _split(line):
        return parts[1].name
    front = _FRONT.match(line)
    if front is not None and front["lvl"]:
        return "decoded"
    return "text" if _KERNELISH.match(line) else None


class Dmesg:
    """One form of the ring buffer; see the module docstring.

    forms: what `_form` calls its lines. sure: score of a file that has no other lines.
    """

    family = "kernel"
    marks = MARKS
    progress = False

    def __init__(self, name: str, forms: tuple[str, ...], sure: float = 0.95) -> None:
        self.name = name
        self._forms = forms
        self._sure = sure

    def sniff(self, head: bytes, inner_path: str) -> float:
        found = _looked_at(head[:HEAD])
        mine = sum(found.by_name.get(form, 0.0) for form in self._forms)
        if self.name == "dmesg.notime":
            # Bare kernel text is the weakest sign of all: half of the lines, or fewer where the name says dmesg.
            least = 0.3 if _NAMED.search(inner_path) else 0.5
            return self._sure * mine if mine >= least else 0.0
        stamped = sum(n for form, n in found.by_name.items() if form not in ("text", "decoded"))
        if stamped < 0.3 or mine < stamped / 2:
            return 0.0
        return self._sure * min(1.0, 0.4 + stamped * 0.6)

    def frame(self, line: str, back: LookBack) -> Frame:
        frame = frame_line(line, back)
        if self.name == "dmesg.notime" and not frame.ok:
            return Frame(frame.text)
        return frame

    def mark(self, line: str, frame: Frame) -> dict[str, str]:
        return marked(line, frame)


FORMATS = (
    Dmesg("dmesg.raw", ("raw",)),
    Dmesg("dmesg.ctime", ("ctime",)),
    Dmesg("dmesg.iso", ("iso",)),
    Dmesg("dmesg.reltime", ("minute", "step")),
    Dmesg("dmesg.delta", ("delta",)),
    Dmesg("dmesg.notime", ("text", "decoded"), 0.6),
    Dmesg("kmsg", ("kmsg",)),
)
