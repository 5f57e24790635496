"""What a set of flight recorder dumps shows together: who never entered a collective, who entered another one. Pure.

The dumps of one folder are a set. Each dump's facts (`pipeline.formats.flight_recorder`) say how far its rank came in
each group; the set is read late, so that it does not matter in how many loads it came.

*Never entered.* A rank waits where it has a collective that is not complete and which another member has not entered.
To blame are ranks that others wait for and that wait for nobody. That a rank did not enter is known from a lower number
in its own dump, from a dump without any entry (a hung process), or, where nothing better is there, from a dump that is
missing or unreadable. A rank whose dump has no entry of that group but others tells nothing of it, and is not blamed.

*Mismatch.* Members whose entry of the same number has another operation, size or type than the majority's. Sizes are
compared only for operations that ask for equal ones. Source: torch/distributed/flight_recorder and our own reading.

*Slow.* A rank that comes late waits least: its mean duration minus the group's median is well below zero.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median

from pipeline.formats.flight_recorder import folded, rank_of
from pipeline.scanning.fold import clip
from pipeline.scanning.mask import template
from schemas.facts import NO_STAMP, SignalFact, SourceFact, Stamp, bucket
from schemas.identity import digest, short_host

FORMAT = "nccl.flight_recorder"
#: Operations for which all members must give equal sizes.
EQUAL_SIZES = frozenset(
    {"all_reduce", "allreduce", "broadcast", "reduce", "_all_gather_base", "_allgather_base", "_reduce_scatter_base",
     "all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced", "allreduce_coalesced"}
)  # fmt: skip
#: A missing dump is a hint only where at least this share of the group's dumps is there.
PRESENT = 0.75
#: A straggler is late by at least this share of the group's median duration, over at least so many collectives.
_LATE, _TIMES = 0.5, 5

Group = tuple[str, str]  # name, member ranks as printed


@dataclass(frozen=True, slots=True)
class Op:
    """One collective as a rank entered it. us: when, 0 unknown."""

    seq: int
    op: str
    sizes_in: str
    sizes_out: str
    dtype: str
    state: str
    us: int


@dataclass(slots=True)
class Dump:
    """One rank's dump. entries: None where it could not be read or is not there."""

    rank: int
    source_id: str
    host: str
    entries: int | None
    groups: dict[str, Group] = field(default_factory=dict)  # by name
    desc: dict[str, str] = field(default_factory=dict)
    last: dict[Group, tuple[int, int | None]] = field(default_factory=dict)  # (last entered, first not completed)
    ops: dict[Group, dict[int, Op]] = field(default_factory=lambda: defaultdict(dict))
    took: dict[Group, dict[int, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """One rank that the set accuses. kind: never_entered | mismatch | slow."""

    kind: str
    rank: int
    text: str
    fields: tuple[tuple[str, str], ...]
    us: int


def unfold(text: str) -> tuple[int, ...]:
    """The ranks of `0-3,8`."""
    out: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            out.extend(range(int(low), int(high) + 1 if high.isdigit() else int(low) + 1))
    return tuple(out)


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def read_dump(source: SourceFact) -> Dump | None:
    """A dump from its source's facts; None where no rank is known."""
    facts = [f[3:].partition("=") for f in source.facts if f.startswith("fr.")]
    single = {name: value for name, _, value in facts}
    named = next((r for path in source.inner_paths if (r := rank_of(path))), None)
    rank = _number(single.get("rank", "")) if "rank" in single else named[0] if named else None
    if rank is None:
        return None
    host = single.get("host", named[1] if named else "")
    unread = source.format == "empty" or "unreadable" in single
    dump = Dump(rank, source.source_id, short_host(host) if host else "", None if unread else 0)
    if source.format == "empty":
        dump.entries = 0  # a hung rank's file is there, with nothing in it
    elif not unread:
        dump.entries = _number(single.get("entries", "0"))
    for name, _, value in sorted(facts):
        parts = value.split("|")
        if name == "group" and len(parts) == 3:
            dump.groups[parts[0]] = (parts[0], parts[2])
            dump.desc[parts[0]] = parts[1]
        elif name == "desc" and len(parts) == 2:
            dump.desc.setdefault(parts[0], parts[1])
    for name, _, value in facts:
        parts = value.split("|")
        group = dump.groups.get(parts[0], (parts[0], ""))
        if name == "last" and len(parts) == 4 and parts[1].isdigit():
            dump.last[group] = (int(parts[1]), _number(parts[2]))
        elif name == "op" and len(parts) == 8 and parts[1].isdigit():
            dump.ops[group][int(parts[1])] = Op(
                int(parts[1]), parts[2], parts[3], parts[4], parts[5], parts[6], _number(parts[7]) or 0
            )
        elif name == "took":
            pairs = (p.split(":") for p in parts[-1].split(","))
            dump.took[group] = {int(a): float(b) for a, b in pairs}
    return dump


class DumpSet:
    """The dumps of one folder, by rank."""

    def __init__(self, dumps: Iterable[Dump]) -> None:
        self.dumps: dict[int, Dump] = {}
        for d in sorted(dumps, key=lambda d: (-(d.entries or 0), d.source_id)):
            self.dumps.setdefault(d.rank, d)
        self.members: dict[Group, tuple[int, ...]] = {}
        self.desc: dict[Group, str] = {}
        for rank in sorted(self.dumps):
            d = self.dumps[rank]
            for group in d.groups.values():
                self.members[group] = unfold(group[1])
                self.desc[group] = d.desc.get(group[0], "")
        for group in {g for d in self.dumps.values() for g in d.last}:
            holders = sorted(r for r, d in self.dumps.items() if group in d.last)
            self.members.setdefault(group, tuple(holders))
            self.desc.setdefault(group, self.dumps[holders[0]].desc.get(group[0], ""))

    def waits(self) -> dict[int, list[tuple[Group, int, tuple[int, ...]]]]:
        """For each rank, (group, sequence, members that did not enter it) of its first collective of each group that
        lacks somebody. What is only known from a missing dump is in `unseen`."""
        out: dict[int, list[tuple[Group, int, tuple[int, ...]]]] = defaultdict(list)
        for rank, d in sorted(self.dumps.items()):
            for group, (last, first) in sorted(d.last.items()):
                if first is None:
                    continue
                pending = [seq for seq in sorted(d.ops[group]) if seq >= first] or list(range(first, last + 1)[:1])
                for seq in pending:
                    late = tuple(r for r in self.members[group] if r != rank and self.entered(r, group, seq) is False)
                    if late:
                        out[rank].append((group, seq, late))
                        break
        return out

    def entered(self, rank: int, group: Group, seq: int) -> bool | None:
        """Whether a rank entered a collective; None where nothing tells."""
        d = self.dumps.get(rank)
        if d is None or d.entries is None:
            return None
        if group in d.last:
            return d.last[group][0] >= seq
        return False if d.entries == 0 else None

    def never_entered(self) -> list[Finding]:
        waits = self.waits()
        evidence: dict[int, list[tuple[Group, int, int]]] = defaultdict(list)  # rank -> (group, seq, who waits)
        for rank, cases in waits.items():
            for group, seq, late in cases:
                for r in late:
                    evidence[r].append((group, seq, rank))
        culprits = [r for r in sorted(evidence) if r not in waits and not self._may_wait(r)]
        if not culprits:
            evidence = self._missing()
            culprits = sorted(evidence)
        return [self._accuse(r, evidence[r]) for r in culprits]

    def _may_wait(self, rank: int) -> bool:
        """Whether a rank has a collective that is not complete in a group of which a dump is missing."""
        d = self.dumps.get(rank)
        return d is not None and any(
            first is not None and any(r not in self.dumps or self.dumps[r].entries is None for r in self.members[group])
            for group, (_, first) in d.last.items()
        )

    def _missing(self) -> dict[int, list[tuple[Group, int, int]]]:
        """Ranks without a readable dump in groups where all others are there and wait."""
        out: dict[int, list[tuple[Group, int, int]]] = defaultdict(list)
        for rank, d in sorted(self.dumps.items()):
            for group, (_, first) in sorted(d.last.items()):
                ranks = self.members[group]
                gone = [r for r in ranks if r not in self.dumps or self.dumps[r].entries is None]
                if first is not None and gone and len(ranks) - len(gone) >= PRESENT * len(ranks):
                    for r in gone:
                        out[r].append((group, first, rank))
        return out

    def _accuse(self, rank: int, cases: Sequence[tuple[Group, int, int]]) -> Finding:
        waiting: dict[Group, set[int]] = defaultdict(set)
        for group, _, who in cases:
            waiting[group].add(who)
        first = {g: min(s for other, s, _ in cases if other == g) for g in waiting}
        ops = {g: self._op(g, first[g], waiting[g]) for g in waiting}
        # the group in which most wait shows it best; of equals the one that was entered first
        group = min(waiting, key=lambda g: (-len(waiting[g]), o.us if (o := ops[g]) else 1 << 62, g))
        seq, op = first[group], ops[group]
        desc = self.desc.get(group, "")
        own = self.dumps.get(rank)
        if own is None:
            state = "its dump is missing"
        elif own.entries is None:
            state = "its dump cannot be read"
        elif own.entries == 0:
            state = "its dump holds no entry"
        else:
            state = f"it last entered {own.last[group][0]}" if group in own.last else "it has no entry there"
        name = op.op if op else "collective"
        text = (
            f"flight recorder: rank {rank} never entered {name} seq {seq} of group {group[0]} ({desc})"
            f" size {op.sizes_in if op else '?'} {op.dtype if op else '?'}: {state};"
            f" {len(waiting[group])} of {len(self.members[group])} ranks wait: {folded(sorted(waiting[group]))}"
        )
        fields = (
            ("rank", str(rank)), ("op", name), ("seq", str(seq)), ("pg", group[0]),
            ("size", op.sizes_in if op else ""), ("dtype", op.dtype if op else ""),
            ("waiting", folded(sorted(waiting[group]))),
        )  # fmt: skip
        return Finding("never_entered", rank, text, fields, op.us if op else 0)

    def _op(self, group: Group, seq: int, ranks: Iterable[int]) -> Op | None:
        return next((o for r in sorted(ranks) if (o := self.dumps[r].ops[group].get(seq)) is not None), None)

    def mismatches(self) -> list[Finding]:
        found: dict[int, Finding] = {}
        for group in sorted(self.members):
            seen: dict[int, dict[int, Op]] = defaultdict(dict)
            for rank, d in self.dumps.items():
                for seq, op in d.ops.get(group, {}).items():
                    seen[seq][rank] = op
            for seq, ops in sorted(seen.items()):
                if len(ops) < 2 or all(o.state == "completed" for o in ops.values()):
                    continue
                finding = self._differ(group, seq, ops)
                if finding:
                    for f in finding:
                        found.setdefault(f.rank, f)
                    break  # what follows in this group is shifted
        return [found[r] for r in sorted(found)]

    def _differ(self, group: Group, seq: int, ops: Mapping[int, Op]) -> list[Finding]:
        for what in ("op", "dtype", "size"):
            said: dict[int, str] = {}
            for rank, o in sorted(ops.items()):
                said[rank] = o.op if what == "op" else o.dtype if what == "dtype" else f"{o.sizes_in}>{o.sizes_out}"
            if len(set(said.values())) == 1 or (what == "size" and next(iter(ops.values())).op not in EQUAL_SIZES):
                continue
            counts = Counter(said.values())
            usual, n = min(counts.items(), key=lambda item: (-item[1], item[0]))
            odd = [r for r in said if said[r] != usual] if n * 2 > len(said) else list(said)
            return [self._mismatch(what, group, seq, r, said[r], usual, ops[r]) for r in odd]
        return []

    def _mismatch(self, what: str, group: Group, seq: int, rank: int, mine: str, usual: str, op: Op) -> Finding:
        text = (
            f"flight recorder: rank {rank} entered another {what} at seq {seq} of group {group[0]}"
            f" ({self.desc.get(group, '')}): {mine}, others {usual}"
        )
        fields = (
            ("rank", str(rank)), ("what", what), ("seq", str(seq)), ("pg", group[0]),
            ("mine", mine), ("others", usual),
        )  # fmt: skip
        return Finding("mismatch", rank, text, fields, op.us)

    def slow(self) -> list[Finding]:
        late: dict[int, tuple[float, Group, int]] = {}
        for group, ranks in sorted(self.members.items()):
            took = {r: self.dumps[r].took[group] for r in ranks if r in self.dumps and group in self.dumps[r].took}
            if len(took) < 3:
                continue
            gaps: dict[int, list[float]] = defaultdict(list)
            usual: list[float] = []
            for seq in sorted({s for t in took.values() for s in t}):
                here = {r: t[seq] for r, t in took.items() if seq in t}
                if len(here) >= 3:
                    middle = median(here.values())
                    usual.append(middle)
                    for r, ms in here.items():
                        gaps[r].append(ms - middle)
            for r, values in gaps.items():
                gap = mean(values)
                if len(values) >= _TIMES and gap < -_LATE * median(usual) and (r not in late or gap < late[r][0]):
                    late[r] = (gap, group, len(values))
        return [
            Finding(
                "slow",
                rank,
                f"flight recorder: rank {rank} comes late: {-gap:.1f} ms less than the median in {n} collectives of"
                f" group {group[0]} ({self.desc.get(group, '')})",
                (("rank", str(rank)), ("ms", f"{-gap:.1f}"), ("pg", group[0])),
                0,
            )
            for rank, (gap, group, n) in sorted(late.items(), key=lambda item: (item[1][0], item[0]))
        ]

    def findings(self) -> list[Finding]:
        """A mismatch explains why ranks do not come through; only without one are absent ranks the question."""
        return [*(self.mismatches() or self.never_entered()), *self.slow()]


def dump_sets(sources: Iterable[SourceFact]) -> dict[tuple[str, str], list[SourceFact]]:
    """(root, folder) -> the dumps there, files without content among them, for folders with at least one real dump."""
    out: dict[tuple[str, str], list[SourceFact]] = defaultdict(list)
    for s in sources:
        path = s.inner_paths[0] if s.inner_paths else ""
        if s.format == FORMAT or (s.format == "empty" and rank_of(path) is not None):
            out[s.root, path.replace("!", "/").rpartition("/")[0]].append(s)
    return {key: sorted(own, key=lambda s: s.source_id) for key, own in sorted(out.items()) if _real(own)}


def _real(own: Iterable[SourceFact]) -> bool:
    return any(s.format == FORMAT for s in own)


def recorder_signals(sources: Iterable[SourceFact]) -> list[SignalFact]:
    """What sets of dumps show, as signals of the rules of `knowledge/rules/recorder`; in order of folder."""
    everything = list(sources)
    sets = dump_sets(everything)
    if not sets:
        return []
    hosts = _rank_hosts(everything)
    return [s for key, own in sets.items() for s in _signals(own, hosts.get(key[0], {}))]


def _rank_hosts(sources: Iterable[SourceFact]) -> dict[str, dict[int, str]]:
    """The host of each rank, by root, where the root's logs agree on it."""
    said: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for s in sources:
        for rank, host in s.rank_hosts:
            said[s.root][rank].add(short_host(host))
    return {root: {r: next(iter(h)) for r, h in ranks.items() if len(h) == 1} for root, ranks in said.items()}


_RULES = {"never_entered": "fr_never_entered", "mismatch": "fr_mismatch", "slow": "fr_slow_rank"}


def _signals(own: Sequence[SourceFact], hosts: Mapping[int, str]) -> Iterator[SignalFact]:
    dumps = DumpSet(d for s in own if (d := read_dump(s)) is not None)
    lead = min((s for s in own if s.format == FORMAT), key=lambda s: s.source_id).source_id
    for f in dumps.findings():
        dump = dumps.dumps.get(f.rank)
        source_id = dump.source_id if dump is not None else lead
        host = (dump.host if dump is not None else "") or hosts.get(f.rank, "")
        stamp = Stamp("utc", f.us) if f.us else NO_STAMP
        rule, key, masked = _RULES[f.kind], f"rank={f.rank}", template(f.text)
        when = bucket(stamp, 0)
        yield SignalFact(
            signal_id=digest(source_id, rule, key, host, masked, when), source_id=source_id, rule=rule, key=key,
            host=host, template=masked, bucket=when, first=stamp, first_offset=0, first_line=None, last=stamp,
            last_offset=0, text=clip(f.text, f.fields), fields=tuple(sorted((k, v) for k, v in f.fields if v)),
            ranks=((f.us, 0, f.rank),), counts=((0, 1),),
        )  # fmt: skip
