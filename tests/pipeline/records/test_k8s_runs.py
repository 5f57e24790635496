"""Kubernetes dumps as runs: names of jobs, lives of pods, attempts of jobs, what is no run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.records import k8s_objects as k8s
from schemas.facts import RunFragment
from tests.pipeline.formats.recording import Recorder, parse


def event(reason: str, name: str, at: str, message: str = "", **more: Any) -> dict[str, Any]:
    about = {"kind": more.pop("kind", "Pod"), "name": name, "namespace": more.pop("namespace", "train")}
    return {
        "kind": "Event", "type": "Warning", "reason": reason, "message": message, "involvedObject": about,
        "firstTimestamp": f"2026-03-03T{at}Z", "lastTimestamp": f"2026-03-03T{at}Z", **more,
    }  # fmt: skip


def scheduled(name: str, node: str, at: str) -> dict[str, Any]:
    return event("Scheduled", name, at, f"Successfully assigned train/{name} to {node}")


def pod(name: str, status: dict[str, Any], owner: str = "Job", **more: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": more.pop("namespace", "train"), "labels": more.pop("labels", {}),
                     "ownerReferences": [{"kind": owner, "name": more.pop("job", "fit"), "controller": True}]},
        "spec": {"nodeName": more.pop("node", "gpu-17"), "containers": more.pop("containers", [])},
        "status": status,
    }  # fmt: skip


def ended(code: int, reason: str, start: str, end: str) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": f"2026-03-03T{start}Z",
                            "finishedAt": f"2026-03-03T{end}Z"}}  # fmt: skip
    return {"phase": "Succeeded" if code == 0 else "Failed", "containerStatuses": [{"name": "main", "state": state}]}


def read(*objects: dict[str, Any]) -> list[RunFragment]:
    data = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()
    return list(parse("k8s.json", data).fragments)


def jobs(*objects: dict[str, Any]) -> list[RunFragment]:
    return [f for f in read(*objects) if not f.step]


def clock(us: int) -> str:
    seconds = us // 1_000_000 % 86_400
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("asr-tfjob-worker-2", "asr-tfjob"),
        ("fit-master-0", "fit"),
        ("fit-launcher-x7p2k", "fit"),
        ("fit-x7p2k", "fit"),
        ("fit-3-x7p2k", "fit"),
        ("set-workers-0-3-x7p2k", "set-workers-0"),
        ("app-6c9d-0", "app-6c9d"),
        ("trainer-7-worker-3", "trainer-7"),
        ("single", "single"),
    ],
)
def test_job_stem(name: str, stem: str):
    assert k8s.job_stem(name) == stem


def test_a_known_job_goes_before_the_shape_of_the_name():
    assert k8s.job_stem("set-workers-0-3-x7p2k", ["set", "other"]) == "set"
    assert k8s.job_stem("settle-worker-0", ["set"]) == "settle"


@pytest.mark.parametrize(
    ("reason", "message", "state"),
    [
        ("Evicted", "The node was low on resource: memory.", "EVICTED"),
        ("Killing", "Stopping container main", "KILLED"),
        ("Preempted", "Preempted by pod a on node b", "PREEMPTED"),
        ("TaintManagerEviction", "Marking for deletion Pod train/fit-worker-0", "EVICTED"),
        ("BackOff", "Back-off restarting failed container main", "FAILED"),
        ("Failed", "Error: container exited with code 1", "FAILED"),
        ("TaintManagerEviction", "Cancelling deletion of Pod train/fit-worker-0", "RUNNING"),
        ("BackOff", "Back-off pulling image x", "RUNNING"),
        ("Failed", "Failed to pull image x", "RUNNING"),
        ("Pulled", "Successfully pulled image", "RUNNING"),
    ],
)
def test_what_ends_a_pod(reason: str, message: str, state: str):
    (run,) = jobs(scheduled("fit-worker-0", "gpu-17", "02:00:00"), event(reason, "fit-worker-0", "03:00:00", message))
    assert run.state == state
    assert (run.end.kind == "none") == (state == "RUNNING")


def test_the_word_that_says_why_goes_before_the_kill_that_follows():
    (run,) = jobs(
        scheduled("fit-worker-0", "gpu-17", "02:00:00"),
        event("Killing", "fit-worker-0", "03:00:00", "Stopping container main"),
        event("Preempted", "fit-worker-0", "03:00:01", "Preempted by pod x"),
    )
    assert (run.state, clock(run.end.us)) == ("PREEMPTED", "03:00:00")


def test_a_pod_scheduled_again_is_the_next_attempt():
    first, second = jobs(
        scheduled("fit-worker-0", "gpu-17", "02:00:00"),
        event("Evicted", "fit-worker-0", "03:00:00", "The node was low on resource: pids."),
        scheduled("fit-worker-0", "gpu-18", "03:10:00"),
    )
    assert (first.state, first.nodes) == ("EVICTED", ("gpu-17",))
    assert (second.state, second.nodes) == ("RUNNING", ("gpu-18",))


def test_pods_of_a_job_that_come_one_after_the_other_are_attempts():
    found = jobs(
        pod("fit-bbbbb", ended(1, "Error", "02:00:00", "02:30:00")),
        pod("fit-ccccc", ended(0, "Completed", "02:31:00", "04:00:00")),
    )
    assert sorted((f.state, f.exit_code) for f in found) == [("COMPLETED", 0), ("FAILED", 1)]


def test_pods_that_run_together_are_one_attempt_over_all_nodes():
    (run,) = jobs(
        pod("fit-worker-0", ended(0, "Completed", "02:00:00", "04:00:00"), node="gpu-17"),
        pod("fit-worker-1", ended(139, "Error", "02:00:05", "03:00:00"), node="gpu-18"),
    )
    assert (run.state, run.exit_code, run.nodes) == ("FAILED", 139, ("gpu-17", "gpu-18"))
    assert "failed_node=gpu-18" in run.extra


def test_a_job_object_says_why_it_was_given_up():
    word = {"kind": "Job", "metadata": {"name": "fit", "namespace": "train"},
            "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded",
                                       "lastTransitionTime": "2026-03-03T03:00:00Z"}]}}  # fmt: skip
    (run,) = jobs(word, pod("fit-ccccc", ended(143, "Error", "02:00:00", "03:00:05")))
    assert (run.state, clock(run.start.us), clock(run.end.us)) == ("TIMEOUT", "02:00:00", "03:00:00")


@pytest.mark.parametrize("kind", ["PyTorchJob", "TFJob", "MPIJob", "JobSet"])
def test_kinds_of_jobs_end_by_their_conditions(kind: str):
    obj = {"kind": kind, "metadata": {"name": "fit", "namespace": "train"},
           "status": {"startTime": "2026-03-03T02:00:00Z", "conditions": [
               {"type": "Running", "status": "False"},
               {"type": "Failed", "status": "True", "reason": "x", "lastTransitionTime": "2026-03-03T03:00:00Z"},
           ]}}  # fmt: skip
    (run,) = jobs(obj)
    assert (run.job_id, run.state, clock(run.end.us)) == ("fit", "FAILED", "03:00:00")


def test_a_ray_job_ends_by_its_status_words():
    obj = {"kind": "RayJob", "metadata": {"name": "tune"}, "status": {
        "jobStatus": "FAILED", "startTime": "2026-03-03T02:00:00Z", "endTime": "2026-03-03T03:00:00Z"}}  # fmt: skip
    (run,) = jobs(obj)
    assert (run.job_id, run.state, clock(run.end.us)) == ("tune", "FAILED", "03:00:00")


@pytest.mark.parametrize(
    "no_run",
    [
        pod("dcgm-exporter-abcde", ended(1, "Error", "02:00:00", "03:00:00"), owner="DaemonSet"),
        pod("web-5d9c7b6f4-x7p2k", ended(1, "Error", "02:00:00", "03:00:00"), owner="ReplicaSet"),
        pod("fit-0", ended(1, "Error", "02:00:00", "03:00:00"), namespace="kube-system"),
        event("Killing", "nvidia-operator-validator-x7p2k", "03:00:00", namespace="gpu-operator"),
        event("Killing", "web-5d9c7b6f4-x7p2k", "03:00:00"),
        event("FailedMount", "fit-worker-0", "03:00:00"),
        event("NodeNotReady", "gpu-17", "03:00:00", kind="Node"),
    ],
)
def test_what_is_no_run(no_run: dict[str, Any]):
    assert read(no_run) == []


def test_events_fill_in_what_the_pod_object_does_not_know():
    state = {"running": {"startedAt": "2026-03-03T02:00:04Z"}}
    status = {
        "phase": "Running",
        "startTime": "2026-03-03T02:00:00Z",
        "containerStatuses": [{"name": "main", "state": state}],
    }
    job, single = read(
        pod("fit-worker-0", status, owner="PyTorchJob"),
        scheduled("fit-worker-0", "gpu-17", "02:00:00"),
        event("TaintManagerEviction", "fit-worker-0", "03:00:00", "Marking for deletion Pod train/fit-worker-0"),
    )
    assert (job.state, single.state) == ("EVICTED", "EVICTED")
    assert clock(job.end.us) == "03:00:00"


def test_an_eviction_without_a_host_is_placed_only_if_one_node_alone_ran_short():
    evicted = event("Evicted", "fit-worker-0", "03:00:00", "The node was low on resource: memory.")
    short = [event("EvictionThresholdMet", f"gpu-{n}", "02:59:58", kind="Node") for n in (17, 18)]
    assert jobs(short[0], evicted)[0].nodes == ("gpu-17",)
    assert jobs(*short, evicted)[0].nodes == ()


def test_lists_without_kinds_streams_and_the_newer_event_group_are_understood():
    items = [{k: v for k, v in scheduled("fit-worker-0", "gpu-17", "02:00:00").items() if k != "kind"}]
    assert parse("k8s.json", json.dumps({"kind": "EventList", "items": items}).encode()).fragments
    watch = "".join(
        json.dumps({"type": "ADDED", "object": o}) + "\n" for o in (scheduled("fit-0", "gpu-17", "02:00:00"),)
    )
    assert parse("k8s.json", watch.encode()).fragments
    newer = {"kind": "Event", "reason": "Killing", "note": "Stopping container main", "type": "Normal",
             "regarding": {"kind": "Pod", "name": "fit-0", "namespace": "train"}, "eventTime": "2026-03-03T03:00:00.5Z",
             "reportingComponent": "kubelet", "reportingInstance": "gpu-17",
             "series": {"count": 9, "lastObservedTime": "2026-03-03T03:30:00Z"}}  # fmt: skip
    said = Recorder()
    facts = parse("k8s.json", json.dumps(newer).encode(), match=said)
    assert facts.fragments[0].nodes == ("gpu-17",)
    assert [clock(x["stamp"][1]) for x in said.said] == ["03:00:00", "03:30:00"]


def test_odd_members_never_raise():
    odd = [
        {"kind": "Pod", "metadata": None, "spec": [], "status": {"containerStatuses": [None, 3, {"state": "x"}]}},
        {"kind": "Event", "reason": 7, "involvedObject": [], "firstTimestamp": {}},
        {"kind": "Node", "status": {"conditions": {"a": 1}}},
        {"kind": "Job", "status": {"conditions": [{"type": None}]}},
        {"kind": ["Pod"]},
        7,
    ]
    facts = parse("k8s.json", json.dumps({"kind": "List", "items": odd}).encode())
    assert [q.reason for q in facts.quarantine] == ["not an object where a Kubernetes object was expected"]
