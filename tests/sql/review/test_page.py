"""The HTML page in a real browser, and the Markdown: log text stays text, nothing is fetched, tables sort."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sql.migrations import upgrade
from sql.review.charts import charts
from sql.review.document import build
from sql.review.html import html, json_for_script
from sql.review.markdown import escape, markdown
from sql.store import open_store
from tests.sql.builders import HOUR, T0, decision, run

HOSTILE = '<script>window.broken = 1</script><img src=x onerror="window.broken = 2">|]]> ${7*7} {{ 7*7 }}'


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A review of three weeks with hostile text wherever text of logs can stand."""
    url = f"sqlite:///{tmp_path_factory.mktemp('review') / 'w.db'}"
    upgrade(url)
    runs, decisions = [], []
    for n in range(40):
        start = T0 + n * 12 * HOUR
        one = run(
            f"r{n}", job_id=f"{700000 + n}", start_us=start, end_us=start + 11 * HOUR, state="FAILED",
            name=f"pretrain{HOSTILE}", n_nodes=256, n_gpus=2048,
        )  # fmt: skip
        runs.append(one)
        component = ("gpu.hbm", "gpu.hbm", "net.fabric", "unknown", "software.bug")[n % 5]
        made = decision(
            f"r{n}", f"inc-{n}", run=one, component=component, cause=HOSTILE, fault_id=f"f{n}",
            confidence=0.6 + n / 200, onset_us=start + 10 * HOUR,
        )  # fmt: skip
        decisions.append(replace(made, summary=f"{n}: {HOSTILE}"))
    with open_store(url) as store:
        store.replace_runs(HOSTILE, runs)
        store.replace_decisions(HOSTILE, decisions)
        return build(store, HOSTILE)


@pytest.fixture(scope="module")
def page(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "review.html"
    path.write_text(html(document), encoding="utf-8")
    return path


def _open(browser: Any, page: Path, theme: str = "light", width: int = 1280) -> list[str]:
    """Open the page and wait for its charts; what the browser asked for."""
    browser.get_log("performance")
    browser.get_log("browser")
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    )
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    browser.set_script_timeout(30)
    failed = browser.execute_async_script("const d = arguments[0]; drawn.then(() => d(), e => d(String(e)))")
    assert failed is None
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_page_fetches_nothing_and_complains_of_nothing(browser: Any, page: Path, theme: str, width: int) -> None:
    asked = _open(browser, page, theme, width)
    assert [u for u in asked if not u.startswith("data:")] == [page.as_uri()]
    assert browser.get_log("browser") == []
    seen = browser.execute_script(
        "return [document.documentElement.scrollWidth <= innerWidth, document.querySelectorAll('.chart svg').length,"
        " getComputedStyle(document.body).backgroundColor]"
    )
    assert seen[0], "the page is wider than the window"
    assert seen[1] == len(browser.find_elements("css selector", ".chart")) >= 3
    assert seen[2] == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 27)"}[theme]


def test_charts_follow_the_theme(browser: Any, page: Path) -> None:
    colours = []
    for theme in ("light", "dark"):
        _open(browser, page, theme)
        colours.append(browser.execute_script("return document.querySelector('.chart svg text').getAttribute('fill')"))
    assert colours == ["#1b1f24", "#e6eaef"]


def test_text_of_logs_stays_text(browser: Any, page: Path) -> None:
    _open(browser, page)
    assert browser.execute_script("return window.broken") is None
    text = browser.find_element("tag name", "body").text
    assert "<script>window.broken = 1</script>" in text
    assert "{{ 7*7 }}" in text
    assert browser.execute_script("return document.images.length") == 0


def test_tables_sort_by_their_heads(browser: Any, page: Path) -> None:
    _open(browser, page)
    column = "return [...document.querySelectorAll('#t-components')][0].closest('section').querySelector('tbody')"
    counts = f"{column}.innerText.split('\\n').map(r => Number(r.split('\\t')[2]))"
    assert browser.execute_script(counts) == [16, 8, 8, 8]
    heads = browser.find_elements("css selector", "[aria-labelledby=t-components] th button")
    heads[2].click()
    heads[2].click()
    assert browser.execute_script(counts) == [8, 8, 8, 16]
    assert heads[2].find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    heads[0].click()
    names = f"{column}.innerText.split('\\n').map(r => r.split('\\t')[0])"
    assert browser.execute_script(names) == ["unknown", "software.bug", "net.fabric", "gpu.hbm"]


