"""Whose log is it? The host of each source, from what its lines name, its header, its path, or the root's only host.

Names are joined by their short form: `gpu-1.cluster.local` and `GPU-1` are one host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from schemas.facts import RunFragment, SourceFact
from schemas.identity import logical_path, short_host
from schemas.moments import PREFIX, STEP

#: Families whose lines come from one machine. Others name hosts in their text.
ONE_HOST = frozenset({"kernel", "syslog", "journal", "bmc", "other"})
#: Share of the printed names that makes a log one host's.
MAJORITY = 0.6
_FOLDER = re.compile(r"(?:^|[/!])(?:hosts?|nodes?|machines?)/([A-Za-z0-9][\w.-]{0,80})/")
_FILE = re.compile(
    r"^(?:dmesg|kern(?:el)?|kmsg|slurmd|syslog|messages|journal(?:ctl)?|sel|bmc|host)[-_.]([A-Za-z][A-Za-z0-9-]*\d[A-Za-z0-9-]*)"
    r"(?:[._](?:log|txt|out|json|cluster|local)\b.*)?$"
)
_WORD = re.compile(r"[a-z0-9]+")
_MOST_WORDS = 24
_NOT_A_HOST = re.compile(
    r"(?i)^(?:log|txt|json|gz|part|chunk|rank|gpu|worker|v|boot|iso|utc)?-?\d+$|^localhost$"
    r"|^(?:erst|efi|ramoops|with|from|for|after|before)[-_]"  # records of pstore, words of people
)


def named_hosts(sources: Iterable[SourceFact], fragments: Iterable[RunFragment]) -> set[str]:
    """All host names that the given facts state: printed in lines, headers, node lists, boots."""
    hosts = {short_host(node) for node in set().union(*(f.nodes for f in fragments))}
    for source in sources:
        hosts.update(short_host(name) for name, _ in source.names if source.family in ONE_HOST)
        hosts.update(short_host(host) for _, host in source.rank_hosts)
        hosts.add(short_host(source.host))
        for fact in source.facts:
            if fact.startswith("boot:"):
                hosts.add(short_host(fact[5:].split("=", 1)[0]))
    return hosts - {"", "localhost"}


def own_host(source: SourceFact, known: set[str]) -> tuple[str, str | None]:
    """(host, assumption): the host that the source itself or its path gives; "" where it gives none or several."""
    printed = _printed(source)
    if printed is not None and source.family != "job":
        return printed, None  # what every line says goes before what a header or the path says once
    if source.host:
        return short_host(source.host), None
    stated = {short_host(fact[5:]) for fact in source.facts if fact.startswith("host=")}
    if len(stated) == 1:
        return stated.pop(), None
    if printed is not None:
        return printed, None
    hint = _path_host(source, known)
    return (hint, f"host {hint} taken from the path") if hint else ("", None)


def pod_nodes(fragments: Iterable[RunFragment]) -> dict[str, str]:
    """The node of each pod that stood on one only. Inside a pod its name is the host name."""
    nodes: dict[str, set[str]] = {}
    for f in fragments:
        if f.scheduler == "k8s" and f.step and f.nodes:
            nodes.setdefault(short_host(f.step), set()).update(f.nodes)
    return {pod: next(iter(on)) for pod, on in nodes.items() if len(on) == 1}


def _pod(source: SourceFact) -> str:
    return next(
        (short_host(f.rsplit("/", 1)[-1].removeprefix("pod=")) for f in source.facts if f.startswith("pod=")), ""
    )


def _printed(source: SourceFact) -> str | None:
    """The host that most lines name, "" where they name several alike, None where they name none."""
    if source.family not in ONE_HOST and source.family != "job":
        return None
    counts: dict[str, int] = {}
    for name, n in source.names:
        if (short := short_host(name)) not in ("", "localhost"):
            counts[short] = counts.get(short, 0) + n
    if not counts:
        return None
    best = min(counts, key=lambda name: (-counts[name], name))
    whole = 1.0 if source.family == "job" else MAJORITY
    return best if counts[best] >= whole * sum(counts.values()) else ""


def _path_host(source: SourceFact, known: set[str]) -> str:
    daemon = any(fact.startswith(f"{PREFIX}:{STEP}") for fact in source.facts)  # slurmd's own log: it launched steps
    if source.family not in ONE_HOST and source.family != "job" and not daemon:
        return ""
    for path in source.inner_paths:
        if m := _FOLDER.search(path):
            return short_host(m[1])
        if found := _known_in(path, known):
            return found
        name = re.split(r"[/!]", logical_path(path))[-1]
        if (source.family in ONE_HOST or daemon) and (m := _FILE.match(name)) and not _NOT_A_HOST.match(m[1]):
            return short_host(m[1])
    return ""


def _known_in(path: str, known: set[str]) -> str:
    """The longest known host that stands as a whole word in a path, last component first; "" for none or a tie."""
    for part in reversed(re.split(r"[/!]", path.lower())):
        # Whole words only: every stretch between two places where letters and digits begin or end.
        begins = [m.start() for m in _WORD.finditer(part)][:_MOST_WORDS]
        ends = [m.end() for m in _WORD.finditer(part)][:_MOST_WORDS]
        hits = {part[a:b] for a in begins for b in ends if a < b and part[a:b] in known}
        longest = [host for host in hits if len(host) == max(map(len, hits))]
        if len(longest) == 1:
            return longest[0]
    return ""


def aliases_of(sources: Iterable[SourceFact]) -> dict[str, str]:
    """Host names that a scheduler calls otherwise: name that the machine prints -> the scheduler's name of the node.

    From facts `alias:<host>=<node>` (`NodeHostName` of Slurm, the host name of a Kubernetes node). A name that two
    nodes claim, or that is itself a node's, stays what it is.
    """
    told: dict[str, set[str]] = {}
    for source in sources:
        for fact in source.facts:
            if fact.startswith("alias:"):
                name, _, node = fact[6:].partition("=")
                told.setdefault(short_host(name), set()).add(short_host(node))
    nodes = {node for named in told.values() for node in named}
    return {name: next(iter(named)) for name, named in told.items() if len(named) == 1 and name not in nodes}


def hosts_of(
    sources: Sequence[SourceFact], fragments_by_root: Mapping[str, Sequence[RunFragment]]
) -> dict[str, tuple[str, str | None]]:
    """Host and assumption of every source.

    A kernel, syslog or BMC log without any name belongs to the only host that its root names, if there is just one.
    """
    by_root: dict[str, list[SourceFact]] = {}
    for source in sources:
        by_root.setdefault(source.root, []).append(source)
    out: dict[str, tuple[str, str | None]] = {}
    aliases = aliases_of(sources)
    for root, members in by_root.items():
        known = named_hosts(members, fragments_by_root.get(root, ()))
        nodes = pod_nodes(fragments_by_root.get(root, ()))
        for source in members:
            node = nodes.get(_pod(source), "")
            host, why = (node, None) if node else own_host(source, known)
            anonymous = not host and not source.names and source.family in ONE_HOST
            if anonymous and len(known) == 1:
                host = next(iter(known))
                why = f"host {host} assumed: the only one named under this root"
            if host in aliases:
                host, why = aliases[host], f"host {host} is the scheduler's node {aliases[host]}"
            out[source.source_id] = (host, why)
    return out
