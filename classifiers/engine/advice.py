"""What to do: restart or not, without which hosts, which action on what, which evidence to fetch.

Sources: NVIDIA's Xid catalogue and GPU debug guidelines for reset, reboot and replacement (through the rule that
spoke); the rest is common practice of operators and says so.
"""

from __future__ import annotations

from datetime import UTC, datetime

from classifiers.engine.candidates import Candidate
from schemas.subject import Action, NotSeen, Restart, Subject

_PRACTICE = "operators' practice"
#: component -> (action kind, restart advice, why). Longest prefix wins.
_PLAN: dict[str, tuple[str, str, str]] = {
    "gpu.device": ("drain_host", "restart_excluding", "the GPU will fail again until it is reset or replaced"),
    "gpu.nvlink": ("reset_gpu", "restart_excluding", "the link needs a reset; replace on repeat"),
    "gpu.hbm": ("reset_gpu", "restart_excluding", "memory rows are remapped at the next reset"),
    "gpu.sram": ("reset_gpu", "restart_excluding", "reset the GPU; replace on repeat"),
    "gpu.gsp": ("reboot_host", "restart_excluding", "the system processor comes back with a reboot"),
    "gpu.thermal": ("drain_host", "restart_excluding", "inspect cooling before the GPU works again"),
    "gpu.sdc": ("drain_host", "restart_excluding", "wrong results need an earlier checkpoint and diagnostics"),
    "net.fabric": ("notify_owner", "restart", "the network team has to look at link, cable or switch"),
    "net.nic": ("drain_host", "restart_excluding", "the adapter needs a reset or replacement"),
    "host.os": ("reboot_host", "restart_excluding", "keep the host out until the reason is known"),
    "host": ("drain_host", "restart_excluding", "the part needs repair"),
    "facility": ("notify_owner", "wait", "power or cooling must be back first"),
    "software.driver": ("notify_owner", "restart_excluding", "the platform team has to fix driver or firmware"),
    "software": ("notify_owner", "do_not_restart", "it will fail the same way until the owner changes it"),
    "dependency": ("notify_owner", "wait", "the service must be back first"),
    "maintenance": ("none", "restart", "nothing is broken"),
    "scheduler.cancelled": ("none", "do_not_restart", "somebody wanted it to stop"),
    "scheduler": ("restart_job", "restart", "nothing is broken"),
    "unknown": ("collect_evidence", "restart", "no cause is known: fetch what was not seen"),
}


def _plan(component: str) -> tuple[str, str, str]:
    parts = component.split(".")
    for n in range(len(parts), 0, -1):
        found = _PLAN.get(".".join(parts[:n]))
        if found:
            return found
    return _PLAN["unknown"]


def _bad_hosts(component: str, top: Candidate | None) -> tuple[str, ...]:
    if top is None or component.split(".")[0] not in ("gpu", "host", "net", "software", "facility"):
        return ()
    if component in ("software.bug", "net.fabric", "facility"):
        return ()
    return tuple(dict.fromkeys(e.host for e in top.events[:4] if e.host))


def restart(subject: Subject, component: str, top: Candidate | None) -> Restart:
    """Advice for the person who wants the job back."""
    _, advice, why = _plan(component)
    hosts = _bad_hosts(component, top)
    if advice == "restart_excluding" and not hosts:
        advice, why = "restart", f"{why}; the host is not known"
    run = subject.run
    lost = None
    if run is not None and run.n_gpus and run.end_us is not None:
        since = max((t for t in (run.resume_us, run.start_us, run.log_start_us) if t is not None), default=None)
        if since is not None and run.end_us >= since:
            lost = round((run.end_us - since) / 3.6e9 * run.n_gpus, 2)
    return Restart(
        advice=advice,
        exclude_hosts=hosts if advice == "restart_excluding" else (),
        resume_step=run.resume_step if run else None,
        resume_path=run.resume_path if run else None,
        resume_us=run.resume_us if run else None,
        lost_gpu_hours=lost,
        why=why,
    )


def action(subject: Subject, component: str, top: Candidate | None) -> Action:
    """One next step, with whose advice it is. The rule that spoke knows better than the class."""
    kind, _, why = _plan(component)
    source = _PRACTICE
    root = top.root if top else None
    if root is not None and root.action in _RULE_ACTIONS and component.split(".")[0] in ("gpu", "host", "net"):
        kind, source = _RULE_ACTIONS[root.action], root.action_source or root.rule
        why = root.meaning or why
    hosts = _bad_hosts(component, top)
    run = subject.run
    target = ""
    if kind in ("reset_gpu", "replace_part") and root is not None:
        target = " ".join(x for x in (root.host, root.device) if x)
    elif kind in ("drain_host", "reboot_host", "exclude_host"):
        target = ",".join(hosts) or subject.host
    elif run is not None:
        target = run.label if kind != "notify_owner" else (run.user or run.account or run.label)
    if kind in ("notify_owner",) and component.split(".")[0] in ("net", "facility", "dependency") and root is not None:
        target = root.host or target
    return Action(kind, target, why, source)


#: First actions of the knowledge tables -> the closed list of the diagnosis document.
_RULE_ACTIONS = {
    "reset_gpu": "reset_gpu",
    "reboot": "reboot_host",
    "reboot_host": "reboot_host",
    "node_reboot": "reboot_host",
    "drain": "drain_host",
    "drain_host": "drain_host",
    "replace": "replace_part",
    "replace_part": "replace_part",
}


def _iso(us: int | None) -> str:
    return datetime.fromtimestamp((us or 0) / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def not_seen(subject: Subject, component: str) -> tuple[NotSeen, ...]:
    """Evidence that was not among the inputs, with the command that fetches it; at most 8 hosts are listed."""
    out = []
    for row in [c for c in subject.coverage if not c.seen][:8]:
        since = f' --since "{_iso(row.from_us)} UTC" --until "{_iso(row.to_us)} UTC"' if row.from_us else ""
        job = subject.run.job_id if subject.run and subject.run.job_id else "JOBID"
        if row.what == "kernel log":
            prefix = f"ssh {row.host} " if row.host else ""
            get = f"{prefix}journalctl -k -o short-iso-precise{since}"
        elif row.what == "scheduler record":
            get = f"sacct -j {job} -P --format=ALL"
        else:
            get = f"scontrol show job {job} | grep StdOut"
        out.append(NotSeen(row.host, row.what, row.from_us, row.to_us, get))
    if component == "unknown.nccl_timeout":
        out.append(
            NotSeen(
                "",
                "NCCL flight recorder dumps",
                None,
                None,
                "set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1; collect the dump files",
            )
        )
    return tuple(out)
