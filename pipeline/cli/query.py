"""`faultbeam query NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipeline.cli.options import examples, parse_assignment, rows_format_option, warehouse_option
from pipeline.cli.output import emit_json, emit_rows

if TYPE_CHECKING:
    from sql.saved import Parameter, SavedQuery


@click.command(
    "query",
    epilog=examples(
        "faultbeam query --list",
        "faultbeam query interruptions_by_component",
        "faultbeam query job_evidence --param job=4711 --format json",
        "faultbeam query interruptions_by_week --format csv",
    ),
)
@click.argument("name", required=False)
@click.option("--list", "list_all", is_flag=True, help="Name all saved queries with their parameters.")
@click.option(
    "--param",
    "-p",
    "params",
    type=parse_assignment,
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the query; may be given several times.",
)
@warehouse_option()
@rows_format_option
def command(
    name: str | None,
    list_all: bool,
    params: tuple[tuple[str, str], ...],
    warehouse: str,
    output_format: str,
) -> None:
    """Run a saved query on the warehouse."""
    from sql.saved import list_queries, run_query, saved_query

    if list_all or name is None:
        _list(list_queries(), output_format)
        return
    wanted = name.replace("-", "_")
    saved_query(wanted)  # a wrong name is told before a connection is tried
    from sql.store import open_store

    with open_store(warehouse) as store:
        columns, rows = run_query(store, wanted, dict(params))
    emit_rows(output_format, columns, rows)


def _list(queries: list[SavedQuery], output_format: str) -> None:
    if output_format == "json":
        emit_json(
            [
                {
                    "query": q.name,
                    "title": q.title,
                    "parameters": [
                        {
                            "name": p.name,
                            "type": p.type,
                            "required": p.required,
                            "default": p.default,
                            "meaning": p.meaning,
                        }
                        for p in q.parameters
                    ],
                }
                for q in queries
            ]
        )
        return
    rows = [(q.name, " ".join(map(_parameter, q.parameters)), q.title) for q in queries]
    emit_rows(output_format, ["query", "parameters", "answers"], rows)


def _parameter(parameter: Parameter) -> str:
    """`job` where it must be given, `[since]` or `[limit=50]` where it may be."""
    if parameter.required:
        return parameter.name
    return f"[{parameter.name}{'' if parameter.default is None else f'={parameter.default}'}]"
