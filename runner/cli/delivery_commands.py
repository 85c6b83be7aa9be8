"""``runner execute``, ``runner run``, ``runner inspect``, ``runner cancel``: one Delivery."""

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import (
    BaseOption,
    BindOption,
    ConfigOption,
    DeliveryArgument,
    DirtyOption,
    IdOption,
    InPlaceOption,
    InputOption,
    JsonOption,
    KeepOption,
    PackageArgument,
    PushOption,
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
    activation: Annotated[
        str | None,
        typer.Argument(
            metavar="[ACTIVATION]", help="What 'runner admit' wrote, or the id of a Delivery; see 'inspect'."
        ),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--open", help="Every open Delivery that nobody drives; asks nobody.")] = False,
    keep: KeepOption = False,
    record: RecordOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start, continue, or replay a Delivery. What finished is never repeated."""
    from runner.cli.executing import Manner, execute_one, execute_open

    if every == (activation is not None):
        raise typer.BadParameter("give one activation, the id of one Delivery, or --open")
    lookup = find_config(ctx, config)
    manner = Manner(keep=keep, record=record, named_config=explicit_config(ctx, config), as_json=as_json)
    raise typer.Exit(execute_open(lookup, manner) if activation is None else execute_one(activation, lookup, manner))


def run(
    ctx: typer.Context,
    package: PackageArgument,
    *,
    repo: RepoOption = Path(),
    inputs: InputOption = None,
    bind: BindOption = None,
    target: TargetOption = None,
    push: PushOption = None,
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
    from runner.cli.executing import Manner, run_wish

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
    lookup = find_config(ctx, config, repo)
    manner = Manner(keep=keep, record=record, named_config=explicit_config(ctx, config), as_json=as_json)
    raise typer.Exit(run_wish(wish, lookup, manner))


def inspect(
    ctx: typer.Context,
    delivery: Annotated[str | None, typer.Argument(metavar="[DELIVERY]", help="Without it: the list of all.")] = None,
    step: Annotated[
        str | None, typer.Argument(metavar="[STEP]", help="What one step did; STEP@VISIT for an earlier visit.")
    ] = None,
    *,
    events: Annotated[bool, typer.Option("--events", help="Every record of its ledger, in order.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="With --events: go on to its settlement; --json is then one record a line.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is known of a Delivery, without disturbing whoever drives it."""
    from runner.cli.inspecting import show_all, show_events, show_state, show_step

    lookup = find_config(ctx, config)
    if delivery is None:
        if events or follow:
            raise typer.BadParameter("name the Delivery whose events you want to see")
        show_all(lookup, as_json=as_json)
    elif step is not None:
        if events or follow:
            raise typer.BadParameter("name a step, or ask for --events")
        show_step(lookup, delivery, step, as_json=as_json)
    elif events or follow:
        show_events(lookup, delivery, follow=follow, as_json=as_json)
    else:
        show_state(lookup, delivery, explicit_config(ctx, config), as_json=as_json)


def cancel(
    ctx: typer.Context,
    delivery: DeliveryArgument,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a Delivery, whoever drives it."""
    from runner.cli import saying

    lookup, named = find_config(ctx, config), explicit_config(ctx, config)
    raise typer.Exit(saying.cancel(lookup, delivery, named, as_json=as_json))
