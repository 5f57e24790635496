"""Clocks that are off: found from events that two logs date, never from less; the order of cause and symptom holds."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifiers.knowledge import load_ruleset
from pipeline.analyse import analyse
from pipeline.cli.timeline import explain_lines
from pipeline.diagnose import diagnose
from pipeline.joining.events import place_signals
from pipeline.placing.clock import SECOND, Clock
from pipeline.placing.place import place
from pipeline.placing.skew import agreed
from pipeline.scanning.scan import scan_paths
from schemas.facts import Facts, merge_facts
from schemas.moments import KEPT, PREFIX, bounded, line_event, moment_fact, moment_of, step_event
from schemas.settings import Settings

SETTINGS = Settings(tz="UTC", engine="re2")
DAY = datetime(2026, 5, 17, 8, 0, 0, tzinfo=UTC)
HOSTS = ("n1", "n2", "n3", "n4", "n5")
NO_SKEW = dict.fromkeys(HOSTS, 0)
SKEWS = {"n1": 0, "n2": -170, "n3": 240, "n4": 1, "n5": 0}
FAULT = timedelta(hours=9, minutes=12)


def iso(t: datetime, milliseconds: bool = False) -> str:
    return t.strftime("%Y-%m-%dT%H:%M:%S") + (".250" if milliseconds else "")


def bsd(t: datetime) -> str:
    return t.strftime("%b %d %H:%M:%S")


def site(
    root: Path,
    skews: dict[str, int],
    *,
    launches: int = 6,
    wrong: int = 0,
    controller: int = 0,
    central: bool = False,
    slurmd: bool = True,
) -> None:
    """Logs of one job on all hosts that a GPU of n3 ends, after jobs that gave slurmd's steps to log.

    skews: seconds by which a host's clock is ahead. launches: jobs before. wrong: launch lines of n3 that are late by
    themselves. controller: seconds by which the controller's clock is ahead. central: kernel lines are also in one
    file that stamps them anew; slurmd: the nodes' slurmd logs are there.
    """
    rows = ["JobID|State|Submit|Start|End|ExitCode|NodeList|NNodes"]
    daemon: dict[str, list[str]] = {host: [] for host in HOSTS}
    kern: dict[str, list[str]] = {host: [] for host in HOSTS}
    relayed: list[tuple[datetime, str]] = []
    of_controller = timedelta(seconds=controller)
    begins = [DAY + timedelta(minutes=41 * n) for n in range(launches)] + [DAY + timedelta(hours=8)]
    for n, begin in enumerate(begins):
        job, last = 700 + n, n == launches
        end = begin + timedelta(minutes=20) if not last else DAY + FAULT + timedelta(seconds=95)
        at = [iso(t + of_controller) for t in (begin, begin, end)]
        state, code = ("FAILED", "1:0") if last else ("COMPLETED", "0:0")
        rows.append(f"{job}|{state}|{at[0]}|{at[1]}|{at[2]}|{code}|n[1-5]|5")
        rows.append(f"{job}.batch|{state}|{at[0]}|{at[1]}|{at[2]}|{code}|n1|1")
        rows.append(f"{job}.0|{state}|{at[0]}|{at[1]}|{at[2]}|{code}|n[1-5]|5")
        for host in HOSTS:
            late = 77 * (n + 1) if host == "n3" and n < wrong else 0
            t = begin + timedelta(seconds=skews[host] + late)
            daemon[host].append(
                f"[{iso(t, True)}] launch task StepId={job}.0 request from UID:5000 GID:5000 HOST:10.0.0.1 PORT:33000"
            )
    for hour in range(10):
        for number, host in enumerate(HOSTS):
            t = DAY + timedelta(hours=hour, minutes=number)
            kern_line(
                kern, relayed, skews, t, host, f"EDAC MC{number}: {hour + 1} CE memory read error on DIMM_A{hour}"
            )
    t = DAY + FAULT
    kern_line(kern, relayed, skews, t, "n3", "NVRM: Xid (PCI:0000:4d:00): 79, pid=812, GPU has fallen off the bus.")
    kern_line(
        kern, relayed, skews, t + timedelta(seconds=3), "n1",
        "NVRM: Xid (PCI:0000:1b:00): 45, pid=4411, name=python, Ch 00000008",
    )  # fmt: skip
    files = {"sacct.txt": rows, **{f"hosts/{host}/kern.log": lines for host, lines in kern.items()}}
    if slurmd:
        files |= {f"hosts/{host}/slurmd.log": lines for host, lines in daemon.items()}
    if central:
        relayed.sort()
        files["central/messages"] = [line for _, line in relayed]
    for name, lines in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def kern_line(
    kern: dict[str, list[str]],
    relayed: list[tuple[datetime, str]],
    skews: dict[str, int],
    t: datetime,
    host: str,
    text: str,
) -> None:
    kern[host].append(f"{bsd(t + timedelta(seconds=skews[host]))} {host} kernel: {text}")
    relayed.append((t, f"{bsd(t)} {host} kernel: {text}"))


def scanned(root: Path) -> tuple[Facts, dict[str, Clock]]:
    facts = scan_paths([root], SETTINGS)
    return facts, place(facts.sources, facts.fragments, SETTINGS)


def shifts(facts: Facts, clocks: dict[str, Clock]) -> dict[str, float]:
    """Seconds by which each file's stamps are moved, those that are not left out."""
    moved = {}
    for source in facts.sources:
        clock = clocks[source.source_id]
        if clock.shift is not None and clock.shift.us:
            moved[source.inner_paths[0]] = clock.shift.us / SECOND
    return moved