def test_numbers_lead_to_their_queries(browser: Any, page: Path) -> None:
    _open(browser, page)
    browser.execute_script("document.querySelector('.card a').click()")
    opened = browser.execute_script(
        "return [...document.querySelectorAll('details')].filter(d => d.open).map(d => d.id)"
    )
    assert opened == ["q-review_incidents"]
    dead = browser.execute_script(
        "return [...document.querySelectorAll('a[href^=\"#\"]')]"
        ".filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert dead == 0


def test_print_is_black_on_white(browser: Any, page: Path) -> None:
    _open(browser, page, "dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    style = browser.execute_script(
        "const c = e => getComputedStyle(e); return [c(document.body).color, c(document.body).backgroundColor,"
        " c(document.querySelector('.chart svg text')).fill]"
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert style == ["rgb(0, 0, 0)", "rgb(255, 255, 255)", "rgb(0, 0, 0)"]


def test_the_paper_holds_the_page(browser: Any, page: Path) -> None:
    _open(browser, page)
    paper = {"width": 760, "height": 1075, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", paper)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    seen = browser.execute_script(
        "const shown = s => [...document.querySelectorAll(s)].filter(e => e.offsetParent).length;"
        " return [document.documentElement.scrollWidth <= innerWidth, shown('nav'), shown('details'), shown('.card')]"
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert seen == [True, 0, 0, 12]


def test_what_matters_comes_first_and_everything_can_be_jumped_to(browser: Any, page: Path) -> None:
    _open(browser, page, width=400)
    heads = [h.text.removesuffix(" query") for h in browser.find_elements("tag name", "h2")]
    assert heads[:3] == ["What changed", "Attribution quality", "Incidents most worth a label"]
    links = browser.find_elements("css selector", "nav a")
    assert len(links) == len(heads)
    assert len(browser.find_elements("css selector", "ol.changes li a[href^='#q-']")) == 5
    rows = browser.find_elements("css selector", "[aria-labelledby=t-label] tbody tr")
    assert len(rows) == 20
    assert browser.execute_script("return arguments[0].scrollWidth <= innerWidth", rows[0])
    cells = "[aria-labelledby=t-label] td[data-c=confidence]"
    confidence = f"return [...document.querySelectorAll('{cells}')].map(c => +c.dataset.v)"
    browser.find_elements("css selector", "[aria-labelledby=t-label] th button")[4].click()
    found = browser.execute_script(confidence)
    assert found == sorted(found, reverse=True)


def test_page_of_an_empty_warehouse(browser: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'w.db'}"
    upgrade(url)
    with open_store(url) as store:
        path = tmp_path / "empty.html"
        path.write_text(html(build(store)), encoding="utf-8")
    browser.get_log("browser")
    browser.get(path.as_uri())
    assert browser.get_log("browser") == []
    assert "not known" in browser.find_element("tag name", "body").text


def test_page_without_the_extra_says_so(document: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from sql.review.charts import script

    monkeypatch.setitem(sys.modules, "altair", None)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    script.cache_clear()
    try:
        assert charts(document) is None
        made = html(document)
    finally:
        script.cache_clear()
    assert "faultbeam[report]" in made
    assert len(made) < 200_000


def test_no_tag_of_log_text_survives(page: Path, document: dict[str, Any]) -> None:
    body = page.read_text(encoding="utf-8")
    assert "<script>window.broken" not in body
    assert "<img src=x" not in body
    for line in markdown(document).splitlines():
        assert "<script>" not in line
        if line.startswith("| inc-"):
            assert line.replace("\\|", "").count("|") == 8


def test_escapes() -> None:
    assert json_for_script({"a": "</script><!--&"}) == '{"a": "\\u003c/script\\u003e\\u003c!--\\u0026"}'
    assert json.loads(json_for_script({"a": "</script>"})) == {"a": "</script>"}
    assert escape("a|b\n<c> [d](e) `f`") == "a\\|b &lt;c&gt; \\[d\\](e) \\`f\\`"
