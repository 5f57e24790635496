"""Job runs, one an attempt, from scheduler records and job logs together. Pure and independent of the facts' order.

`assemble(facts, clocks, ruleset, settings)`:
1. fragments of schedulers become records, one an attempt (`pipeline.runs.job_records`);
2. job logs are grouped (`pipeline.runs.job_logs`) and tied to a job (`pipeline.runs.job_ties`): how, is said in
   `JobRun.assumed`;
3. every log is cut into attempts (`pipeline.runs.attempts`), whose parts go beside the records
   (`pipeline.runs.log_attempts`);
4. one `JobRun` an attempt. The scheduler's word belongs to the last attempt of its record; earlier ones ended by an
   in-job restart. A log that no record claims is a run of its own, to be adopted when its record turns up.

How the flags are meant: `success`: the run reached its own end (scheduler, or the log's last word; MLPerf's `aborted`
is an own end too). `planned_end`: left by its own limit. `truncated`: the log just stops, without error, end or record.
`still_running`: True only while the run hangs: allocated, or its log still written, and without progress for longer
than `max(hang_steps x step, hang_s)` before the latest stamp of its inputs; None otherwise. `end_known`: a record or an
end marker tells the end; also where a format that announces its end (MLPerf) stopped without it (`end_marker=missing`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from classifiers.api import Meaning, Ruleset
from pipeline.joining.events import ClockLike
from pipeline.runs.attempts import LogView, cut, view
from pipeline.runs.fields import Draft, finish
from pipeline.runs.job_logs import LogGroup, groups, name_by_pods, recorder_groups, span
from pipeline.runs.job_records import JobRecord, records
from pipeline.runs.job_ties import Jobs
from pipeline.runs.log_attempts import LogAttempt, align, spread
from pipeline.runs.memo import Memo
from pipeline.runs.slurm_log import slurm_fragments
from schemas.facts import Facts, ProgressFact, SignalFact, SourceFact
from schemas.settings import Settings
from schemas.subject import JobRun

_FAILING = frozenset({"error", "critical", "fatal"})
_NOT_FAILING = frozenset({"advice", "teardown", "corrected", "recovered", "cancel", "restart"})


def assemble(
    facts: Facts,
    clocks: Mapping[str, ClockLike],
    ruleset: Ruleset,
    settings: Settings,
    memo: Memo | None = None,
) -> list[JobRun]:
    """All attempts of all jobs that these facts tell of, sorted by (job id, attempt, run key).

    memo: results of former calls with the same ruleset and settings, for callers that ask again and again.
    """
    memo = memo or Memo()
    memo.begin()
    sources = {s.source_id: s for s in facts.sources}
    lines = tuple(s for s in facts.signals if "JobId=" in s.text)
    fragments = [*facts.fragments, *memo.get("lines", lines, lambda: slurm_fragments(lines))]
    known = records(fragments, sources, clocks, memo)
    views = log_views(facts, sources, ruleset, memo)
    logs = groups(facts.sources, clocks, views, frozenset(r.job_id for r in known))
    name_by_pods(logs, fragments)
    told = {g.root for g in logs} | {root for r in known for root in r.roots}
    logs += recorder_groups(facts.sources, clocks, told)
    in_root: dict[str, int] = defaultdict(int)
    for group in logs:
        in_root[group.root] += 1
    jobs = Jobs(known)
    claimed: dict[tuple[str, str, str], list[LogGroup]] = defaultdict(list)
    loose: list[LogGroup] = []
    for group in logs:
        mine, group.tied = jobs.tie(group, in_root[group.root])
        if mine:
            claimed[mine[0].scheduler, mine[0].cluster, mine[0].job_id].append(group)
        else:
            loose.append(group)
    whole = {s.source_id: span(s, clocks.get(s.source_id)) for s in facts.sources if s.family == "job"}
    latest = _latest(facts.sources, clocks)

    def finished(drafts: Iterable[Draft]) -> list[tuple[str, JobRun]]:
        return [(d.chain, finish(d, sources, clocks, whole, views, latest, settings)) for d in drafts]

    runs: list[tuple[str, JobRun]] = []
    for key, job in sorted(jobs.by_job.items()):
        logs = claimed.get(key, [])
        # what "now" is only matters while a record is open
        places = {*(root for r in job for root in r.roots), *(g.root for g in logs)} if any(r.open for r in job) else ()
        now = {root: latest.get(root) for root in places}
        inputs = (job, now, _inputs(logs, views, clocks, whole))
        make = partial(_of_records, job, logs, views, clocks, whole)
        runs.extend(memo.get(key, inputs, lambda make=make: finished(make())))  # type: ignore[misc]
    for name, alike in sorted(_loose_jobs(loose).items()):
        make = partial(_of_logs, name, alike, views, clocks)
        runs.extend(memo.get(name, _inputs(alike, views, clocks, whole), lambda make=make: finished(make())))  # type: ignore[misc]
    return _numbered(runs)


def _inputs(
    logs: Sequence[LogGroup],
    views: Mapping[str, LogView],
    clocks: Mapping[str, ClockLike],
    whole: Mapping[str, tuple[int, int] | None],
) -> list[object]:
    """Everything that the runs of these groups are made from."""
    return [
        (
            g.tied,
            g.order,
            g.ids,
            [(s, views[s.source_id], clocks.get(s.source_id), whole.get(s.source_id)) for s in g.sources],
        )
        for g in logs
    ]


def log_views(
    facts: Facts, sources: Mapping[str, SourceFact], ruleset: Ruleset, memo: Memo | None = None
) -> dict[str, LogView]:
    """Every job log as its marks (attempts' marks, failures in the words of programs, steps)."""
    memo = memo or Memo()
    job = {sid for sid, s in sources.items() if s.family == "job"}
    signals: dict[str, list[SignalFact]] = defaultdict(list)
    for fact in facts.signals:
        if fact.source_id in job:
            signals[fact.source_id].append(fact)
    progress: dict[str, list[ProgressFact]] = defaultdict(list)
    for p in facts.progress:
        if p.source_id in job:
            progress[p.source_id].append(p)
    views: dict[str, LogView] = {}
    for sid in sorted(job):
        own, steps = signals.get(sid, []), progress.get(sid, [])
        views[sid] = memo.get(("view", sid), (own, steps), partial(_view, sid, own, steps, ruleset))
    return views


def _view(sid: str, own: Iterable[SignalFact], steps: Sequence[ProgressFact], ruleset: Ruleset) -> LogView:
    """One job log as its marks."""
    signals: list[tuple[SignalFact, frozenset[str], bool]] = []
    meanings: dict[tuple[str, tuple[tuple[str, str], ...]], Meaning] = {}
    for fact in own:
        rule = ruleset.rules.get(fact.rule)
        if rule is None or rule.maturity == "retired":
            continue
        memo = (fact.rule, fact.fields)
        if memo not in meanings:
            meanings[memo] = ruleset.meaning(fact.rule, dict(fact.fields))
        meaning = meanings[memo]
        tags = meaning.tags | rule.tags
        failing = (
            rule.family in ("job", "scheduler", "gpu_tools")
            and meaning.component != "informational"
            and (meaning.severity in _FAILING or meaning.strength == "weak")
            and not (_NOT_FAILING & tags)
        )
        signals.append((fact, tags, failing))
    return view(sid, signals, steps)


def _latest(sources: Iterable[SourceFact], clocks: Mapping[str, ClockLike]) -> dict[str, int]:
    """The latest stamp of each input root, in UTC microseconds: what "now" was when its logs were taken."""
    out: dict[str, int] = {}
    for s in sources:
        sp = span(s, clocks.get(s.source_id))
        if sp is not None:
            out[s.root] = max(out.get(s.root, sp[1]), sp[1])
    return out


def _of_records(
    job: Sequence[JobRecord],
    logs: Sequence[LogGroup],
    views: Mapping[str, LogView],
    clocks: Mapping[str, ClockLike],
    whole: Mapping[str, tuple[int, int] | None],
) -> list[Draft]:
    """Drafts of one job that a scheduler knows: its records, each with the log attempts that fall into it."""
    ordered = sorted(logs, key=lambda g: g.order)
    pieces = [(s.source_id, cut(views[s.source_id])) for g in ordered for s in g.sources]
    tied = {s.source_id: g.tied for g in ordered for s in g.sources}
    per_record = spread(pieces, job, clocks, whole)
    drafts: list[Draft] = []
    for i, record in enumerate(job):
        attempts = align(per_record[i], clocks) or [LogAttempt()]
        for j, attempt in enumerate(attempts):
            drafts.append(Draft(record, attempt, j, j == len(attempts) - 1, record.job_id, tied))
    return drafts


def _loose_jobs(loose: Sequence[LogGroup]) -> dict[tuple[str, str], list[LogGroup]]:
    """Groups without a record, by (root, job id): array tasks that ran one after the other are attempts of one job."""
    out: dict[tuple[str, str], list[LogGroup]] = defaultdict(list)
    for group in loose:
        job = group.path_job or (next(iter(group.ids)) if len(group.ids) == 1 else "")
        if not job:
            # numbered attempts of one folder follow each other; all else stands alone
            alone = "" if group.attempt >= 0 else f"{group.span}|{group.sources[0].source_id}"
            job = f"?{group.key[3]}|{alone}"
        out[group.root, job].append(group)
    split: dict[tuple[str, str], list[LogGroup]] = {}
    for (root, job), alike in out.items():
        if job.startswith("?") or not _side_by_side(alike) or len({g.task for g in alike}) == 1:
            split[root, job] = alike
            continue
        for group in alike:
            name = f"{job}_{group.task}" if group.task >= 0 else job
            split.setdefault((root, name), []).append(group)
    return split


def _side_by_side(alike: Sequence[LogGroup]) -> bool:
    """Whether any two groups ran at the same time."""
    spans = sorted(g.span for g in alike if g.span is not None)
    return any(b[0] < a[1] for a, b in pairwise(spans))


def _of_logs(
    name: tuple[str, str], alike: Sequence[LogGroup], views: Mapping[str, LogView], clocks: Mapping[str, ClockLike]
) -> list[Draft]:
    """Drafts of a job that only logs know. Groups that ran side by side are one run, others follow each other."""
    job_id = None if name[1].startswith("?") else name[1]
    chunks: list[list[LogGroup]] = []
    for group in sorted(alike, key=lambda g: g.order):
        last = chunks[-1] if chunks else None
        if last is not None and job_id is not None and _side_by_side([*last, group]):
            last.append(group)
        else:
            chunks.append([group])
    drafts: list[Draft] = []
    for chunk in chunks:
        # an attempt that its launcher numbered, and that another one follows, ended by a restart
        followed = chunk[0].attempt >= 0 and chunk is not chunks[-1]
        per_source = {s.source_id: cut(views[s.source_id]) for g in chunk for s in g.sources}
        tied = {s.source_id: "" for g in chunk for s in g.sources}
        attempts = align(per_source, clocks)
        for j, attempt in enumerate(attempts):
            final = j == len(attempts) - 1 and not followed
            drafts.append(Draft(None, attempt, j, final, job_id, tied, "|".join(name)))
    return drafts


def _numbered(runs: Sequence[tuple[str, JobRun]]) -> list[JobRun]:
    """Runs with their attempt numbers: order of start within a job; attempts without times keep their order."""
    jobs: dict[tuple[str, ...], list[tuple[int, JobRun]]] = defaultdict(list)
    for position, (chain, run) in enumerate(runs):
        jobs[run.scheduler, run.cluster, run.job_id or "", chain].append((position, run))
    out: list[JobRun] = []
    for _, items in sorted(jobs.items()):
        starts = [r.start_us if r.start_us is not None else r.log_start_us for _, r in items]
        if all(t is not None for t in starts):
            items = [x for _, x in sorted(zip(starts, items, strict=True), key=lambda p: (p[0] or 0, p[1][0]))]
        out.extend(run if run.attempt == n else replace(run, attempt=n) for n, (_, run) in enumerate(items))
    return sorted(out, key=lambda r: (r.job_id or "~", r.attempt, r.run_key))
