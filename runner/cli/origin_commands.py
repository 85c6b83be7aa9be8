"""``runner savepoints``, ``runner retry``, ``runner fork``: going back in a Delivery, as a new one."""

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import (
    BindOption,
    ConfigOption,
    DeliveryArgument,
    IdOption,
    JsonOption,
    KeepOption,
    RecordOption,
    TargetOption,
    explicit_config,
    find_config,
)

RepoOption = Annotated[
    Path | None, typer.Option("--repo", metavar="DIR", help="The git repository, where the old worktree is gone.")
]
PackageOption = Annotated[
    Path | None, typer.Option("--package", metavar="PACKAGE", help="Go on with this package; its set-up is run.")
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be taken over.")]


def register(app: typer.Typer) -> None:
    """Adds this family's commands."""
    app.command()(savepoints)
    app.command()(retry)
    app.command()(fork)


def savepoints(
    ctx: typer.Context, delivery: DeliveryArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """List the savepoints of a Delivery by step and tool call, whether it runs or not."""
    from runner.cli import savepoint_listing

    savepoint_listing.show(find_config(ctx, config), delivery, explicit_config(ctx, config), as_json=as_json)


def retry(
    ctx: typer.Context,
    delivery: DeliveryArgument,
    *,
    package: PackageOption = None,
    bind: BindOption = None,
    repo: RepoOption = None,
    target: TargetOption = None,
    new: IdOption = None,
    dry_run: DryOption = False,
    keep: KeepOption = False,
    record: RecordOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try the step again that a Delivery failed in, as a new Delivery; what had ended before is not done again."""
    from runner.cli.executing import Manner
    from runner.cli.going_back import Back, go_back

    back = Back(
        delivery=delivery,
        package=package,
        bindings=tuple(bind or ()),
        repository=repo,
        target=target,
        new=new,
        dry_run=dry_run,
    )
    manner = Manner(keep=keep, record=record, named_config=explicit_config(ctx, config), as_json=as_json)
    raise typer.Exit(go_back(back, find_config(ctx, config, repo), manner))


def fork(
    ctx: typer.Context,
    delivery: DeliveryArgument,
    savepoint: Annotated[
        str,
        typer.Argument(
            metavar="SAVEPOINT",
            help="'baseline', 'newest', a step, STEP@VISIT, or the beginning of an id; see 'runner savepoints'.",
        ),
    ],
    *,
    package: PackageOption = None,
    bind: BindOption = None,
    repo: RepoOption = None,
    target: TargetOption = None,
    new: IdOption = None,
    dry_run: DryOption = False,
    keep: KeepOption = False,
    record: RecordOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a new Delivery at a savepoint of another: its files as they were there, and what had ended until then."""
    from runner.cli.executing import Manner
    from runner.cli.going_back import Back, go_back

    back = Back(
        delivery=delivery,
        savepoint=savepoint,
        package=package,
        bindings=tuple(bind or ()),
        repository=repo,
        target=target,
        new=new,
        dry_run=dry_run,
    )
    manner = Manner(keep=keep, record=record, named_config=explicit_config(ctx, config), as_json=as_json)
    raise typer.Exit(go_back(back, find_config(ctx, config, repo), manner))
