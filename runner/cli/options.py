"""Options that several commands share, and the context they end up in."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from runner.cli.config_lookup import Lookup

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The config to use; see 'runner doctor'.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; progress on stderr.")]
PackageArgument = Annotated[Path, typer.Argument(metavar="PACKAGE", help="A workflow package (YAML or JSON).")]
DeliveryArgument = Annotated[str, typer.Argument(metavar="DELIVERY", help="See 'runner inspect'.")]
InputOption = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="NAME=VALUE", help="NAME=TEXT, NAME=@FILE, NAME:=JSON or @FILE.json; repeatable."),
]
BindOption = Annotated[
    list[str] | None,
    typer.Option("--bind", metavar="ROLE=PROVIDER:MODEL", help="Who acts in a role; repeatable."),
]
TargetOption = Annotated[
    str | None, typer.Option("--target", metavar="BRANCH", help="The branch to publish to; a new one by default.")
]
PushOption = Annotated[
    str | None,
    typer.Option("--push", metavar="REMOTE", help="Publish by pushing to this remote (its name, or an address)."),
]
IdOption = Annotated[str | None, typer.Option("--id", metavar="ID", help="The Delivery's id; made by default.")]
BaseOption = Annotated[str, typer.Option("--base", metavar="REV", help="The commit to start from.")]
RepoOption = Annotated[Path, typer.Option("--repo", metavar="DIR", help="The git repository.")]
InPlaceOption = Annotated[bool, typer.Option("--in-place", help="Use the checkout itself instead of a fresh worktree.")]
DirtyOption = Annotated[
    bool, typer.Option("--include-dirty", help="With --in-place: uncommitted edits belong to baseline and result.")
]
KeepOption = Annotated[bool, typer.Option("--keep", help="Keep a fresh worktree after a completed Delivery.")]
RecordOption = Annotated[
    Path | None, typer.Option("--record", metavar="DIR", help="Record every session in DIR/DELIVERY, for replay.")
]


def explicit_config(ctx: typer.Context, config: Path | None) -> Path | None:
    """--config before or after the command's name; the one after it wins."""
    return config if config is not None else ctx.find_root().params.get("config")


def find_config(ctx: typer.Context, config: Path | None, start: Path | None = None) -> "Lookup":
    """The config for this command, looked for from ``start``."""
    from runner.cli import config_lookup

    return config_lookup.find(explicit_config(ctx, config), start)
