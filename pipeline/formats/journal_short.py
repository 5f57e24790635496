"""journalctl's one-line outputs: short, -precise, -iso, -full (and with-unit), -unix, -monotonic.

The lines are those of syslog (`syslog_line` reads them). short and short-precise have no year and no zone; short-full
names the reader's zone, which is used where it has one meaning; short-unix and short-iso are explicit;
short-monotonic counts from boot. `-o cat` prints messages alone and is read as `dmesg.notime`. journalctl's own
lines (`-- Boot ... --`) frame as empty text.
"""

from __future__ import annotations

from pipeline.formats.syslog import Syslog

FORMATS = (
    Syslog("journal.short", "journal", ("bsd",)),
    Syslog("journal.short_iso", "journal", ("iso",)),
    Syslog("journal.short_full", "journal", ("full",)),
    Syslog("journal.short_unix", "journal", ("unix",)),
    Syslog("journal.short_monotonic", "journal", ("mono",)),
)
