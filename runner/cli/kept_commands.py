"""``runner diff``, ``runner restore``, ``runner gc``: what is kept of a Delivery."""

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.options import ConfigOption, DeliveryArgument, JsonOption, explicit_config, find_config

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
NAMES = "'baseline', 'newest', a step, STEP@VISIT, or the beginning of an id"


def register(app: typer.Typer) -> None:
    """Adds this family's commands."""
    app.command()(diff)
    app.command()(restore)
    app.command()(gc)


def diff(
    ctx: typer.Context,
    delivery: DeliveryArgument,
    before: Annotated[str, typer.Argument(metavar="[A]", help=f"A savepoint: {NAMES}.")] = "baseline",
    after: Annotated[str, typer.Argument(metavar="[B]", help="Another one.")] = "newest",
    *,
    stat: Annotated[bool, typer.Option("--stat", help="Only how much changed in which file.")] = False,
    name_only: Annotated[bool, typer.Option("--name-only", help="Only the changed paths.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what differs between two savepoints of a Delivery, whether it runs or not."""
    from runner.cli import differing

    if stat + name_only + as_json > 1:
        raise typer.BadParameter("give one of --stat, --name-only, --json")
    form: differing.Form = "stat" if stat else "names" if name_only else "json" if as_json else "patch"
    differing.show(find_config(ctx, config), delivery, before, after, form)


def restore(
    ctx: typer.Context,
    delivery: DeliveryArgument,
    savepoint: Annotated[str, typer.Argument(metavar="SAVEPOINT", help=f"{NAMES[0].upper()}{NAMES[1:]}.")],
    *,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="A new or empty directory.")] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="The worktree itself, once the Delivery has settled.")
    ] = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the files of a savepoint to a directory, or put a settled Delivery's worktree back to it."""
    from runner.cli import restoring

    if (to is not None) == in_place:
        raise typer.BadParameter("give --to DIR or --in-place")
    lookup = find_config(ctx, config)
    if to is not None:
        restoring.restore_to(lookup, delivery, savepoint, to, as_json=as_json)
    else:
        named = explicit_config(ctx, config)
        restoring.restore_in_place(lookup, delivery, savepoint, named, yes=yes, as_json=as_json)


def gc(
    ctx: typer.Context,
    deliveries: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DELIVERY...]", help="Exactly these; without any, by the rules below."),
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    keep_days: Annotated[float, typer.Option("--keep-days", metavar="N", min=0, help="Younger ones stay.")] = 30,
    keep_count: Annotated[int, typer.Option("--keep-count", metavar="N", min=0, help="The newest N stay.")] = 10,
    max_bytes: Annotated[
        int | None,
        typer.Option("--max-bytes", metavar="N", min=0, help="The oldest go until all of them take no more."),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Also those that did not complete, or could not publish.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove settled Deliveries, the oldest first: store, ledger, worktree, kept result. Their settlements stay."""
    from runner.cli import collecting
    from runner.contract.kept import Retention

    policy = Retention(keep_days=keep_days, keep_count=keep_count, max_bytes=max_bytes, failed=failed)
    lookup = find_config(ctx, config)
    raise typer.Exit(collecting.collect(lookup, tuple(deliveries or ()), policy, dry_run=dry_run, as_json=as_json))
