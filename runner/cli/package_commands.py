"""``runner check``, ``runner graph``, ``runner admit``, ``runner tools``: from a package to an activation."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import (
    BaseOption,
    BindOption,
    ConfigOption,
    DirtyOption,
    IdOption,
    InPlaceOption,
    InputOption,
    JsonOption,
    PackageArgument,
    PushOption,
    RepoOption,
    TargetOption,
    explicit_config,
    find_config,
)


class Form(StrEnum):
    """How a graph is drawn."""

    MERMAID = "mermaid"
    ASCII = "ascii"


def register(app: typer.Typer) -> None:
    """Adds this family's commands."""
    app.command()(check)
    app.command()(graph)
    app.command()(admit)
    app.command()(tools)


def check(package: PackageArgument, as_json: JsonOption = False) -> None:
    """Say everything that is wrong with a package, each with file:line and a fix."""
    from runner.cli.admitting import checked_package
    from runner.cli.terminal import write_json, write_lines

    summary = checked_package(package)
    if as_json:
        write_json({"ok": True, **summary.document()})
    else:
        write_lines([(f"{package}: ok", "green"), *summary.lines()])


def graph(
    source: Annotated[Path, typer.Argument(metavar="PACKAGE|ACTIVATION", help="A package or an admitted activation.")],
    form: Annotated[Form, typer.Option("--format", help="How to draw it.")] = Form.ASCII,
    as_json: JsonOption = False,
) -> None:
    """Draw the workflow, offline."""
    from runner.cli.admitting import drawn
    from runner.cli.terminal import write_json, write_lines

    picture = drawn(source, form.value)
    if as_json:
        write_json({"format": form.value, "graph": picture})
    else:
        write_lines([*picture.rstrip("\n").split("\n")])


def admit(
    ctx: typer.Context,
    package: PackageArgument,
    *,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the activation.")],
    repo: RepoOption = Path(),
    inputs: InputOption = None,
    bind: BindOption = None,
    target: TargetOption = None,
    push: PushOption = None,
    delivery: IdOption = None,
    base: BaseOption = "HEAD",
    in_place: InPlaceOption = False,
    include_dirty: DirtyOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Freeze package, repository, bindings and input into one activation, ready to execute."""
    from runner.cli import config_lookup
    from runner.cli.admitting import Wish, admit_wish
    from runner.cli.program import command
    from runner.cli.terminal import write_json, write_lines

    wish = Wish(
        package=package,
        repository=repo,
        inputs=tuple(inputs or ()),
        bindings=tuple(bind or ()),
        target=target,
        push=push,
        delivery=delivery,
        base=base,
        in_place=in_place,
        include_dirty=include_dirty,
    )
    admitted = admit_wish(wish, config_lookup.load_to_act(find_config(ctx, config, repo)), out)
    named = explicit_config(ctx, config)
    go_on = command("execute", str(out), *(("--config", str(named)) if named else ()))
    if as_json:
        write_json(
            {
                "delivery": admitted.delivery,
                "activation": str(out),
                "binding_identity": admitted.activation.binding_identity,
                "worktree": str(admitted.checkout.path),
                "next": [go_on],
            }
        )
    else:
        write_lines(
            [
                (f"Delivery {admitted.delivery}: admitted", "green"),
                f"  activation  {out}",
                f"  worktree    {admitted.checkout.path}",
                f"  next        {go_on}",
            ]
        )


def tools(ctx: typer.Context, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List what the configured tool servers offer, each with its digest and how a package declares it."""
    from runner.cli import config_lookup
    from runner.cli.exit_codes import of_error
    from runner.cli.terminal import write_json, write_lines
    from runner.cli.tool_listing import document_of, first_fault, lines_of, listings

    found = listings(config_lookup.load_to_act(find_config(ctx, config)))
    if as_json:
        write_json(document_of(found))
    else:
        write_lines(lines_of(found))
    if (fault := first_fault(found)) is not None:
        raise typer.Exit(of_error(fault))
