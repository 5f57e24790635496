"""The rule engine: a pure function from a subject to a decision.

`resolve` settles what an event may be a cause of, `explain` which event explains which, `shapes` reads patterns over
several events, `outcome` says whether anything was interrupted, `choose` weighs the candidates, `advice` says what to
do, `decide` puts them together.
"""

from __future__ import annotations

from classifiers.engine.decide import decide

__all__ = ["decide"]
