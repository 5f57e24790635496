"""Made-up facts, runs and decisions for the tests of the warehouse."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from schemas.facts import (
    CELL,
    NO_STAMP,
    Facts,
    ProgressFact,
    Quarantine,
    RunFragment,
    SignalFact,
    SourceFact,
    Stamp,
    bucket,
    merge_progress,
    merge_signals,
    merge_sources,
)
from schemas.identity import digest
from schemas.subject import Action, Decision, Event, EvidenceItem, JobRun, NotSeen, Restart

#: 2026-03-02 (a Monday) 00:00:00 UTC.
T0 = 1_772_409_600_000_000
HOUR = 3_600_000_000
DAY = 24 * HOUR

# Log text is hostile: quotes, percent signs, colons as of parameters, other scripts; not what no database can hold.
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)
names = st.sampled_from(["node1", "node2", "rack-b'7", "%s", ":cluster", "ノード3", ""])
micros = st.integers(-(10**15), 4 * 10**15)
stamps = st.one_of(
    st.just(NO_STAMP), st.builds(Stamp, st.sampled_from(["utc", "local", "noyear", "mono"]), micros, st.booleans())
)
small = st.integers(0, 2**40)
optional_small = st.one_of(st.none(), small)


@st.composite
def hits(draw: st.DrawFn) -> SignalFact:
    """One hit as a signal. What is at one offset of one source is always the same bytes, as in real files."""
    source, line = draw(st.integers(0, 2)), draw(st.integers(0, 11))
    offset = line * 20_000
    stamp = Stamp("utc", T0 + line * 25_000_000) if line % 4 else NO_STAMP
    when = bucket(stamp, offset)
    source_id, rule = f"s{source}", f"rule{line % 2}"
    return SignalFact(
        signal_id=digest(source_id, rule, when),
        source_id=source_id,
        rule=rule,
        key="code=94",
        host="node1",
        template="Xid <n>",
        bucket=when,
        first=stamp,
        first_offset=offset,
        first_line=line + 1,
        last=stamp,
        last_offset=offset,
        text=f"Xid {line}",
        fields=(("code", str(line)),),
        ranks=((stamp.us, offset, line % 3),),
        counts=((offset // CELL, 1),),
    )


signal_facts = st.builds(
    SignalFact,
    signal_id=st.integers(0, 10**9).map(lambda n: digest("signal", n)),
    source_id=st.sampled_from(["s0", "s1", "s2"]),
    rule=texts,
    key=texts,
    host=names,
    template=texts,
    bucket=texts,
    first=stamps,
    first_offset=small,
    first_line=optional_small,
    last=stamps,
    last_offset=small,
    text=texts,
    fields=st.lists(st.tuples(names, texts), max_size=3).map(tuple),
    ranks=st.lists(st.tuples(micros, small, small), max_size=3).map(tuple),
    counts=st.lists(st.tuples(small, small), max_size=3).map(tuple),
).map(lambda f: merge_signals(f, f))  # as scanners give them: ranks and cells once each, sorted
source_facts = st.builds(
    SourceFact,
    source_id=st.sampled_from(["s0", "s1", "s2"]),
    inner_paths=st.lists(texts, min_size=1, max_size=3, unique=True).map(lambda p: tuple(sorted(p))),
    root=names,
    format=texts,
    family=texts,
    size=small,
    mtime_us=st.one_of(st.none(), micros),
    host=names,
    spans=st.lists(st.tuples(st.just("utc"), micros, micros), max_size=1).map(tuple),
    clocks=st.lists(st.tuples(st.just("utc"), micros, micros), max_size=3).map(tuple),
    names=st.lists(st.tuples(names, small), max_size=2).map(tuple),
    job_ids=st.lists(texts, max_size=2).map(tuple),
    rank_hosts=st.lists(st.tuples(small, names), max_size=2).map(tuple),
    facts=st.lists(texts, max_size=3).map(tuple),
    lines=optional_small,
    signal_lines=small,
    unparsed_lines=small,
    note=st.one_of(st.none(), texts),
    ranges=st.lists(st.tuples(small, small, small, small, small), max_size=2).map(lambda r: tuple(sorted(set(r)))),
).map(lambda f: merge_sources(f, f))
progress_facts = st.builds(
    ProgressFact,
    source_id=st.sampled_from(["s0", "s1"]),
    cell=small,
    first_step=small,
    first=stamps,
    first_offset=small,
    last_step=small,
    last=stamps,
    last_offset=small,
    n=small,
    step_s=st.one_of(st.none(), st.floats(0, 1e6)),
    series=texts,
    points=st.lists(st.tuples(small, small, micros), max_size=3).map(tuple),
).map(lambda f: merge_progress(f, f))
fragments = st.builds(
    RunFragment,
    source_id=st.sampled_from(["s0", "s1"]),
    offset=small,
    line=optional_small,
    scheduler=st.sampled_from(["slurm", "k8s"]),
    cluster=names,
    job_id=texts,
    step=texts,
    state=texts,
    submit=stamps,
    start=stamps,
    end=stamps,
    exit_code=optional_small,
    exit_signal=st.one_of(st.none(), st.integers(0, 64)),
    nodes=st.lists(names, max_size=3).map(tuple),
    n_nodes=st.one_of(st.none(), st.integers(0, 10**6)),
    n_gpus=st.one_of(st.none(), st.integers(0, 10**6)),
    user=texts,
    account=texts,
    name=texts,
    reason=texts,
    extra=st.lists(texts, max_size=2).map(tuple),
)
quarantined = st.builds(
    Quarantine, path=texts, source_id=st.sampled_from(["", "s0"]), offset=small, length=small, reason=texts
)


def _unique(facts: st.SearchStrategy, key: object) -> st.SearchStrategy:
    return st.lists(facts, max_size=4, unique_by=key).map(tuple)  # type: ignore[arg-type]


fact_sets = st.builds(
    Facts,
    sources=_unique(source_facts, lambda f: f.source_id),
    signals=_unique(signal_facts, lambda f: f.signal_id),
    progress=_unique(progress_facts, lambda f: (f.source_id, f.cell)),
    fragments=_unique(fragments, lambda f: f.key),
    quarantine=st.lists(quarantined, max_size=3, unique=True).map(tuple),
)


def run(key: str = "run1", job_id: str | None = "700003", **more: object) -> JobRun:
    """A job run of an hour on two hosts with 16 GPUs."""
    base = JobRun(
        run_key=key,
        scheduler="slurm",
        cluster="alpha",
        job_id=job_id,
        attempt=0,
        start_us=T0,
        end_us=T0 + HOUR,
        end_known=True,
        state="NODE_FAIL",
        exit_code=1,
        exit_signal=None,
        nodes=("node1", "node2"),
        n_nodes=2,
        n_gpus=16,
        user="ada",
        account="vision",
        name="pretrain",
        reason="",
        source_ids=("s0",),
        assumed=("zone: UTC",),
        still_running=False,
        first_step=1,
        last_step=1080,
        last_progress_us=T0 + HOUR - 60_000_000,
        step_s=3.25,
        uncertainty_s=1.0,
        extra=("qos=high",),
        spans=(("s0", 0, -1),),
        roots=("logs",),
    )
    return replace(base, **more)  # type: ignore[arg-type]


def event(key: str = "e1", **more: object) -> Event:
    """An Xid 94 on node1, GPU at 4d:00."""
    base = Event(
        id=key,
        signal="xid.94",
        rule="xid.generic",
        component="gpu.hbm",
        role="cause",
        severity="critical",
        fatal="y",
        t=(T0 + HOUR - 1_234_567) / 1_000_000,
        t_last=(T0 + HOUR) / 1_000_000,
        unc=0.5,
        host="node1",
        device="pci:0000:4d:00",
        rank=3,
        ranks=(3, 4),
        n_ranks=2,
        source="logs.tar.gz!node1/kern.log",
        source_id="s1",
        family="kernel",
        offset=3456,
        last_offset=4000,
        line=12,
        count=2,
        text="NVRM: Xid (PCI:0000:4d:00): 94, Contained: '%s' :name",
        fields=(("code", "94"),),
        alt="gpu.device",
        action="reset_gpu",
        action_source="vendor manual",
        progress_after=1,
        tags=frozenset({"oom", "teardown"}),
    )
    return replace(base, **more)  # type: ignore[arg-type]


def decision(key: str = "run1", incident_id: str = "", **more: object) -> Decision:
    """The decision of `run(key)`: HBM of GPU 3 of node1."""
    base = Decision(
        subject_key=key,
        kind="job_interruption",
        incident=True,
        incident_id=incident_id or digest("incident", key),
        fault_id=digest("fault", key),
        component="gpu.hbm",
        cause="xid.94",
        confidence=0.97,
        decided_by="rule",
        summary="HBM error on node1, GPU 3.",
        first_host="node1",
        first_gpu=3,
        first_rank=3,
        onset_us=T0 + HOUR - 1_234_567,
        evidence=(
            EvidenceItem(event(f"{key}-root"), "root"),
            EvidenceItem(event(f"{key}-cascade", t=None, t_last=None, rank=None, line=None, alt=None), "cascade"),
        ),
        alternatives=(("gpu.sram", 0.02),),
        not_seen=(NotSeen("node2", "kernel log", T0, None, "journalctl -k --since ..."),),
        restart=Restart("restart_excluding", ("node1",), 1080, "/ckpt/1080", T0 + HOUR - DAY, 12.5, "the GPU is bad"),
        action=Action("reset_gpu", "node1/3", "contained error", "vendor manual"),
        health=(EvidenceItem(event(f"{key}-health", fatal="n", component="host.memory"), "context"),),
        why=("root: xid.94", "nothing earlier"),
        run=run(key),
        host="node1",
        device="pci:0000:4d:00",
        gpu_uuid="GPU-1",
        gpu_serial="16502",
        driver_version="535.104.05",
        rules_version=4,
        model_version="3",
        revision=7,
    )
    return replace(base, **more)  # type: ignore[arg-type]


def host_fault(key: str = "hf1", host: str = "node9", **more: object) -> Decision:
    """A fault of a host that belongs to no run."""
    base = decision(
        key,
        kind="host_fault",
        run=None,
        host=host,
        first_host=host,
        first_rank=None,
        restart=None,
        evidence=(EvidenceItem(event(f"{key}-root", host=host), "root"),),
        health=(),
    )
    return replace(base, **more)  # type: ignore[arg-type]
