"""Candidates for the cause: a component with a weight, the events it rests on, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.subject import Event


@dataclass(frozen=True, slots=True)
class Candidate:
    """One possible cause.

    weight: probability that this is the cause, if it stood alone. t: seconds UTC of its first event or None.
    family: `hardware`, `job`, `scheduler`, `shape`: where the evidence comes from. alt: second-best component.
    """

    component: str
    weight: float
    cause: str
    events: tuple[Event, ...]
    why: str
    family: str
    alt: str | None = None
    final: bool = False  # an explicit statement that outranks order (preemption, announced maintenance)
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Event | None:
        return self.events[0] if self.events else None

    @property
    def t(self) -> float | None:
        return self.events[0].t if self.events else None
