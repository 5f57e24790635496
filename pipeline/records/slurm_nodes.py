"""Node records of Slurm (`scontrol show node`, `sinfo --json`, `sacctmgr show event`) as sentences for the rules.

    slurm drain reason node=node017 state=DOWN*+DRAIN: Not responding
    slurm node state node=node017 state=INVAL: gres/gpu count reported lower than configured (7 < 8)

The first is said where somebody or something gave a reason, the second for states that a healthy node never has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from schemas.facts import NO_STAMP, Stamp
from schemas.identity import short_host

#: Base states and flags of which a state is made, that speak of trouble or of work on the node.
_TELLING = re.compile(
    r"\b(?:DOWN|DRAIN(?:ED|ING)?|FAIL(?:ING)?|ERROR|INVAL(?:ID_REG)?|NOT_RESPONDING|MAINT(?:ENANCE)?|REBOOT\w*"
    r"|POWERED_DOWN|POWERING_DOWN|POWER_DOWN)\b|\*"
)
_WHO = re.compile(r"\s*\[([^@\]\s]+)@([^\]]+)\]\s*$")
_NOTHING = frozenset({"", "none", "(null)", "n/a", "not_set"})


@dataclass(frozen=True, slots=True)
class NodeWord:
    """What one record says about a node. `at`: when the reason was set, in the frame of the record."""

    node: str
    state: str
    reason: str
    who: str
    at: Stamp = NO_STAMP

    @property
    def sentences(self) -> list[str]:
        """Zero, one or two sentences of the shapes above."""
        state = self.state.upper() or "UNKNOWN"
        out = []
        if self.reason:
            out.append(f"slurm drain reason node={self.node} state={state}: {self.reason}")
        if _TELLING.search(state):
            out.append(f"slurm node state node={self.node} state={state}: {self.reason}".rstrip())
        return out


def split_reason(text: str) -> tuple[str, str, str]:
    """(reason, who set it, when as printed) of `Not responding [slurm@2026-03-03T04:31:07]`; lines become blanks."""
    text = " ".join(text.split())
    m = _WHO.search(text)
    reason, who, when = (text[: m.start()], m[1], m[2]) if m else (text, "", "")
    return ("" if reason.strip().lower() in _NOTHING else reason.strip()), who, when


def node_word(name: str, state: str, reason: str, who: str = "", at: Stamp = NO_STAMP) -> NodeWord | None:
    """What a record says of a node; None where it has no name."""
    node = short_host(name)
    return NodeWord(node, "".join(state.split()), reason, who, at) if node else None
