"""What must not matter: the date, the names of hosts, a healthy host more, ten times the noise, the order of runs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.pipeline.loading import EXAMPLES, decisions, load, rows, shape, site, url
from tests.pipeline.tiny_sites import SITES

NAMES = sorted(SITES)
HOSTS = {"hbm": ("tula1", "tula2"), "bug": ("oka1", "oka2"), "idle": ("vik1", "vik2", "vik3", "vik4")}
few = hypothesis_settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
Shapes = dict[str, object]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Shapes:
    out: Shapes = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        load(url(folder), folder, site(name))
        out[name] = shape(decisions(url(folder)))
        assert out[name]
    return out


@few
@given(name=st.sampled_from(NAMES), days=st.integers(-3000, 3000), minutes=st.integers(0, 1439))
def test_another_date(
    name: str, days: int, minutes: int, shapes: Shapes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shift")
    load(url(folder), folder, site(name, shift=timedelta(days=days, minutes=minutes)))
    assert shape(decisions(url(folder))) == shapes[name]


@few
@given(
    name=st.sampled_from(NAMES),
    stem=st.sampled_from(["node", "gpu-a100-", "r07c", "ip-10-3-0-", "b", "compute-permanent-node-"]),
    first=st.integers(1, 4000),
)
def test_other_host_names(
    name: str, stem: str, first: int, shapes: Shapes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    new = {host: f"{stem}{first + i}" for i, host in enumerate(HOSTS[name])}
    folder = tmp_path_factory.mktemp("rename")
    files = {}
    for path, text in site(name, rename=lambda h: new.get(h, h)).items():
        kind, _, rest = path.partition("/")
        host, _, log = rest.partition("/")
        files[f"hosts/{new[host]}/{log}" if kind == "hosts" else path] = text
    load(url(folder), folder, files)
    assert shape(decisions(url(folder))) == shapes[name]


@pytest.mark.parametrize("name", NAMES)
def test_one_more_healthy_host(name: str, shapes: Shapes, tmp_path: Path) -> None:
    load(url(tmp_path), tmp_path, site(name, healthy=True))
    assert shape(decisions(url(tmp_path))) == shapes[name]


@pytest.mark.parametrize("name", NAMES)
def test_ten_times_the_noise(name: str, shapes: Shapes, tmp_path: Path) -> None:
    quiet = load(url(tmp_path, "quiet"), tmp_path, site(name))
    loud = load(url(tmp_path), tmp_path, site(name, noise=10))
    assert shape(decisions(url(tmp_path))) == shapes[name]
    assert loud.bytes > 2 * quiet.bytes
    assert loud.signals == quiet.signals


def test_history_does_not_depend_on_the_order_of_runs(tmp_path: Path) -> None:
    """The same site a week apart, twice: the later one first, or last."""
    early = site("hbm")
    late = {}
    for path, text in site("hbm", shift=timedelta(days=7)).items():
        name = path.replace("510", "590").replace("sacct", "sacct-b").replace("kern.log", "kern-b.log")
        late[name] = text.replace("5101|", "5901|").replace("5102|", "5902|")
    for warehouse, order in (("a", (early, late)), ("b", (late, early))):
        for files in order:
            load(url(tmp_path, warehouse), tmp_path, files)
    assert rows(url(tmp_path, "a")) == rows(url(tmp_path, "b"))
    load(url(tmp_path, "c"), tmp_path, {**early, **late})
    assert rows(url(tmp_path, "a")) == rows(url(tmp_path, "c"))
