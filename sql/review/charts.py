"""Charts of the review as Vega-Lite specifications, made by Altair; and the script that draws them, from vl-convert.

Both are the extra `[report]`: without them `charts` gives None and the page says so. Nothing is fetched: the script is
part of the page.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

Json = dict[str, Any]

#: Unexpected, planned, by the scheduler: told apart in both themes and in grey.
_KINDS = ["#1f6feb", "#d9822b", "#8a94a0"]


def charts(doc: Json) -> list[tuple[str, str, Json]] | None:
    """(id, title, specification without colours of its own for text and axes) of each chart that has data."""
    try:
        import altair as alt
    except ImportError:
        return None
    made: list[tuple[str, str, Any]] = []
    if doc["by_component"]:
        made.append(("c-components", "Unexpected interruptions by component", _bars(alt, doc["by_component"])))
    if doc["by_week"]:
        made.append(("c-weeks", "Interruptions by week", _weeks(alt, doc["by_week"])))
    means = [w for w in doc["mttf_trend"]["by_week"] if w["ci95"]]
    if len(means) > 1:
        title = f"MTTF of the largest job by week, with 95 % interval: {doc['mttf_trend']['verdict']}"
        made.append(("c-mttf", title, _means(alt, means)))
    if doc["projection"]:
        made.append(("c-projection", "MTTF by size, with 95 % interval", _projection(alt, doc["projection"])))
    if doc["diurnal"]["by_hour"]:
        made.append(
            (
                "c-day",
                f"Throughput by hour of the day (UTC): {doc['diurnal']['verdict']}",
                _day(alt, doc["diurnal"]["by_hour"]),
            )
        )
    if any(doc["by_hour"]["counts"]):
        made.append(
            ("c-hours", "Unexpected interruptions by hour of the day (UTC)", _hours(alt, doc["by_hour"]["counts"]))
        )
    return [(name, title, _spec(chart)) for name, title, chart in made]


def _spec(chart: Any) -> Json:  # noqa: ANN401 - altair is optional
    spec: Json = json.loads(
        chart.properties(width="container", height=chart.height if isinstance(chart.height, int) else 220).to_json()
    )
    spec.pop("config", None)
    spec["autosize"] = {"type": "fit", "contains": "padding"}
    return spec


def _data(alt: Any, rows: list[Json]) -> Any:  # noqa: ANN401
    return alt.InlineData(values=rows)


def _bars(alt: Any, rows: list[Json]) -> Any:  # noqa: ANN401
    kept = [{"component": r["component"], "count": r["count"], "percent": r["percent"]} for r in rows]
    return (
        alt.Chart(_data(alt, kept))
        .mark_bar()
        .encode(
            x=alt.X("count:Q", title="interruptions"),
            y=alt.Y("component:N", sort="-x", title=None),
            tooltip=["component:N", "count:Q", alt.Tooltip("percent:Q", format=".1f")],
        )
        .properties(height=max(80, 20 * len(kept)))
    )


def _weeks(alt: Any, rows: list[Json]) -> Any:  # noqa: ANN401
    long = [
        {"week": r["week"], "kind": kind, "count": r[key]}
        for r in rows
        for kind, key in (("unexpected", "unexpected"), ("planned", "planned"), ("by the scheduler", "scheduler_stops"))
    ]
    return (
        alt.Chart(_data(alt, long))
        .mark_bar()
        .encode(
            x=alt.X("week:O", title="week of"),
            y=alt.Y("count:Q", title="interruptions"),
            color=alt.Color(
                "kind:N",
                title=None,
                legend=alt.Legend(orient="top"),
                scale=alt.Scale(domain=["unexpected", "planned", "by the scheduler"], range=_KINDS),
            ),
            tooltip=["week:O", "kind:N", "count:Q"],
        )
    )


def _means(alt: Any, rows: list[Json]) -> Any:  # noqa: ANN401
    kept = [
        {"week": r["week"], "mttf": r["mttf_hours"], "low": r["ci95"][0], "high": r["ci95"][1], "n": r["unexpected"]}
        for r in rows
    ]
    base = alt.Chart(_data(alt, kept))
    x = alt.X("week:O", title="week of")
    y = alt.Y("low:Q", title="MTTF (h)", scale=alt.Scale(zero=False))
    bars = base.mark_rule().encode(x=x, y=y, y2="high:Q")
    tips = ["week:O", alt.Tooltip("mttf:Q", format=".2f"), alt.Tooltip("low:Q", format=".2f")]
    tips += [alt.Tooltip("high:Q", format=".2f"), alt.Tooltip("n:Q", title="interruptions")]
    return bars + base.mark_point(filled=True, size=60).encode(x=x, y="mttf:Q", tooltip=tips)


def _projection(alt: Any, rows: list[Json]) -> Any:  # noqa: ANN401
    kept = [
        {"gpus": r["gpus"], "mttf": r["mttf_hours"], "low": r["ci95"][0], "high": r["ci95"][1] or r["mttf_hours"]}
        for r in rows
    ]
    x = alt.X(
        "gpus:Q", title="GPUs", scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=[r["gpus"] for r in rows])
    )
    base = alt.Chart(_data(alt, kept))
    scale = alt.Scale(type="log")
    band = base.mark_area(opacity=0.25).encode(x=x, y=alt.Y("low:Q", title="MTTF (h)", scale=scale), y2="high:Q")
    line = base.mark_line(point=True).encode(
        x=x, y=alt.Y("mttf:Q", scale=scale), tooltip=["gpus:Q", alt.Tooltip("mttf:Q", format=".2f")]
    )
    return band + line


def _day(alt: Any, rows: list[Json]) -> Any:  # noqa: ANN401
    kept = [{"hour": r["hour"], "percent": 100 * (r["relative"] - 1)} for r in rows]
    return (
        alt.Chart(_data(alt, kept))
        .mark_line(point=True)
        .encode(
            x=alt.X("hour:Q", title="hour (UTC)"),
            y=alt.Y("percent:Q", title="against the mean, %", scale=alt.Scale(zero=False)),
            tooltip=["hour:Q", alt.Tooltip("percent:Q", format="+.2f")],
        )
    )


def _hours(alt: Any, counts: list[int]) -> Any:  # noqa: ANN401
    return (
        alt.Chart(_data(alt, [{"hour": h, "count": n} for h, n in enumerate(counts)]))
        .mark_bar()
        .encode(
            x=alt.X("hour:O", title="hour (UTC)"),
            y=alt.Y("count:Q", title="interruptions"),
            tooltip=["hour:O", "count:Q"],
        )
    )


@cache
def script() -> str | None:
    """JavaScript that defines `vegaEmbed`, whole, for a script element; None without vl-convert."""
    try:
        import vl_convert
    except ImportError:
        return None
    # Its stub asks for a snippet; without one the bundle defines `window.vegaEmbed`.
    make: Any = vl_convert.javascript_bundle
    bundle: str = make()
    # The end of a script element must not occur in its text; in a string literal the two are the same.
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
