"""Loads tiny sites into warehouses and compares what came of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hypothesis import settings as hypothesis_settings

from pipeline.warehouse.ingest import IngestResult, ingest
from schemas.settings import Settings
from schemas.subject import Decision
from sql.same import dump_same, same_bytes
from sql.store import open_store
from tests.pipeline.tiny_sites import SITES, Files, Site, write

#: Examples of each property: a few in `make test`, many in `make soak` (each ingest takes about half a second).
EXAMPLES = int(os.environ.get("FAULTBEAM_EXAMPLES", str(max(3, hypothesis_settings.default.max_examples // 40))))


def url(folder: Path, name: str = "warehouse") -> str:
    return f"sqlite:///{folder / name}.db"


def load(
    warehouse: str,
    folder: Path,
    files: Mapping[str, str],
    settings: Settings | None = None,
    args: Sequence[str] = (),
    **more: str,
) -> IngestResult:
    """Writes the files below a folder of their own, always called `logs`, and ingests it."""
    number = len(list(folder.glob("input-*")))
    root = write(files, folder / f"input-{number}" / "logs")
    return ingest([root], warehouse, settings or Settings(), pipeline_args=args, **more)


def same(warehouse: str) -> bytes:
    with open_store(warehouse) as store:
        return same_bytes(store)


def rows(warehouse: str) -> dict[str, list[dict[str, object]]]:
    with open_store(warehouse) as store:
        return dump_same(store)


def decisions(warehouse: str) -> list[Decision]:
    """All decisions, also those of subjects that nothing interrupted."""
    with open_store(warehouse) as store:
        return list(store.list_decisions(incidents_only=False))


def shape(decided: Iterable[Decision]) -> list[tuple[str, bool, str, str, tuple[tuple[str, str], ...]]]:
    """What must not depend on when and where: kind, incident, component, cause, and signals with their roles."""
    return sorted(
        (d.kind, d.incident, d.component, d.cause, tuple((e.role, e.event.signal) for e in d.evidence)) for d in decided
    )


def ids(decided: Iterable[Decision]) -> list[tuple[str, str, str, float, tuple[tuple[str, str], ...]]]:
    """Everything by which two answers are the same answer."""
    return sorted(
        (d.incident_id, d.subject_key, d.component, d.confidence, tuple((e.role, e.event.id) for e in d.evidence))
        for d in decided
    )


def site(name: str, **how: object) -> Files:
    return SITES[name](Site(**how))  # type: ignore[arg-type]
