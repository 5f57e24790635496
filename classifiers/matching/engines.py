"""Building an engine for a rule set, and from its hits to lines.

An engine reports (anchor id, end offset); lines follow here, in the same way for both engines, so that their
records are equal. `\\n` and `\\r` both end a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from classifiers.errors import EngineError
from classifiers.matching.anchors import Anchor
from classifiers.matching.lines import line_bounds

#: Pseudo rule id of lines that a format asked for by its marks.
MARK = "#mark"


class AnchoredRules(Protocol):
    """What an engine needs of a rule set."""

    @property
    def anchors(self) -> Sequence[tuple[Anchor, tuple[str, ...]]]: ...


class BlockEngine(Protocol):
    """An engine with the table that maps anchor ids to rules, sorted (see `classifiers.api.Engine`)."""

    name: str

    @property
    def rule_ids(self) -> Sequence[tuple[str, ...]]: ...

    def scan(self, block: memoryview) -> Iterator[tuple[int, int]]: ...


def anchor_table(ruleset: AnchoredRules, marks: Sequence[bytes] = ()) -> list[tuple[str, tuple[str, ...]]]:
    """(regex, rule ids) of every anchor by anchor id; marks come last, under the pseudo rule `MARK`.

    The ids of an anchor are sorted, each once.
    """
    table = [(anchor.regex, tuple(sorted(set(ids)))) for anchor, ids in ruleset.anchors]
    known = {anchor.text.encode(): i for i, (anchor, _) in enumerate(ruleset.anchors) if anchor.kind == "literal"}
    for mark in sorted(set(marks)):
        if mark in known:
            regex, ids = table[known[mark]]
            table[known[mark]] = (regex, tuple(sorted({*ids, MARK})))
        else:
            table.append((Anchor("", "literal", mark.decode("utf-8")).regex, (MARK,)))
    return table


def make_engine(ruleset: AnchoredRules, prefer: str = "auto", marks: Sequence[bytes] = ()) -> BlockEngine:
    """An engine for the rule set's anchors and a format's marks.

    prefer: `hyperscan`, `re2`, or `auto` (the first of these that is installed). Engines hold native memory and are
    not pickled: build one in each worker; one engine may be used from several threads.
    """
    table = anchor_table(ruleset, marks)
    if prefer not in {"auto", "hyperscan", "re2"}:
        msg = f"unknown scan engine {prefer!r}: use auto, hyperscan or re2"
        raise EngineError(msg)
    if prefer in {"auto", "hyperscan"}:
        try:
            from classifiers.matching.hyperscan_engine import HyperscanEngine
        except ImportError as err:
            if prefer == "hyperscan":
                msg = "scan engine hyperscan is not installed: pip install hyperscan, or use re2"
                raise EngineError(msg) from err
        else:
            return HyperscanEngine(table)
    try:
        from classifiers.matching.re2_engine import Re2Engine
    except ImportError as err:
        msg = "no scan engine is installed: pip install hyperscan (or google-re2)"
        raise EngineError(msg) from err
    return Re2Engine(table)


def hit_lines(engine: BlockEngine, block: memoryview | bytes | bytearray) -> list[tuple[int, int, tuple[str, ...]]]:
    """Lines of a block with at least one anchor hit: (start, end without the line end, sorted rule ids).

    In order of start. An anchor never matches over a line end (a lint holds that).
    """
    view = block if isinstance(block, memoryview) else memoryview(block)
    hits = sorted((end, anchor) for anchor, end in engine.scan(view))
    if not hits:
        return []
    data = view.obj if isinstance(view.obj, bytes | bytearray) and view.nbytes == len(view.obj) else bytes(view)
    out: list[tuple[int, int, tuple[str, ...]]] = []
    start = stop = -1
    ids: set[str] = set()
    table = engine.rule_ids
    for end, anchor in hits:
        if end > stop:
            if ids:
                out.append((start, stop, tuple(sorted(ids))))
            start, stop = line_bounds(data, end)
            ids = set()
        ids.update(table[anchor])
    out.append((start, stop, tuple(sorted(ids))))
    return out
