"""What the stream answered, and how soon, counted from the outbox of incidents."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from classifiers.knowledge import load_ruleset
from pipeline.scanning.scan import scan_paths
from pipeline.stream.answers import Answers
from pipeline.warehouse.live import Decider
from schemas.settings import Settings
from sql.store import open_store
from tests.pipeline.tiny_sites import SITES, Site, write

FAR = 1 << 60


def _by(counters: dict[tuple[str, ...], float], *, what: str, provisional: str) -> float:
    return sum(n for key, n in counters.items() if key[0] == "incidents" and key[2:] == (provisional, what))


def test_provisional_and_final_answers_are_counted_once_and_timed_from_the_end_of_the_run(tmp_path: Path) -> None:
    rules, settings = load_ruleset(), Settings()
    facts = scan_paths([write(SITES["hbm"](Site()), tmp_path / "logs")], settings, rules)
    now = [datetime(2026, 6, 1, tzinfo=UTC)]
    with open_store(f"sqlite:///{tmp_path / 'w.db'}", create=True, clock=lambda: now[0]) as store:
        answers = Answers("default")
        with store.reading() as connection:
            assert answers.look(connection).counters == {}
        touched = store.load_facts(facts, mark=True).source_ids
        decider = Decider(store, settings, rules, settle_s=0.0)
        decider.decide(touched, 0)
        ends = [run.end_us for run in store.read_runs("default") if run.end_us is not None]
        with store.reading() as connection:
            first = answers.look(connection)
        new = _by(first.counters, what="new", provisional="true")
        assert new >= 1
        assert all(key[1] for key in first.counters)  # each with its component
        waited = first.histograms["end_to_provisional"]
        assert waited.count == 1
        assert min(abs(waited.total - (now[0].timestamp() - end / 1e6)) for end in ends) < 1e-3
        assert "end_to_final" not in first.histograms
        decider.decide_pending(FAR)
        with store.reading() as connection:
            second = answers.look(connection)
            third = answers.look(connection)
        assert second == third
        assert _by(second.counters, what="new", provisional="true") == new
        assert _by(second.counters, what="changed", provisional="false") == new
        assert second.histograms["end_to_final"].count == 1
        # a supervisor that starts now counts from here
        with store.reading() as connection:
            assert Answers("default").look(connection).counters == {}
