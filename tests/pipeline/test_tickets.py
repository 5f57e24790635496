"""A site's fault history: mappings, forms of files, pairs, refusals, the warehouse; a published trace exactly."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cli.main import cli
from pipeline.warehouse.redecide import redecide
from pipeline.warehouse.ticket_load import decision_of, load_tickets
from pipeline.warehouse.tickets import TicketError, TicketMap, read_mapping, read_tickets
from schemas.settings import Settings
from sql.store import open_store

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("FAULTBEAM_SHARED", ROOT.parent / "shared")) / "data" / "infinitehbd"
CSV = (
    "ticket,node,opened,closed,category,detail,summary\n"
    "T1,gn07.example.com,2026-03-03T07:12:00Z,2026-03-04T09:00:00Z,GPU,double bit error,GPU 3 replaced\n"
    "T2,gn08,2026-03-05 10:00:00,,Network,link down,\n"
    "T3,,2026-03-05T10:00:00Z,,GPU,x,no host\n"
    "T4,gn09,yesterday,,GPU,x,no time\n"
    "T5,gn09,2026-03-05T10:00:00Z,2026-03-04T10:00:00Z,GPU,x,backwards\n"
    "T6,gn10,2026-03-06T10:00:00Z,,Paint,scratched,\n"
)


def documented() -> str:
    """The mapping of docs/tickets.md."""
    return re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "tickets.md").read_text(), re.DOTALL)[0]


@pytest.fixture
def mapping(tmp_path: Path) -> tuple[TicketMap, dict[str, str]]:
    (tmp_path / "map.yaml").write_text(documented())
    return read_mapping(tmp_path / "map.yaml")


def test_the_documented_mapping_reads_a_table(mapping):
    found = read_tickets(CSV.encode(), *mapping)
    assert [(t.host, t.component, t.words) for t in found.tickets] == [
        ("gn07", "gpu.hbm", "GPU/double bit error"),
        ("gn08", "net.fabric", "Network/link down"),
        ("gn10", "unknown", "Paint/scratched"),
    ]
    assert [t.end_us is None for t in found.tickets] == [False, True, True]
    assert found.tickets[0].start_us == 1772521920_000_000
    assert [(r.record, r.reason.split(":")[0]) for r in found.refused] == [
        (3, "no host in 'node'"), (4, "'opened' is no time"), (5, "it ends before it begins"),
    ]  # fmt: skip
    assert found.records == len(found.tickets) + len(found.refused)


def test_all_forms_of_a_file_give_the_same(mapping):
    want = read_tickets(CSV.encode(), *mapping).tickets
    head, *rows = [line.split(",") for line in CSV.splitlines()]
    objects = [dict(zip(head, row, strict=True)) for row in rows]
    spelled = (
        CSV.replace(",", "\t"), CSV.replace(",", ";"), json.dumps(objects), "\n".join(map(json.dumps, objects)),
        CSV.replace("\n", "\r\n"), "\ufeff" + CSV,
    )  # fmt: skip
    for text in spelled:
        assert read_tickets(text.encode(), *mapping).tickets == want
    nested = mapping[0].model_copy(update={"records": "data.tickets"})
    assert read_tickets(json.dumps({"data": {"tickets": objects}}).encode(), nested, mapping[1]).tickets == want


PAIRED = TicketMap.model_validate(
    {
        "host": "n", "start": "t", "time": {"unit": "hours", "origin": "2026-01-01T00:00:00Z"},
        "pair": {"field": "e", "start": "up", "end": "down", "by": ["n", "k"]},
        "component": {"fields": ["k.c"], "default": "unknown"},
    }
)  # fmt: skip


def _events(*rows: tuple[str, float, str, str]) -> bytes:
    return json.dumps([{"n": n, "t": t, "e": e, "k": {"c": k}} for n, t, e, k in rows]).encode()


def test_begins_meet_the_ends_that_follow_them():
    found = read_tickets(
        _events(("a", 1, "up", "x"), ("a", 2, "up", "x"), ("b", 2, "down", "x"), ("a", 3, "down", "x"),
                ("a", 3, "down", "y"), ("a", 4, "what", "x")),
        PAIRED, {},
    )  # fmt: skip
    hour = 3_600_000_000
    base = 1767225600_000_000
    assert [(t.start_us, t.end_us) for t in found.tickets] == [(base + hour, base + 3 * hour), (base + 2 * hour, None)]
    assert [r.record for r in found.refused] == [3, 5, 6]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 9), st.sampled_from(["up", "down"]), st.just("x"))))
def test_no_record_of_a_trace_is_lost(rows):
    found = read_tickets(_events(*rows), PAIRED, {})
    ended = sum(t.end_us is not None for t in found.tickets)
    assert 2 * ended + (len(found.tickets) - ended) + len(found.refused) == len(rows)
    assert len({t.key for t in found.tickets}) == len(found.tickets)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("component:", "componet:"),
        ("gpu.hbm", "gpu.memory"),
        ("host: node", "hosts: node"),
    ],
)
def test_a_wrong_mapping_is_refused_with_its_place(tmp_path: Path, change: str, says: str):
    path = tmp_path / "map.yaml"
    path.write_text(documented().replace(change, says))
    with pytest.raises(TicketError, match=re.escape(str(path))):
        read_mapping(path)


@pytest.mark.parametrize("data", [b"{", b'{"a": 1', b'{"a": {"b": 3}}\n{', b"[" * 200_000])
def test_a_damaged_document_is_an_error_that_says_so(mapping, data: bytes):
    with pytest.raises(TicketError, match="JSON"):
        read_tickets(data, *mapping)


def test_tickets_are_labelled_incidents_that_loads_of_logs_leave_alone(tmp_path: Path, mapping):
    from classifiers.knowledge import load_ruleset

    found = read_tickets(CSV.encode(), *mapping)
    with open_store(f"sqlite:///{tmp_path / 'w.db'}", create=True) as store:
        first = load_tickets(store, "default", found, "tickets: a.csv")
        assert (first.tickets, first.new, first.labelled, first.refused) == (3, 3, 3, 3)
        own = decision_of(found.tickets[0]).incident_id
        store.add_label(own, "gpu.sram", note="looked at the chip", who="ann")
        again = load_tickets(store, "default", found, "tickets: a.csv")
        assert (again.new, again.labelled) == (0, 0)
        assert store.current_labels("default")[own] == "gpu.sram"
        redecide(store, Settings(), load_ruleset())  # everything, as `reattribute` does
        assert len(store.list_decisions("default")) == 3
        assert store.read_decision(own).host == "gn07"
        assert store.read_decision(own).extra["resumed_us"] == str(found.tickets[0].end_us)


def test_the_command_says_what_it_refused(tmp_path: Path):
    (tmp_path / "map.yaml").write_text(documented())
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    args = ["tickets", str(tmp_path / "a.csv.gz"), "--mapping", str(tmp_path / "map.yaml"), "--warehouse",
            f"sqlite:///{tmp_path / 'w.db'}"]  # fmt: skip
    result = CliRunner().invoke(cli, [*args, "--format", "json"])
    assert result.exit_code == 3, result.output
    document = json.loads(result.stdout)
    assert (document["tickets"], document["new"], len(document["refusals"])) == (3, 3, 3)
    text = CliRunner().invoke(cli, args)
    assert "6 records, 3 faults of 3 hosts, 0 new, 3 refused" in text.output
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CSV.encode())[:40])
    assert CliRunner().invoke(cli, args).exit_code == 2


TRACE = """
host: node_id
start: event_time
time: {unit: days, origin: 2024-03-30T00:00:00Z}
pair: {field: event_type, start: fault_start, end: fault_end, by: [node_id, fault_type]}
component:
  fields: [fault_type.Level, fault_type.Class, fault_type.Desc]
  table: labels_map.tsv
  keys: [level, class, desc]
  value: component_class
"""


def test_a_published_trace_loads_with_exact_counts(tmp_path: Path):
    if not DATA.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{DATA} is missing")
        pytest.skip("the published trace is not here")
    labels = (DATA / "labels_map.tsv").read_text()
    (tmp_path / "labels_map.tsv").write_text(labels)
    (tmp_path / "map.yaml").write_text(TRACE)
    mapping, table = read_mapping(tmp_path / "map.yaml")
    found = read_tickets(gzip.decompress((DATA / "fault_trace.json.gz").read_bytes()), mapping, table)
    want: Counter[str] = Counter()
    for line in labels.splitlines()[1:]:
        _, _, _, count, component, *_ = line.split("\t")
        want[component] += int(count)
    with open_store(f"sqlite:///{tmp_path / 'w.db'}", create=True) as store:
        loaded = load_tickets(store, "default", found, "trace")
        assert len(store.list_decisions("default")) == 584
        assert Counter(store.current_labels("default").values()) == want
    assert (loaded.records, loaded.tickets, loaded.hosts, loaded.refused) == (1168, 584, 231, 0)
    assert loaded.components == dict(sorted(want.items()))
    assert all(ticket.end_us is not None for ticket in found.tickets)
