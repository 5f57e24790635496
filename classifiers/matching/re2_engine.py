"""google-re2 on blocks: the fallback engine, for machines without Hyperscan.

One alternation of all anchors finds the next line that has one; a `re2.Set` then tells which anchors are on it.
"""

# ruff: noqa: ANN401 - the libraries and the syntax tree carry no types

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import re2

from classifiers.errors import EngineError
from classifiers.matching.lines import line_bounds

#: The alternation's automaton is built while scanning; this bounds its memory.
_MEMORY = 128 << 20


def _options() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.max_mem = _MEMORY
    options.log_errors = False
    return options


class Re2Engine:
    """See `classifiers.api.Engine`. table: (regex, rule ids) by anchor id.

    The end offset of a hit lies on the hit's line; where several anchors share a line they share the offset.
    """

    name = "re2"

    def __init__(self, table: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        self.rule_ids: tuple[tuple[str, ...], ...] = tuple(ids for _, ids in table)
        options = _options()
        regexes = [regex.encode() for regex, _ in table]
        self._any = compile_re2(b"|".join(b"(?:" + r + b")" for r in regexes), options) if regexes else None
        self._set = re2.Set.SearchSet(options)
        for regex in regexes:
            self._set.Add(regex)
        self._set.Compile()

    def rules_on(self, text: str) -> set[str]:
        """Ids of the rules one of whose anchors is in the text."""
        found = self._set.Match(text.encode("utf-8", "surrogateescape"))
        return {rule_id for i in found or () for rule_id in self.rule_ids[i]}

    def __reduce__(self) -> NoReturn:
        msg = "a scan engine is not pickled: build it in each worker with make_engine"
        raise TypeError(msg)

    def scan(self, block: memoryview) -> Iterator[tuple[int, int]]:
        """(anchor id, end offset) of every anchor hit in the block."""
        data = (
            block.obj if isinstance(block.obj, bytes | bytearray) and block.nbytes == len(block.obj) else bytes(block)
        )
        if self._any is None:
            return
        position, size = 0, block.nbytes
        search = self._any.search
        while position < size:
            match = search(data, position)
            if match is None:
                return
            end = match.end()
            start, stop = line_bounds(data, end)
            for anchor in self._set.Match(data[start:stop]):
                yield anchor, end
            position = max(stop, end)


def compile_re2(regex: bytes, options: Any | None = None) -> Any:
    """A compiled re2 regex; `EngineError` says what the library refuses."""
    try:
        return re2.compile(regex, options or _options())
    except re2.error as err:
        msg = f"re2 refuses {regex[:120]!r}: {err}"
        raise EngineError(msg) from err
