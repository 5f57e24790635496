"""`faultbeam version`."""

from __future__ import annotations

import click

from pipeline.cli.options import examples, format_option
from pipeline.cli.output import emit_json


@click.command("version", epilog=examples("faultbeam version --format json"))
@format_option
def command(output_format: str) -> None:
    """Print the versions of faultbeam and of its ruleset."""
    from importlib.metadata import version

    from pipeline.doctor import ruleset_number

    number = ruleset_number()
    if output_format == "json":
        emit_json({"faultbeam": version("faultbeam"), "ruleset": number})
    else:
        click.echo(f"faultbeam {version('faultbeam')}, ruleset {number}")
