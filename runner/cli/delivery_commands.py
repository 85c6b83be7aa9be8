"""``runner execute``, ``runner run``, ``runner inspect``, ``runner cancel``: one Delivery."""

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
    KeepOption,
    PackageArgument,
    RecordOption,
    RepoOption,
    TargetOption,
    explicit_config,
    find_config,
)


def register(app: typer.Typer) -> None:
    """Adds this family's commands."""
    app.command()(run)
    app.command()(execute)
    app.command()(inspect)
    app.command()(cancel)


def execute(
    ctx: typer.Context,
    activation: Annotated[Path, typer.Argument(metavar="ACTIVATION", help="What 'runner admit' or 'run' wrote.")],
    *,
    keep: KeepOption = False,
    record: RecordOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start, continue, or replay the Delivery of an activation. What finished is never repeated."""
    from runner.cli.executing import execute_file

    lookup = find_config(ctx, config)
    raise typer.Exit(
        execute_file(
            activation, lookup, keep=keep, record=record, named_config=explicit_config(ctx, config), as_json=as_json
        )
    )


def run(
    ctx: typer.Context,
    package: PackageArgument,
    *,
    repo: RepoOption = Path(),
    inputs: InputOption = None,
    bind: BindOption = None,
    target: TargetOption = None,
    delivery: IdOption = None,
    base: BaseOption = "HEAD",
    in_place: InPlaceOption = False,
    include_dirty: DirtyOption = False,
    keep: KeepOption = False,
    record: RecordOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Admit a package over a fresh worktree of the repository and execute it."""
    from runner.cli.admitting import Wish
    from runner.cli.executing import run_wish

    wish = Wish(
        package=package,
        repository=repo,
        inputs=tuple(inputs or ()),
        bindings=tuple(bind or ()),
        target=target,
        delivery=delivery,
        base=base,
        in_place=in_place,
        include_dirty=include_dirty,
    )
    lookup = find_config(ctx, config, repo)
    named = explicit_config(ctx, config)
    raise typer.Exit(run_wish(wish, lookup, keep=keep, record=record, named_config=named, as_json=as_json))


def inspect(
    ctx: typer.Context,
    delivery: Annotated[str | None, typer.Argument(metavar="[DELIVERY]", help="Without it: the list of all.")] = None,
    events: Annotated[bool, typer.Option("--events", help="Every record of its ledger, in order.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is known of a Delivery, without disturbing whoever drives it."""
    from runner.cli.inspecting import show_all, show_events, show_state

    lookup = find_config(ctx, config)
    if delivery is None:
        if events:
            raise typer.BadParameter("name the Delivery whose events you want to see")
        show_all(lookup, as_json=as_json)
    elif events:
        show_events(lookup, delivery, as_json=as_json)
    else:
        show_state(lookup, delivery, explicit_config(ctx, config), as_json=as_json)


def cancel(
    ctx: typer.Context,
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="See 'runner inspect'.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a Delivery, whoever drives it."""
    from runner.cli.inspecting import cancel_delivery

    raise typer.Exit(cancel_delivery(find_config(ctx, config), delivery, as_json=as_json))
