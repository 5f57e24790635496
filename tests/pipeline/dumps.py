"""Flight recorder dumps in the structure that PyTorch writes: a world that runs collectives until it hangs."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

T0_NS = 1_772_512_267_000_000_000
Dump = dict[str, Any]


class World:
    """Ranks and their groups. `run` lets members enter a collective; who does not come is left out of `ranks`."""

    def __init__(self, size: int, groups: Mapping[str, tuple[str, Sequence[int]]]) -> None:
        self.groups = {"0": ("default_pg", tuple(range(size))), **{k: (d, tuple(r)) for k, (d, r) in groups.items()}}
        self.entries: dict[int, list[Dump]] = {r: [] for r in range(size)}
        self._seq: dict[tuple[str, int], int] = {}
        self._now = 0

    def run(
        self,
        group: str,
        ranks: Sequence[int] | None = None,
        *,
        op: str = "all_reduce",
        size: Sequence[int] = (1024, 8),
        dtype: str = "BFloat16",
        done: bool = True,
        ms: float | Mapping[int, float] = 2.0,
        p2p: bool = False,
    ) -> None:
        desc, members = self.groups[group]
        self._now += 1_000_000_000
        for r in members if ranks is None else ranks:
            if p2p:
                seq = self._seq.get((group, r), 0)
            else:
                seq = self._seq[group, r] = self._seq.get((group, r), 0) + 1
            created = T0_NS + self._now + r * 1000
            self.entries[r].append(
                {
                    "record_id": len(self.entries[r]),
                    "pg_id": int(group),
                    "process_group": (group, desc),
                    "collective_seq_id": seq,
                    "p2p_seq_id": 1 if p2p else 0,
                    "op_id": len(self.entries[r]) + 1,
                    "profiling_name": f"nccl:{op}",
                    "time_created_ns": created,
                    "input_sizes": (tuple(size),),
                    "input_dtypes": [dtype],
                    "output_sizes": (tuple(size),),
                    "output_dtypes": [dtype],
                    "state": "completed" if done else "scheduled",
                    "time_discovered_started_ns": created + 1000 if done else None,
                    "time_discovered_completed_ns": created + 2000 if done else None,
                    "duration_ms": (ms if isinstance(ms, float) else ms.get(r, 2.0)) if done else None,
                    "retired": done,
                    "timeout_ms": 600000,
                    "is_p2p": p2p,
                }
            )

    def dump(self, rank: int, *, active: bool = False) -> Dump:
        """One rank's dump; `active` leaves out what is complete, as dumps on demand may."""
        mine = {k: v for k, v in self.groups.items() if rank in v[1]}
        return {
            "version": "2.10",
            "nccl_version": "2.27.3",
            "pg_config": {k: {"name": k, "desc": d, "ranks": str(list(r))} for k, (d, r) in mine.items()},
            "pg_status": {
                k: {
                    "last_enqueued_collective": self._seq.get((k, rank), 0),
                    "last_started_collective": -1,
                    "last_completed_collective": -1,
                }
                for k in mine
            },
            "entries": [e for e in self.entries[rank] if not (active and e["state"] == "completed")],
        }


def as_pickle(dump: Dump) -> bytes:
    return pickle.dumps(dump, protocol=2)


def as_json(dump: Dump) -> bytes:
    return json.dumps(dump).encode()


def write(
    folder: Path,
    dumps: Mapping[int, Dump],
    *,
    name: str = "nccl_trace_rank_{}",
    encode: Callable[[Dump], bytes] = as_pickle,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for rank, dump in dumps.items():
        (folder / name.format(rank)).write_bytes(encode(dump) if dump else b"")
    return folder


def healthy(size: int = 8, steps: int = 6) -> World:
    """Two groups of half the world each, all in step."""
    half = size // 2
    world = World(size, {"1": ("TENSOR", range(half)), "2": ("TENSOR", range(half, size))})
    for _ in range(steps):
        world.run("1", op="_all_gather_base")
        world.run("2", op="_all_gather_base")
        world.run("0")
    return world
