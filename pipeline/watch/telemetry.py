"""Hours of telemetry from watched files. Their formats are read as a whole, so an hour of a source is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.facts import Facts
from schemas.settings import Settings

if TYPE_CHECKING:
    from sql.store import Store


def load_telemetry(store: Store, settings: Settings, facts: Facts) -> None:
    """Write the hours that these facts hold, in UTC by the clocks that all stored sources and these give.

    An hour that is written again is the same row, so it does not matter whether the facts are committed after it.
    """
    if not facts.telemetry:
        return
    from pipeline.placing.place import place
    from pipeline.records.power import power_rows
    from pipeline.records.telemetry import rows

    cluster = settings.cluster
    mine = {s.source_id for s in facts.sources}
    sources = (*(s for s in store.read_sources(cluster) if s.source_id not in mine), *facts.sources)
    clocks = place(sources, (*store.read_fragments(cluster), *facts.fragments), settings)
    store.load_telemetry(cluster, rows(facts.telemetry, clocks))
    store.load_power(cluster, power_rows([fact for fact in facts.telemetry if fact.changes], clocks))
