"""The group of commands, each loaded when it is called.

Decides the names and their files. It must never import a command's file to print the help
of the group.
"""

from __future__ import annotations

from importlib import import_module

import click

from duly._cli import settings

# Name -> its file, and the line that the group's help shows, in the order of a first day.
COMMANDS = {
    "demo": ("demo", "Show the whole promise in seconds, and check it."),
    "init": ("init_cmd", "Create or upgrade duly's tables."),
    "run": ("run_cmd", "Start one occurrence of a job."),
    "sql": ("sql_cmd", "Start one occurrence whose effect is a SQL script."),
    "exec": ("exec_cmd", "Start one occurrence whose work is a command."),
    "worker": ("worker_cmd", "Stay, and run what is due of every job."),
    "tick": ("tick_cmd", "Run what is due and missing, once."),
    "plan": ("tick_cmd", "Say what a tick would do, and why."),
    "schedule": ("schedule_cmd", "The next nominal times of a job or a text."),
    "status": ("status_cmd", "How each job is, in one line."),
    "missing": ("status_cmd", "What is expected, due and not settled."),
    "history": ("read_cmd", "What happened to a job, newest first."),
    "explain": ("read_cmd", "All that is known of one key, with a verdict to quote."),
    "check": ("read_cmd", "Ask whether an occurrence is completed: exits 0 or 4."),
    "backfill": ("backfill_cmd", "Run what is not settled of a span, oldest first."),
    "waive": ("override_cmd", "Settle a missing or torn occurrence without its effect."),
    "correct": ("override_cmd", "Make a second effect for a settled occurrence."),
    "pause": ("override_cmd", "Expect nothing of a job until it is resumed."),
    "resume": ("override_cmd", "End the pause of a job."),
    "retire": ("override_cmd", "Expect nothing more of a job."),
    "deliver": ("deliver_cmd", "Send the messages that are due: a relay."),
    "outbox": ("outbox_cmd", "See messages, and decide about those that need a person."),
    "inbox": ("inbox_cmd", "See received messages, and decide about what is parked."),
    "units": ("units_cmd", "Print what systemd, cron or Kubernetes needs to start a job."),
    "prune": ("act_cmd", "Delete old records; their keys stay refused."),
}

EPILOG = """\b
Exit codes:
  0        applied, duplicate, or nothing to do
  1        the handler failed
  2        usage: the call or the definition is wrong
  3        a person must act (conflict, settled otherwise, expired, torn, schema)
  4        check: not completed; status --check: overdue or given up
  70       internal: please report it
  75       try again (busy, connection lost)
  129 130 143  stopped by SIGHUP, Ctrl-C or SIGTERM
"""


class LazyGroup(click.Group):
    """Knows its commands by name, and loads the one that is asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As Click's, but no command at all is a wrong call in every version of it."""
        if not args:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's signature
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name, its file imported now."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"duly._cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name if cmd_name != "exec" else "exec_")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As Click's, but the nearest names are suggested."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it is one of {_names()}"
            raise click.UsageError(f"there is no command {args[0][:60]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table of commands, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _names() -> str:
    return ", ".join(COMMANDS)


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@settings.options(environment=True)
@click.version_option(package_name="duly", message="duly %(version)s")
def cli() -> None:
    """Make each occurrence of a scheduled job take effect exactly once.

    duly --app jobs:app run daily-credit --at 2026-09-13
    """
