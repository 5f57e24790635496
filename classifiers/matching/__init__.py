"""Finding the lines that may carry a signal: anchors, the two engines, and hit lines."""

from __future__ import annotations

from classifiers.matching.anchors import Anchor, parse_anchor
from classifiers.matching.engines import MARK, hit_lines, make_engine

__all__ = ["MARK", "Anchor", "hit_lines", "make_engine", "parse_anchor"]
