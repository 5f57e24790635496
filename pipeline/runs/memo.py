"""Results kept from one call to the next, for callers that ask again after little has changed.

A result is used again only where everything that it was made from is equal; what one round does not ask for is
forgotten in the next. Objects that did not change should be the same objects: then comparing costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Results of pure functions by name. Not for threads."""

    def __init__(self) -> None:
        self._held: dict[Hashable, tuple[Any, Any]] = {}
        self._used: dict[Hashable, tuple[Any, Any]] = {}

    def begin(self) -> None:
        """Begin a round: what the last one did not ask for is forgotten."""
        self._held, self._used = self._used, {}

    def get(self, name: Hashable, inputs: object, make: Callable[[], T]) -> T:
        """The result of `make`, or the one that was made of equal inputs before. It must not be changed."""
        held = self._held.get(name)
        entry = held if held is not None and held[0] == inputs else (inputs, make())
        self._used[name] = entry
        result: T = entry[1]
        return result