def xids(facts: Facts, clocks: dict[str, Clock]) -> list[tuple[str, str]]:
    """(host, signal) of the Xids, in the order that placing gives."""
    placed = place_signals(facts, clocks, load_ruleset())
    found = sorted((p.t or 0, p.hosts[0], p.meaning.signal) for p in placed if p.meaning.signal.startswith("xid."))
    return [(host, signal) for _, host, signal in found]


def test_cause_and_symptom_are_in_order_again(tmp_path: Path):
    site(tmp_path, SKEWS)
    facts, clocks = scanned(tmp_path)
    moved = shifts(facts, clocks)
    assert moved.keys() == {f"hosts/{host}/{log}" for host in ("n2", "n3") for log in ("kern.log", "slurmd.log")}
    assert moved["hosts/n3/kern.log"] == pytest.approx(-240, abs=1.5)
    assert moved["hosts/n2/kern.log"] == pytest.approx(170, abs=1.5)
    assert list(dict.fromkeys(xids(facts, clocks))) == [("n3", "xid.79"), ("n1", "xid.45")]
    result = diagnose([tmp_path], SETTINGS)
    incident = result.document.incidents[0]
    assert (incident.cause, incident.first_failing.host) == ("xid.79", "n3")
    assert [word for word in incident.assumptions if word.startswith("clock of n3 taken to be 240 s fast")]
    assert "Assumed" in list(explain_lines(result.decisions[0]))
    # without the nodes' daemons nothing tells it, and the symptom comes first
    bare = tmp_path / "bare"
    site(bare, SKEWS, slurmd=False)
    assert list(dict.fromkeys(xids(*scanned(bare)))) == [("n1", "xid.45"), ("n3", "xid.79")]


def test_the_doubt_of_a_shift_is_in_the_stamps(tmp_path: Path):
    site(tmp_path, SKEWS)
    facts, clocks = scanned(tmp_path)
    unc = {
        p.hosts[0]: p.unc for p in place_signals(facts, clocks, load_ruleset()) if p.meaning.signal.startswith("xid")
    }
    assert unc["n3"] == unc["n1"] + 1.0


@pytest.mark.parametrize("launches", [0, 1])
def test_fewer_than_three_pairs_move_nothing(tmp_path: Path, launches: int):
    site(tmp_path, SKEWS, launches=launches)
    assert shifts(*scanned(tmp_path)) == {}


def test_clocks_that_agree_are_left_alone(tmp_path: Path):
    site(tmp_path, {**NO_SKEW, "n2": 2, "n5": -2})
    assert shifts(*scanned(tmp_path)) == {}


def test_one_wrong_pair_moves_nothing_and_hides_nothing(tmp_path: Path):
    site(tmp_path / "right", NO_SKEW, wrong=1)
    assert shifts(*scanned(tmp_path / "right")) == {}
    site(tmp_path / "off", SKEWS, wrong=1)
    assert shifts(*scanned(tmp_path / "off"))["hosts/n3/kern.log"] == pytest.approx(-240, abs=1.5)


def test_pairs_that_do_not_agree_move_nothing(tmp_path: Path):
    site(tmp_path, NO_SKEW, wrong=6)
    assert shifts(*scanned(tmp_path)) == {}


