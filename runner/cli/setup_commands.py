"""``runner demo``, ``runner init``, ``runner doctor``: before there is a Delivery."""

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import ConfigOption, JsonOption, find_config


def register(app: typer.Typer) -> None:
    """Adds this family's commands."""
    app.command()(demo)
    app.command()(init)
    app.command()(doctor)


def demo(
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Where to make it; a new temporary directory by default."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Watch a whole Delivery, offline, in seconds: a real repository, a failing test, a published branch."""
    from runner.cli.demo import run_demo

    raise typer.Exit(run_demo(directory, as_json=as_json))


def init(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Write a commented runner.toml and an example package. Never overwrites anything."""
    from runner.cli.starter import next_commands, write_starter
    from runner.cli.terminal import write_json, write_lines

    written = write_starter(directory)
    commands = next_commands(directory)
    if as_json:
        write_json({"written": [str(path) for path in written], "next": [command for _, command in commands]})
        return
    width = max(len(what) for what, _ in commands)
    write_lines(
        [
            *(f"wrote {path}" for path in written),
            "next",
            *(f"  {what:<{width}}  {command}" for what, command in commands),
            ("  why --config: a config that is only found in a repository may not name a secret", "dim"),
        ]
    )


def doctor(ctx: typer.Context, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Say what a Delivery would find here: config and why, git, Python, state, providers, secrets, isolation."""
    from runner.cli import config_lookup
    from runner.cli.doctor import document_of, examine, lines_of
    from runner.cli.exit_codes import Exit
    from runner.cli.terminal import write_json, write_lines

    lookup = find_config(ctx, config)
    if lookup.path is not None and not lookup.path.exists():
        config_lookup.load(lookup)  # refuses it: what was named is not there, so there is nothing to examine
    checks = examine(lookup)
    if as_json:
        write_json(document_of(checks))
    else:
        write_lines(lines_of(checks))
    if any(check.state == "problem" for check in checks):
        raise typer.Exit(Exit.STILL_OPEN)
