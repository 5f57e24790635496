"""What switches say, as context of the jobs that ran meanwhile. Pure.

A switch names its own ports, not the hosts behind them, so nothing ties its events to one job but time: they are joined
to all runs of their input root in whose window they lie, and only where the root holds one fabric (all logs of
switches in one folder, be it one file or one folder a switch). Joined events claim no host and no cause by themselves:
they come as context, which `classifiers.engine.shapes.fabric_trouble` weighs against what the job saw.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pipeline.joining.events import Placed
from schemas.facts import SourceFact

#: Tag of rules for what only a switch prints.
SWITCH = "switch"


def is_switch(p: Placed) -> bool:
    """Whether the signal is of a switch."""
    return SWITCH in p.rule.tags or SWITCH in p.meaning.tags


def one_fabric(placed: Iterable[Placed], sources: Mapping[str, SourceFact]) -> frozenset[str]:
    """The roots whose switches all log into one folder."""
    folders: dict[str, set[str]] = defaultdict(set)
    for p in placed:
        source = sources.get(p.fact.source_id)
        if source is not None and is_switch(p):
            folders[p.root].add(_folder(source, p.hosts))
    return frozenset(root for root, found in folders.items() if len(found) == 1)


def _folder(source: SourceFact, hosts: tuple[str, ...]) -> str:
    """Where a switch's log lies, without a folder that is named after the switch itself."""
    folder = min(source.inner_paths, default="").rpartition("/")[0]
    parent, _, last = folder.rpartition("/")
    return parent if last.split(".", 1)[0].lower() in hosts else folder


def as_context(p: Placed) -> Placed:
    """The signal as it is joined to a run."""
    return replace(p, hosts=(), meaning=replace(p.meaning, role="context", device=""))
