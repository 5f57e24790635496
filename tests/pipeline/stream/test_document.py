"""docs/stream.md: its hook for the Java reader is run, its metrics are served, its commands are understood."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from pipeline.beam.stream_elements import Polled
from pipeline.cli.main import cli
from pipeline.stream.health import Monitor
from pipeline.stream.metrics import MetricsServer
from schemas.settings import Settings
from sql.store import open_store
from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "stream.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


class Header(NamedTuple):
    key: str
    value: bytes


class Record(NamedTuple):
    """What Beam's Java reader gives with metadata (`org.apache.beam.sdk.io.kafka.KafkaIO.ByteArrayKafkaRecord`)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes
    headers: list[Header] | None
    timestampTypeId: int = 0  # noqa: N815 - Beam's own name
    timestampTypeName: str = "CreateTime"  # noqa: N815


def test_the_hook_for_the_java_reader_gives_what_the_loader_takes(tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    exec(compile(_block("python"), "docs/stream.md", "exec"), space)
    step = space["ScanRecords"](Settings())
    step.setup()
    line = b"Mar  3 04:31:07 gx0117 kernel: [ 7.5] NVRM: Xid (PCI:0000:b1:00): 79, pid=1, GPU has fallen off the bus."
    at = int(time.time() * 1000)
    headers = [Header("host", b"gx0117"), Header("source", b"/var/log/kern.log")]
    records = [Record("logs", 0, 5, at, None, line, headers), Record("logs", 0, 6, at, None, b"nothing", None)]
    (polled,) = step.process(records)
    assert isinstance(polled, Polled)
    assert polled.positions == ()
    assert polled.event_us == at * 1000
    assert [(s.rule, s.count) for s in polled.facts.signals] == [("nv_xid_79", 1)] or len(polled.facts.signals) == 1
    assert dict(polled.keys)[polled.facts.signals[0].source_id] == "host:gx0117"
    with open_store(f"sqlite:///{tmp_path / 'w.db'}", create=True) as store:
        touched = store.load_facts(polled.facts, 0, "c", polled.positions, mark=True)
    assert polled.facts.signals[0].source_id in touched.source_ids


def test_every_metric_that_is_named_is_served(tmp_path: Path) -> None:
    named = set()
    for row in re.findall(r"^\| (`.*?) \|", TEXT.partition("| metric ")[2].partition("\n\n")[0], re.MULTILINE):
        named |= {re.sub(r"\{.*", "", name) for name in re.findall(r"`([^`]+)`", row)}
    assert len(named) > 20
    with open_store(f"sqlite:///{tmp_path / 'w.db'}", create=True) as store:
        monitor = Monitor(store, "c", lambda: {("t", 0): (0, 5)})
        monitor.poll()
        with MetricsServer(monitor) as server:
            import urllib.request

            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as answer:
                told = answer.read().decode()
    served = set(re.findall(r"^# TYPE faultbeam_stream_(\S+) ", told, re.MULTILINE))
    assert named - served - {name.removesuffix("_total") for name in served} == set()
    assert served - named == set(), "served, and not in the document"


def test_the_command_for_flink_is_understood(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("client.id = x\n")
    text = _block("text").replace("\\\n", " ").replace("/etc/faultbeam", str(tmp_path))
    words = shlex.split(text)
    assert words[:2] == ["faultbeam", "stream"]
    command = cli.get_command(click.Context(cli), "stream")
    assert command is not None
    context = command.make_context("stream", words[2:])
    assert context.params["runner"] == "PortableRunner"


@pytest.mark.parametrize("option", sorted(set(re.findall(r"--beam-option ([a-z_]+)=", TEXT))))
def test_beam_knows_the_options_for_its_runner(option: str) -> None:
    """Beam drops an option that it does not know with a warning only."""
    from apache_beam.options.pipeline_options import PipelineOptions

    known = {name for cls in PipelineOptions.__subclasses__() for name in cls(flags=[])._visible_option_list()}
    if option in known:
        return
    # options of the Flink runner are told by its job server; those of beam's documentation are listed here
    assert option in {
        "checkpointing_interval",
        "min_pause_between_checkpoints",
        "externalized_checkpoints_enabled",
        "state_backend",
        "max_bundle_time_mills",
        "parallelism",
        "max_parallelism",
        "number_of_execution_retries",
        "savepoint_path",
    }
