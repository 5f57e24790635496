"""Reading JSON documents item by item, so that a cut or damaged end costs only the item it hits. Pure.

Understands one document or many behind each other (JSON lines, `kubectl --watch`), a list, and an object whose members
hold lists of records (`items` of Kubernetes, `jobs` and `nodes` of Slurm). Offsets are bytes of the member, so they
stay true for text that is not ASCII.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_DOCUMENT = re.compile(r"\n(?=[{\[])")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Item:
    """One record. `key`: the member that held the list ("" for a document of its own); `head`: the simple members of
    the enclosing object that stood before it (`kind`, `apiVersion`). offset and length in bytes, line 1-based."""

    key: str
    value: Any
    head: dict[str, Any]
    offset: int
    length: int
    line: int


@dataclass(frozen=True, slots=True)
class Broken:
    """A stretch that is no JSON: `length` bytes from `offset`, and why."""

    offset: int
    length: int
    reason: str


class _Positions:
    """Byte offsets and line numbers of growing character positions."""

    def __init__(self, text: str) -> None:
        self._text, self.char, self._byte, self._line = text, 0, 0, 1
        self._ascii = text.isascii()

    def at(self, char: int) -> tuple[int, int]:
        step = self._text[self.char : char]
        self._line += step.count("\n")
        self._byte += len(step) if self._ascii else len(step.encode("utf-8", "surrogateescape"))
        self.char = char
        return self._byte, self._line


class _Reader:
    def __init__(self, data: bytes, keys: frozenset[str]) -> None:
        self.text = data.decode("utf-8", "surrogateescape")
        self.size = len(data)
        self.keys = keys
        self.where = _Positions(self.text)
        self.pos = 0

    def skip(self) -> str:
        m = _SPACE.match(self.text, self.pos)
        self.pos = m.end() if m else self.pos
        return self.text[self.pos : self.pos + 1]

    def value(self) -> Any:  # noqa: ANN401 - whatever the document holds
        self.skip()
        try:
            value, self.pos = _DECODER.raw_decode(self.text, self.pos)
        except RecursionError:
            raise json.JSONDecodeError("nested too deeply", self.text, self.pos) from None
        return value

    def item(self, key: str, head: dict[str, Any]) -> Item:
        self.skip()
        offset, line = self.where.at(self.pos)
        value = self.value()
        end, _ = self.where.at(self.pos)
        return Item(key, value, head, offset, end - offset, line)

    def expect(self, allowed: str) -> str:
        c = self.skip()
        if c not in allowed or not c:
            raise json.JSONDecodeError(f"expected one of {allowed!r}", self.text, self.pos)
        self.pos += 1
        return c

    def array(self, key: str, head: dict[str, Any]) -> Iterator[Item]:
        self.expect("[")
        if self.skip() == "]":
            self.pos += 1
            return
        while True:
            yield self.item(key, head)
            if self.expect(",]") == "]":
                return

    def object(self) -> Iterator[Item]:
        """Items of the wanted lists of an object; if it has none, the object itself."""
        start, begun = self.pos, False
        head: dict[str, Any] = {}
        self.expect("{")
        if self.skip() == "}":
            self.pos += 1
            return
        while True:
            if self.skip() != '"':
                raise json.JSONDecodeError("expected a member's name", self.text, self.pos)
            name = self.value()
            self.expect(":")
            if name in self.keys and self.skip() == "[":
                begun = True
                yield from self.array(name, head)
            else:
                value = self.value()
                if isinstance(value, str | int | float | None):
                    head[name] = value
            if self.expect(",}") == "}":
                break
        if not begun:
            self.pos = start
            yield self.item("", {})

    def resync(self, begun: int) -> bool:
        """Go to the next line that begins a document, behind all that was read; False where there is none."""
        m = _DOCUMENT.search(self.text, max(begun, self.where.char))
        if m is None:
            return False
        self.pos = m.end()
        return True


def iter_items(data: bytes, keys: frozenset[str]) -> Iterator[Item | Broken]:
    """Records of all documents in `data`: elements of top-level lists and of the lists under `keys`, else objects.

    What cannot be read comes as `Broken`: from the record that failed up to the next line that begins a document, or
    to the end. Scalars at the top are passed over.
    """
    reader = _Reader(data, keys)
    while True:
        c = reader.skip()
        if not c:
            return
        begun = reader.pos
        last_good = reader.where.at(begun)[0]
        try:
            source = reader.array("", {}) if c == "[" else reader.object() if c == "{" else iter(())
            for item in source:
                last_good = item.offset + item.length
                yield item
            if c not in "[{":
                reader.value()
        except json.JSONDecodeError as err:
            more = reader.resync(begun)
            end = reader.where.at(reader.pos)[0] if more else reader.size
            yield Broken(last_good, end - last_good, f"not JSON: {err.msg} at character {err.pos}")
            if not more:
                return
