"""`faultbeam stream` as it runs in production: a real broker, Prism, PostgreSQL. What it says is what a batch says."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from classifiers.knowledge import load_ruleset
from pipeline.warehouse.redecide import redecide
from schemas.facts import Facts
from schemas.settings import Settings
from sql.migrations import upgrade
from sql.same import same_bytes
from sql.store import open_store
from tests.pipeline.stream.archive import Sent, as_messages
from tests.pipeline.stream.test_reading import gather, site
from tests.services.fixtures import BeginStream
from tests.services.kafka import PASSWORD, USER, KafkaBroker
from tests.services.postgres import PostgresServer
from tests.stream_faults.harness import settle

PARTITIONS = 3


@pytest.fixture
def url(stream_postgres: PostgresServer) -> str:
    found = stream_postgres.database()
    upgrade(found)
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Rows of all messages at once, in order: `test_reading` holds them equal to those of a batch of files."""
    folder = tmp_path_factory.mktemp("expected")
    with open_store(f"sqlite:///{folder / 'w.db'}", create=True) as store:
        store.load_facts(gather(as_messages(site())))
        redecide(store, Settings(), load_ruleset(), None)
        return same_bytes(store)


def _replay(order: str, rng: random.Random) -> list[list[Sent]]:
    """The archive in portions; the later ones are sent when all before is decided and final."""
    sent = list(site())
    if order == "in order":
        return [sent]
    if order == "shuffled within the grace":
        return [sorted(sent, key=lambda s: s.time_us + rng.uniform(0, 4e6))]
    if order == "twice":
        again = rng.sample(sent, len(sent) // 3)
        return [sorted([*sent, *again], key=lambda s: s.time_us + rng.uniform(0, 60e6))]
    rng.shuffle(sent)  # a tenth comes when state and timers of the rest are gone
    late = len(sent) // 10
    return [sent[late:], sent[:late]]


@pytest.mark.parametrize("order", ["in order", "shuffled within the grace", "twice", "later than everything"])
def test_the_archive_replayed_gives_the_rows_of_a_batch(
    order: str, kafka: KafkaBroker, url: str, begin_stream: BeginStream, expected: bytes
) -> None:
    rng = random.Random(7)
    topic = kafka.topic(partitions=PARTITIONS)
    stream = begin_stream(topic, url)
    for portion in _replay(order, rng):
        kafka.send(topic, [s.fields() for s in portion], partition=lambda n: rng.randrange(PARTITIONS))
        settle(stream, kafka, topic, url)
    assert stream.stop() == 0
    with open_store(url) as store:
        assert same_bytes(store).splitlines() == expected.splitlines()


HOSTS, CULPRIT, JOB = 512, "gn077", "9001"


def _job(now: datetime) -> list[dict[str, Any]]:
    """A job of 512 hosts that ended a moment ago: one lost GPU, everybody's complaints, the scheduler's word."""
    begun, fault, end = now - timedelta(minutes=20), now - timedelta(seconds=40), now - timedelta(seconds=4)

    def at(when: datetime) -> int:
        return int(when.timestamp() * 1000)

    def line(host: str, path: str, offset: int, text: str, when: datetime) -> dict[str, Any]:
        record = {
            "@timestamp": when.isoformat().replace("+00:00", "Z"),
            "agent": {"type": "filebeat"},
            "host": {"name": host},
            "log": {"file": {"path": path}, "offset": offset},
            "message": text,
        }
        return {"value": json.dumps(record).encode(), "timestamp": at(when)}

    out, log = [], f"/scratch/slurm-{JOB}.out"
    for n in range(HOSTS):
        host = f"gn{n:03d}"
        for k in range(3):
            up = 90_000 + k
            text = f"{host} kernel: [{up}.000100] docker0: port {k}(veth{n}) entered forwarding state"
            when = begun + timedelta(minutes=6 * k)
            out.append(line(host, "/var/log/kern.log", 100 * k, f"{when:%b %d %H:%M:%S} {text}", when))
    for k, text in enumerate(
        (
            "NVRM: Xid (PCI:0000:4d:00): 79, pid=4711, name=python, GPU has fallen off the bus.",
            "NVRM: GPU 0000:4d:00.0: GPU has fallen off the bus.",
        )
    ):
        said = f"{fault:%b %d %H:%M:%S} {CULPRIT} kernel: [91200.{k:06d}] {text}"
        out.append(line(CULPRIT, "/var/log/kern.log", 1000 + 100 * k, said, fault))
    offset = 0
    for step in range(100):
        when = begun + timedelta(seconds=30 + 11 * step)
        text = f"[{when:%Y-%m-%d %H:%M:%S}] iteration {step:6d}/ 90000 | elapsed time per iteration (ms): 11000.0 |"
        out.append(line("login01", log, offset, text, when))
        offset += 200
    for rank in range(0, HOSTS, 4):
        when = fault + timedelta(seconds=25)
        text = f"[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=99, OpType=ALLREDUCE) ran for 600000 milliseconds before timing out."  # noqa: E501
        out.append(line("login01", log, offset, text, when))
        offset += 300
    heading = "JobID|JobName|User|State|ExitCode|Submit|Start|End|NNodes|NodeList"
    times = "|".join(f"{t:%Y-%m-%dT%H:%M:%S}" for t in (begun, begun, end))
    row = f"{JOB}|fit|mara|FAILED|1:0|{times}|{HOSTS}|gn[000-{HOSTS - 1}]"
    headers = [("format", b"sacct"), ("source", b"slurm/sacct.txt")]
    out.append({"value": f"{heading}\n{row}\n".encode(), "timestamp": at(end), "headers": headers})
    return out


def test_one_host_among_512(kafka: KafkaBroker, url: str, begin_stream: BeginStream) -> None:
    """All hosts' events shuffled: one incident, that host; a first answer within seconds, then the final one."""
    topic, out = kafka.topic(partitions=8), kafka.topic("incidents")  # two stay idle: they hold nothing up
    stream = begin_stream(topic, url, grace_s=30, incident_topic=out)
    rng = random.Random(3)
    messages = _job(datetime.now(UTC))
    rng.shuffle(messages)
    began = time.monotonic()
    kafka.send(topic, messages, partition=lambda n: rng.randrange(6))
    first = json.loads(kafka.read(out, 1, within_s=60)[0].value() or b"")
    took = time.monotonic() - began
    assert (first["what"], first["provisional"], first["incident"]["job_id"]) == ("new", True, JOB)
    assert took < 30, f"the first answer came after {took:.0f} s"
    settle(stream, kafka, topic, url)
    assert stream.stop() == 0
    with open_store(url) as store:
        found = [d for d in store.list_decisions() if d.incident]
    assert [(d.kind, d.run.job_id if d.run else "", d.component, d.first_host) for d in found] == [
        ("job_interruption", JOB, "gpu.device", CULPRIT)
    ]
    told = [json.loads(m.value() or b"") for m in kafka.read(out)]
    assert {m["incident_id"] for m in told} == {found[0].incident_id}
    assert [m["sequence"] for m in told] == sorted({m["sequence"] for m in told})
    assert (told[-1]["what"], told[-1]["provisional"]) == ("changed", False)
    assert told[-1]["incident"]["first_failing"]["host"] == CULPRIT


def test_bad_messages_do_not_stop_the_stream(kafka: KafkaBroker, begin_stream: BeginStream, tmp_path: Path) -> None:
    """Poison, 50 MB, a clock in the future, between good messages; then a restart that reads nothing twice.

    All of it encrypted and with credentials: messages, dead letters and incidents.
    """
    topic, dead, out = kafka.topic(), kafka.topic("dead"), kafka.topic("incidents")
    url = f"sqlite:///{tmp_path / 'w.db'}"
    login = tmp_path / "client.properties"
    login.write_text(
        f"security.protocol=SASL_SSL\nssl.ca.location={kafka.ca_file}\n"
        f"sasl.mechanism=PLAIN\nsasl.username={USER}\nsasl.password={PASSWORD}\n"
    )
    stream = begin_stream(
        topic,
        url,
        dead_letter_topic=dead,
        incident_topic=out,
        bootstrap_servers=kafka.tls_bootstrap,
        consumer_config=str(login),
    )
    good = [s.fields() for s in site()]
    poison = [b'{"torn', b"\x1f\x8b\x08\x00\x00\x00\x00\x00" * 50, b'{"nobody": "knows"}', b'{"a": 1}' + b"}" * 9]
    soon = int(time.time() * 1000) + 1_800_000
    odd: list[dict[str, Any]] = [*({"value": v} for v in poison), {"value": b""}, {"value": b"x y\n" * (50 << 18)}]
    odd.append({"value": b"a line from tomorrow", "timestamp": soon})
    messages = [*good[:3000], *odd, *good[3000:]]
    kafka.send(topic, messages)
    settle(stream, kafka, topic, url)
    letters = kafka.read(dead)
    assert sorted(m.value() or b"" for m in letters) == sorted(poison)
    for letter in letters:
        headers = dict(letter.headers() or [])
        assert headers["topic"] == topic.encode()
        assert 3000 <= int(headers["offset"] or -1) < 3007
        assert headers["reason"]
    assert stream.metrics()[f'faultbeam_stream_messages_total{{topic="{topic}",what="dead"}}'] == len(poison)
    assert stream.stop() == 0
    with open_store(url) as store:
        first = same_bytes(store)
        with store.reading() as connection:
            rows = connection.exec_driver_sql('SELECT path, "offset" FROM quarantine ORDER BY "offset"').fetchall()
        assert [tuple(r) for r in rows] == [(f"{topic}/0", 3000 + n) for n in range(len(poison))]
        assert max(at for _, at in store.read_stream_progress("default").values() if at) <= time.time_ns() // 1000
    before = len(kafka.read(out))
    assert before > 10
    stream.start()
    stream.await_health()
    time.sleep(5)
    assert stream.stop() == 0
    with open_store(url) as store:
        assert same_bytes(store) == first
    assert len(kafka.read(out)) == before


def test_nothing_in_is_nothing_lost(kafka: KafkaBroker, begin_stream: BeginStream, tmp_path: Path) -> None:
    """An empty topic, SIGTERM at once: no rows, exit 0."""
    url = f"sqlite:///{tmp_path / 'w.db'}"
    stream = begin_stream(kafka.topic(), url)
    assert stream.stop() == 0
    assert stream.left() == []
    with open_store(url) as store:
        assert store.read_sources("default") == Facts().sources
