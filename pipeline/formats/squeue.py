"""`squeue` as a table: the default columns and those of `-l`, `-o` and `-O` under a heading, and `-h` without one.

The heading says which column is which; cells are told apart by what each column may hold, because names have blanks and
columns are cut. Without a heading only the default form is read. Jobs give one `RunFragment` each: state, nodes or the
reason why it waits, user, partition, start and submit time where they are asked for. Rows that do not fit are
quarantined. squeue tells of now, so nothing in it has an end. Source: SchedMD/slurm doc/man/man1/squeue.1.
"""

from __future__ import annotations

import re

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, RawLine, raw_lines
from pipeline.records import slurm_fields as sf
from pipeline.scanning.mask import secrets
from schemas.facts import NO_STAMP, Facts, RunFragment

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|N/A|Unknown"
_SPAN = r"(?:\d{1,4}-)?(?:\d{1,3}:){1,2}\d\d|INVALID|UNLIMITED|NOT_SET|infinite|N/A|Partition_Limit"
#: Heading -> (name of the group, what a cell looks like).
_COLUMNS = {
    "JOBID": ("job", r"\d{1,12}(?:_(?:\d{1,9}|\[[\d,:%.-]{1,200}\])|\+\d{1,4})?"),
    "PARTITION": ("partition", r"\S{1,80}"),
    "NAME": ("name", r"\S.{0,200}?"),
    "USER": ("user", r"\S{1,60}"),
    "ACCOUNT": ("account", r"\S{1,80}"),
    "QOS": ("qos", r"\S{1,80}"),
    "ST": ("state", r"[A-Z]{1,3}"),
    "STATE": ("state", r"[A-Z_]{3,20}\+?"),
    "TIME": ("elapsed", _SPAN),
    "TIME_LEFT": ("left", _SPAN),
    "TIME_LIMI": ("limit", _SPAN),
    "TIME_LIMIT": ("limit", _SPAN),
    "TIMELIMIT": ("limit", _SPAN),
    "NODES": ("n_nodes", r"\d{1,6}"),
    "CPUS": ("cpus", r"\d{1,9}"),
    "PRIORITY": ("priority", r"[\d.]{1,20}"),
    "START_TIME": ("start", _TIME),
    "SUBMIT_TIME": ("submit", _TIME),
    "REASON": ("reason", r"\S{1,200}"),
    "NODELIST(REASON)": ("where", r"\(.{0,300}\)|[\w\[\],.+-]{0,2000}"),
    "NODELIST": ("where", r"[\w\[\],.+-]{0,2000}"),
}
_DEFAULT = ("JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)")
_CODES = frozenset(sf.STATES)
_LEAST_ROWS = 3
#: A longer line is no row.
_LONGEST = 4_000
_CONTEXT = re.compile(r"\s*$|#|.{0,80}\$ squeue\b|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} ")


def _row(heading: tuple[str, ...]) -> re.Pattern[str]:
    """The form of a row under a heading. The first column of a name holds."""
    seen: set[str] = set()
    parts = []
    for column in heading:
        name, cell = _COLUMNS[column]
        parts.append(f"(?:{cell})" if name in seen else f"(?P<{name}>{cell})")
        seen.add(name)
    return re.compile(r"\s*" + r"\s+".join(parts[:-1]) + r"\s*" + parts[-1] + r"\s*")


def heading(text: str) -> tuple[str, ...] | None:
    """The columns of a heading; None where the line is none."""
    words = tuple(text.split())
    if len(words) < 4 or "JOBID" not in words or not {"ST", "STATE"} & set(words):
        return None
    return words if all(word in _COLUMNS for word in words) else None


_DEFAULT_ROW = _row(_DEFAULT)


def _is_default(text: str) -> bool:
    m = _DEFAULT_ROW.fullmatch(text) if len(text) <= _LONGEST else None
    return m is not None and m["state"] in _CODES and (bool(m["where"]) or m["state"] in ("PD", "CG"))


def _start(lines: list[RawLine]) -> tuple[int, tuple[str, ...]] | None:
    """(index of the first row, columns) of the first table."""
    for at, line in enumerate(lines[:60]):
        if columns := heading(line.text):
            return at + 1, columns
    said = [(at, line) for at, line in enumerate(lines[:60]) if not _CONTEXT.match(line.text)]
    if len(said) >= _LEAST_ROWS and all(_is_default(line.text) for _, line in said[:-1]):
        return said[0][0], _DEFAULT
    return None


class Squeue:
    """Jobs that wait or run."""

    name = "squeue"
    family = "scheduler"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        found = _start(list(raw_lines(head[:16384])))
        return 0.0 if found is None else 0.96 if found[0] else 0.9

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:  # noqa: ARG002
        out = Collector(info, self.name, self.family, data)
        lines = list(raw_lines(data))
        found = _start(lines)
        if found is None:
            out.quarantine(0, len(data), "no table of squeue")
            return out.result()
        at, columns = found
        form = _row(columns)
        for line in lines[at:]:
            if _CONTEXT.match(line.text):
                continue
            if again := heading(line.text):
                form = _row(again)
            elif len(line.text) > _LONGEST or (m := form.fullmatch(line.text)) is None:
                out.quarantine(line.offset, line.length, "not a row of this table")
            else:
                out.fragment(_fragment(m, info.source_id, line))
        return out.result()


def _fragment(m: re.Match[str], source_id: str, line: RawLine) -> RunFragment:
    get = {name: sf.clean(value) for name, value in m.groupdict().items() if value is not None}.get
    state, extra = sf.state(get("state") or "")
    where = get("where") or ""
    waits = where.startswith("(")
    nodes, whole = ((), True) if waits else sf.nodes(where)
    elapsed, limit = sf.seconds(get("elapsed") or ""), sf.seconds(get("limit") or "")
    extra |= {
        "partition": get("partition") or "",
        "qos": get("qos") or "",
        "elapsed_s": "" if elapsed is None else str(elapsed),
        "timelimit_s": "" if limit is None else str(limit),
        "nodes_cut": "" if whole else "1",
    }
    pending = state == "PENDING"
    return RunFragment(
        source_id=source_id,
        offset=line.offset,
        line=line.number,
        scheduler="slurm",
        cluster="",
        job_id=get("job") or "",
        state=state,
        submit=sf.stamp(get("submit") or ""),
        start=NO_STAMP if pending else sf.stamp(get("start") or ""),  # of a waiting job it is a forecast
        nodes=nodes,
        n_nodes=sf.number(get("n_nodes") or ""),
        user=get("user") or "",
        account=get("account") or "",
        name=secrets(get("name") or ""),
        reason=where.strip("()") if waits else get("reason") or "",
        extra=sf.tidy(extra),
    )


FORMATS = (Squeue(),)