def test_where_the_hosts_agree_the_controller_is_off(tmp_path: Path):
    site(tmp_path, NO_SKEW, controller=200)
    facts, clocks = scanned(tmp_path)
    assert shifts(facts, clocks) == {"sacct.txt": pytest.approx(-200, abs=1.5)}
    (sacct,) = (s.source_id for s in facts.sources if s.inner_paths == ("sacct.txt",))
    assert any("the scheduler taken to be 200 s fast: 5 of 5 hosts" in word for word in clocks[sacct].assumed)


def test_a_receiver_that_stamps_lines_anew_tells_hosts_that_are_off(tmp_path: Path):
    site(tmp_path, SKEWS, slurmd=False, central=True)
    facts, clocks = scanned(tmp_path)
    moved = shifts(facts, clocks)
    assert moved.keys() == {"hosts/n2/kern.log", "hosts/n3/kern.log"}  # its own stamps stay
    assert moved["hosts/n3/kern.log"] == pytest.approx(-240, abs=1.5)
    assert list(dict.fromkeys(xids(facts, clocks))) == [("n3", "xid.79"), ("n1", "xid.45")]


def test_relayed_lines_with_their_hosts_stamps_move_with_the_host(tmp_path: Path):
    site(tmp_path, SKEWS)
    lines = [line for host in HOSTS for line in (tmp_path / f"hosts/{host}/kern.log").read_text().splitlines()]
    (tmp_path / "central").mkdir()
    (tmp_path / "central/messages").write_text("\n".join(lines) + "\n")
    for host in HOSTS:
        (tmp_path / f"hosts/{host}/kern.log").unlink()
    facts, clocks = scanned(tmp_path)
    assert list(dict.fromkeys(xids(facts, clocks))) == [("n3", "xid.79"), ("n1", "xid.45")]


def test_neither_the_order_nor_the_number_of_views_shows(tmp_path: Path):
    site(tmp_path, SKEWS, central=True)
    facts, clocks = scanned(tmp_path)
    sources, fragments = list(facts.sources), list(facts.fragments)
    random.Random(5).shuffle(sources)
    random.Random(6).shuffle(fragments)
    assert place(sources, fragments, SETTINGS) == clocks
    assert merge_facts([facts, facts]) == facts
    assert analyse(facts, load_ruleset(), SETTINGS).decisions


def test_facts_stay_as_printed(tmp_path: Path):
    """An offset is derived: a host that is off has the same facts as one that is not, but for its own stamps."""
    site(tmp_path, SKEWS)
    facts, _ = scanned(tmp_path)
    (kern,) = (s for s in facts.sources if s.inner_paths == ("hosts/n3/kern.log",))
    assert all("240" not in fact for fact in kern.facts if not fact.startswith(PREFIX))


# --- the parts ----------------------------------------------------------------------------------------------------


def test_agreement_needs_three_and_more_than_half():
    assert agreed([]) is None
    assert agreed([5, 5]) is None
    assert agreed([5, 6, 7]) == (6, 2, 3)
    assert agreed([5, 6, 7, 10**9, 2 * 10**9, 3 * 10**9]) is None
    assert agreed([5, 6, 7, 10**9, -(10**9)]) == (6, 2, 3)


@given(st.lists(st.integers(-(10**9), 10**9), max_size=40))
def test_agreement_holds_most_values_of_its_window(values: list[int]):
    found = agreed(values)
    best = max((sum(v <= w <= v + 2 * SECOND for w in values) for v in values), default=0)
    assert (found is not None) == (best >= 3 and best * 2 > len(values))
    if found is not None:
        assert found.n == best
        assert found.value in values


EVENTS = st.builds(
    moment_fact,
    st.sampled_from(["", "n1", "n2"]),
    st.builds(line_event, st.integers(0, 60).map(str)) | st.builds(step_event, st.integers(0, 60).map(str)),
    st.sampled_from(["utc", "local", "noyear"]),
    st.integers(-5, 10**15),
)


@given(st.lists(EVENTS | st.sampled_from(["driver_version=1", "boot:n1=5"]), max_size=120), st.data())
def test_moments_of_views_merge_to_those_of_the_whole(facts: list[str], data: st.DataObject):
    cut = data.draw(st.integers(0, len(facts)))
    whole = bounded(facts)
    assert bounded([*bounded(facts[:cut]), *bounded(facts[cut:])]) == whole
    assert bounded(reversed(whole)) == whole
    per = [(m.host, m.event[0]) for f in whole if (m := moment_of(f)) is not None]
    assert all(per.count(group) <= KEPT for group in set(per))
    assert {f for f in facts if not f.startswith(PREFIX)} == {f for f in whole if not f.startswith(PREFIX)}
