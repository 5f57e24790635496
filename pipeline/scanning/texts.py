"""What the rules say of the text of a framed line, remembered, because storms repeat texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.scanning.fold import Match, prepare
from pipeline.scanning.mask import secrets

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl

#: Lines longer than this are matched in overlapping pieces: a pattern may cost the square of its text. Characters.
PIECE = 8192
#: Texts that are remembered at one time.
_REMEMBERED = 8192


class Texts:
    """Matches of texts under one rule set."""

    def __init__(self, ruleset: RulesetImpl) -> None:
        self._ruleset = ruleset
        self._known: dict[tuple[str, str, tuple[str, ...]], tuple[tuple[Match, ...], bool]] = {}

    def match(
        self, text: str, family: str, ids: tuple[str, ...], *, hidden: bool = False
    ) -> tuple[tuple[Match, ...], bool]:
        """(matches of the masked text, whether one may be fatal).

        ids: rules whose anchors were found. hidden: the literals that were hit need not be all that the text holds, so
        every rule is tried.
        """
        known = self._known.get((text, family, ids))
        if known is not None:
            return known
        matches: tuple[Match, ...] = ()
        fatal = False
        candidates = None if hidden else ids
        for line in text.split("\n") if "\n" in text else (text,):
            for piece in _pieces(line):
                found = self._ruleset.match(piece, family, candidates)
                if not found:
                    continue
                masked = secrets(piece)  # only what a rule wants is masked, and then read again as it will be kept
                if masked != piece:
                    found = self._ruleset.match(masked, family, candidates)
                if found:
                    matches += prepare(masked, found)
                    fatal = fatal or any(rule.strength == "strong" and rule.fatal != "n" for rule, _ in found)
                    break
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        if len(text) <= PIECE:
            self._known[(text, family, ids)] = (matches, fatal)
        return matches, fatal


def _pieces(text: str) -> list[str]:
    if len(text) <= PIECE:
        return [text]
    return [text[at : at + PIECE] for at in range(0, len(text) - PIECE // 2, PIECE // 2)]
