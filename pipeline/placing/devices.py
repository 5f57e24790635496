"""One GPU is one device over all sources: its index, PCI address, UUID and serial number on a host, joined.

Sources name GPUs in their own way: the kernel by address, nvidia-smi by index, DCGM by UUID or index. What ties these
names stands in the facts of sources (nvidia-smi -L and -q, NVRM lines, labels of dcgm-exporter, dcgmi diag), and holds
on one host. A name that was tied to two addresses, as after a card was moved, names none of them. The index that a
process of a job sees is another one: `classifiers.engine.ranks` reads NCCL's lines for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from classifiers.devices import pci
from schemas.facts import SourceFact

_FACT = re.compile(
    r"(?P<what>gpu_uuid|gpu_serial|gpu_index|gpu_listed|gpu_serial_of):(?P<name>[^=]{1,300})=(?P<value>.{1,100})"
)


class Gpu(NamedTuple):
    """The names of one GPU of a host, "" where not known. device: `pci:0000:4d:00`, as in events. number: index."""

    device: str
    number: str
    uuid: str
    serial: str


def gpus_by_host(sources: Iterable[SourceFact], host_of: Mapping[str, str]) -> dict[str, tuple[Gpu, ...]]:
    """host -> its GPUs with a known address, sorted. host_of: source id -> host, "" where not known."""
    pairs: dict[str, set[tuple[str, str]]] = {}
    for source in sources:
        host = host_of.get(source.source_id, "")
        for fact in source.facts if host else ():
            if not fact.startswith("gpu_") or (m := _FACT.fullmatch(fact)) is None:
                continue
            tied = _tied(m["what"], m["name"], m["value"])
            if tied is not None:
                pairs.setdefault(host, set()).add(tied)
    return {host: found for host, tied in sorted(pairs.items()) if (found := _gpus(tied))}


def _tied(what: str, name: str, value: str) -> tuple[str, str] | None:
    """Two names of one GPU that a fact ties, each with its kind in front."""
    if what == "gpu_listed":
        return (f"uuid:{value}", f"index:{name}")
    if what == "gpu_serial_of":
        return (f"serial:{value}", f"index:{name}")
    return (pci(name), f"{what[4:]}:{value}") if pci(name) else None


def _gpus(tied: Iterable[tuple[str, str]]) -> tuple[Gpu, ...]:
    near: dict[str, set[str]] = {}
    for a, b in tied:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    # names that one step, or two, tie to an address; a name of two addresses is nobody's
    address: dict[str, set[str]] = {}
    for name in near:
        if not name.startswith("pci:"):
            one = {n for n in near[name] if n.startswith("pci:")}
            two = {p for n in near[name] for p in near[n] if not n.startswith("pci:") and p.startswith("pci:")}
            address[name] = one or two
    names: dict[str, dict[str, list[str]]] = {}
    for name, at in sorted(address.items()):
        if len(at) == 1:
            kind, _, value = name.partition(":")
            names.setdefault(next(iter(at)), {}).setdefault(kind, []).append(value)
    return tuple(
        Gpu(device, *(_only(known.get(kind, ())) for kind in ("index", "uuid", "serial")))
        for device, known in sorted(names.items())
    )


def _only(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else ""


def one_device(device: str, gpus: Iterable[Gpu]) -> str:
    """The device by its address, where it is named by index, UUID or serial number (`gpu:3`, `gpu:GPU-...`)."""
    if not device.startswith("gpu:"):
        return device
    name = device[4:]
    for gpu in gpus:
        uuid = gpu.uuid.removeprefix("GPU-")
        if name == gpu.number or (uuid and name in (gpu.uuid, uuid)) or (gpu.serial and name == gpu.serial):
            return gpu.device
    return device


def told(host: str, gpu: Gpu) -> tuple[str, ...]:
    """A GPU's names as facts of a subject: `gpu_index_on:<host>:<address>=3`."""
    where = f"{host}:{gpu.device.removeprefix('pci:')}"
    known = (("index", gpu.number), ("uuid", gpu.uuid), ("serial", gpu.serial))
    return tuple(f"gpu_{kind}_on:{where}={value}" for kind, value in known if value)
