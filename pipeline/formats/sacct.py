"""Tables that `sacct` prints: `-P`, `-p`, any delimiter, any columns in any order, and the fixed-width form.

The header (anywhere in the first lines, again between concatenated outputs) says which column is which. A row is one
line with as many fields as the header; people's text can break that rule, so a short line is joined with the next
ones until the count fits (a line break inside a comment), and a long one is tried with the surplus inside one of the
typed-by-people columns; both count only if every typed column then holds its type. All other rows are quarantined
with offset and reason, and the rest is loaded. A `-P` table without any heading (`-n`) is read where its columns can be
told by their content (`pipeline.records.sacct_columns`). Without a JobID column nothing can be told apart: the file is
quarantined as a whole. Yields one `RunFragment` a row (jobs and steps). Source: sacct.1, gcm's sample outputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, RawLine, raw_lines
from pipeline.records.sacct_columns import LEAST_ROWS, told_by_content
from pipeline.records.sacct_rows import COLUMNS, FREE, fragment, problem
from schemas.facts import Facts

_HEAD_LINES = 60
#: A field with more line breaks than this is damage, not a comment.
_MAX_JOIN = 64
_NAME = re.compile(r"[A-Za-z]+(?:%-?\d+)?")
_DASHES = re.compile(r"-+(?: +-+)*\s*")
_CONTEXT = re.compile(r"\s*(?:$|#|sacct: (?:error|warning)|\$ sacct)")


@dataclass(frozen=True, slots=True)
class Header:
    """Columns of one table. `delim` is "" for fixed width, where `cuts` holds (begin, end) of each column."""

    names: tuple[str, ...]
    delim: str
    trailing: bool = False
    cuts: tuple[tuple[int, int], ...] = ()

    @property
    def has_id(self) -> bool:
        return "jobid" in self.names or "jobidraw" in self.names

    def fields(self, text: str) -> list[str]:
        """The fields of a row as they stand, whatever their number."""
        if not self.delim:
            last = len(self.cuts) - 1
            return [text[a : None if i == last else b] for i, (a, b) in enumerate(self.cuts)]
        cells = text.split(self.delim)
        if self.trailing and len(cells) > 1 and not cells[-1].strip():
            cells.pop()
        return cells

    def row(self, cells: list[str]) -> dict[str, str]:
        """Cells by column; a column asked for twice keeps its first value that is set."""
        out: dict[str, str] = {}
        for name, cell in zip(self.names, cells, strict=True):
            if not out.get(name, "").strip():
                out[name] = cell
        return out


def _columns(names: list[str]) -> tuple[str, ...] | None:
    """Lower-case names if they are a sacct header: mostly known, with a job id or without any stranger."""
    if not names or not all(_NAME.fullmatch(n) for n in names):
        return None
    lower = tuple(n.split("%")[0].lower() for n in names)
    known = sum(n in COLUMNS for n in lower)
    exact_id = any(n.split("%")[0] in ("JobID", "JobIDRaw") for n in names)
    if exact_id and known * 2 > len(lower) and (known > 1 or len(lower) == 1):
        return lower
    return lower if known == len(lower) and known >= 3 else None


def delimited_header(text: str) -> Header | None:
    """The header of a `-P` or `-p` table, if the line is one."""
    text = text.rstrip("\r\n")
    first = _NAME.match(text)
    if first is None:
        return None
    rest = text[first.end() :]
    gap = re.match(r"[^A-Za-z0-9%]+", rest)
    if gap is None:
        return Header(("jobid",), "|") if text == "JobID" else None
    delim = gap[0]
    if not delim.strip(" "):
        return None
    names = text.split(delim)
    trailing = len(names) > 1 and not names[-1].strip()
    columns = _columns(names[:-1] if trailing else names)
    return None if columns is None else Header(columns, delim, trailing)


def fixed_header(text: str, dashes: str) -> Header | None:
    """The header of a table for people: names in one line, a run of dashes under each in the next."""
    if not _DASHES.fullmatch(dashes):
        return None
    cuts = tuple((m.start(), m.end()) for m in re.finditer(r"-+", dashes))
    columns = _columns([text[a:b].strip() for a, b in cuts])
    if columns is None or any(text[b : b + 1].strip() for _, b in cuts[:-1]):
        return None
    return Header(columns, "", cuts=cuts)


def find_header(lines: list[str]) -> Header | None:
    """The first header in these lines."""
    for text, below in zip(lines, [*lines[1:], ""], strict=True):
        if found := delimited_header(text) or fixed_header(text, below):
            return found
    return None


def without_heading(lines: list[str]) -> Header | None:
    """The columns of a `-n -P` table, where all lines have one form and say what they are."""
    said = [line.rstrip("\r") for line in lines if not _CONTEXT.match(line)]
    if len(said) > LEAST_ROWS and said[-1].count("|") != said[0].count("|"):
        said.pop()  # the last one may be cut
    if not said or "|" not in said[0]:
        return None
    trailing = all(line.endswith("|") for line in said)
    names = told_by_content([(line[:-1] if trailing else line).split("|") for line in said])
    return None if names is None else Header(names, "|", trailing)


def _repaired(header: Header, cells: list[str]) -> dict[str, str] | None:
    """A row with too many cells, the surplus put into the one free-text column that makes all others fit."""
    surplus = len(cells) - len(header.names)
    typed = {"state", "start", "end", "submit", "exitcode"}
    good = []
    for i, name in enumerate(header.names):
        # Something typed must stand behind the column, else any split would pass the check.
        if name not in FREE or not typed.intersection(header.names[i + 1 :]):
            continue
        merged = [*cells[:i], header.delim.join(cells[i : i + surplus + 1]), *cells[i + surplus + 1 :]]
        row = header.row(merged)
        if problem(row) is None:
            good.append(row)
    return good[0] if len(good) == 1 else None


@dataclass(frozen=True, slots=True)
class _Record:
    first: RawLine
    length: int
    row: dict[str, str] | None
    reason: str = ""


def _fixed_record(header: Header, line: RawLine) -> _Record:
    text = line.text
    if any(text[b : b + 1].strip() for _, b in header.cuts[:-1]):
        return _Record(line, line.length, None, "text between the columns of the fixed-width table")
    row = {k: v.strip() for k, v in header.row(header.fields(text)).items()}
    if row.get("jobid", "").endswith("+"):
        return _Record(line, line.length, None, "job id cut by its column")
    return _Record(line, line.length, row)


def _delimited_record(header: Header, lines: list[RawLine], at: int) -> tuple[_Record, int]:
    """The record that begins at line `at`, and the index of the line behind it."""
    first = lines[at]
    want = len(header.names)
    cells = header.fields(first.text)
    if len(cells) == want:
        return _Record(first, first.length, header.row(cells)), at + 1
    if len(cells) > want:
        row = _repaired(header, cells)
        reason = f"{len(cells)} fields where the header has {want}"
        return _Record(first, first.length, row, "" if row else reason), at + 1
    text, length, end = first.text, first.length, at + 1
    while end < len(lines) and end - at <= _MAX_JOIN:
        following = lines[end]
        alone = header.fields(following.text)
        if len(alone) == want or delimited_header(following.text) is not None:
            break
        text, length, end = f"{text}\n{following.text}", length + following.length, end + 1
        joined = header.fields(text)
        if len(joined) == want:
            row = header.row(joined)
            if problem(row) is None:
                return _Record(first, length, row), end
            break
        if len(joined) > want:
            break
    return _Record(first, first.length, None, f"{len(cells)} fields where the header has {want}"), at + 1


def _records(lines: list[RawLine]) -> Iterator[_Record]:
    texts = [line.text for line in lines[:_HEAD_LINES]]
    header = without_heading(texts) if texts and find_header(texts) is None else None
    at = 0
    while at < len(lines):
        line = lines[at]
        below = lines[at + 1].text if at + 1 < len(lines) else ""
        found = delimited_header(line.text) or fixed_header(line.text, below)
        if found is not None:
            header = found
            at += 1 if found.delim else 2
            if not found.has_id:
                yield _Record(line, -1, None, f"no JobID column among {', '.join(found.names)[:200]}")
                return
            continue
        if header is None or _CONTEXT.match(line.text):
            at += 1
        elif header.delim:
            record, at = _delimited_record(header, lines, at)
            yield record
        else:
            yield _fixed_record(header, line)
            at += 1


class Sacct:
    """Accounting records of Slurm as a table."""

    name = "sacct"
    family = "scheduler"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = head.decode("utf-8", "replace").split("\n")[:_HEAD_LINES]
        header = find_header(lines)
        if header is None:
            return 0.9 if without_heading(lines) is not None else 0.0
        return 0.97 if header.has_id and len(header.names) > 1 else 0.6

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:  # noqa: ARG002
        out = Collector(info, self.name, self.family, data)
        for record in _records(list(raw_lines(data))):
            first = record.first
            if record.row is None:
                length = len(data) - first.offset if record.length < 0 else record.length
                out.quarantine(first.offset, length, record.reason)
                continue
            if reason := problem(record.row):
                out.quarantine(first.offset, record.length, reason)
                continue
            out.fragment(fragment(record.row, info.source_id, first.offset, first.number))
        return out.result()


FORMATS = (Sacct(),)
