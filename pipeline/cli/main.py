"""The `faultbeam` command group. Contract: listing the commands imports none of them.

Exit codes: 0 done; 1 a negative answer that the user asked to be told; 2 wrong use or an error that faultbeam can
name (printed as one paragraph, without a traceback); 3 some inputs could not be read, the rest was done.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from schemas.errors import FaultbeamError

#: Name, module of this package, and the one line of the list. A test holds the line equal to the command's own.
COMMANDS: dict[str, tuple[str, str]] = {
    "diagnose": ("diagnose", "Say why a job stopped, or hangs, from its logs."),
    "ingest": ("ingest", "Load archived logs into the warehouse and attribute every interruption."),
    "stream": ("stream", "Read logs from Kafka without end, and keep the warehouse's incidents up to date."),
    "watch": ("watch", "Follow the logs of a folder as they grow, and attribute interruptions as they happen."),
    "reattribute": ("reattribute", "Decide again from stored facts and print what changed."),
    "explain": ("explain", "Show the time line of one incident, and why this cause and not the next."),
    "collect": ("collect", "Print the commands that fetch missing evidence, host by host."),
    "review": ("review", "Write the reliability review of a period: rates, costs, hosts, and what changed."),
    "query": ("query", "Run a saved query on the warehouse."),
    "tickets": ("tickets", "Load a site's own fault history as labelled incidents."),
    "label": ("label", "Record a reviewer's word on an incident; it wins over any decision."),
    "rules": ("rules", "List, show, lint and test the knowledge."),
    "train": ("train", "Train a model, and take it if it is not worse than the one in use."),
    "evaluate": ("evaluate", "Score the attribution on incidents with known causes."),
    "simulate": ("simulate", "Write raw logs of a cluster with known causes, for trying, teaching and load."),
    "db": ("db", "Create, upgrade or check the warehouse's schema; forget what a stream needs no more."),
    "doctor": ("doctor", "Check that this machine is set up right."),
    "version": ("version", "Print the versions of faultbeam and of its ruleset."),
}

EXIT_DONE = 0
EXIT_NEGATIVE = 1
EXIT_WRONG_USE = 2
EXIT_UNREAD = 3


class LazyGroup(click.Group):
    """A group whose commands live in modules of their own, imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"pipeline.cli.{COMMANDS[cmd_name][0]}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        try:
            return super().invoke(ctx)
        except FaultbeamError as error:
            click.echo(f"faultbeam: {error}", err=True)
            ctx.exit(EXIT_WRONG_USE)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Start with:  faultbeam diagnose slurm-4711.out  or  faultbeam COMMAND --help",
)
def cli() -> None:
    """Which component stopped the job: from the logs of a GPU training cluster to a cause, with the evidence for it."""


def main() -> None:
    """Entry point of the `faultbeam` script."""
    for stream in (sys.stdout, sys.stderr):
        # Log text may hold bytes that the terminal's encoding lacks; that must not stop an answer.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    cli(prog_name="faultbeam")


if __name__ == "__main__":
    main()
