"""``runner answer``, ``runner resolve``, ``runner verify``, ``runner takeover``: what only a person can do for a Delivery."""

from typing import Annotated

import typer

from runner.cli.options import ConfigOption, DeliveryArgument, JsonOption, explicit_config, find_config


def register(app: typer.Typer) -> None:
    """Adds this family's commands."""
    app.command()(answer)
    app.command()(resolve)
    app.command()(verify)
    app.command()(takeover)


def answer(
    ctx: typer.Context,
    delivery: DeliveryArgument,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[WAIT] VALUE",
            help="VALUE is JSON, or a word such as approve. WAIT may be left out when one question is open.",
        ),
    ],
    *,
    comment: Annotated[str | None, typer.Option("--comment", metavar="TEXT", help="Goes with the answer.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question that a Delivery waits with; 'runner inspect DELIVERY' shows what it asks."""
    from runner.cli import saying

    if len(words) > 2:
        raise typer.BadParameter("give at most a wait and one value; put a value with spaces into quotes")
    wait, value = (words[0], words[1]) if len(words) == 2 else (None, words[0])
    named = explicit_config(ctx, config)
    spoken = saying.Spoken(find_config(ctx, config), delivery, named, as_json=as_json)
    raise typer.Exit(saying.answer(spoken, wait, value, comment))


def resolve(
    ctx: typer.Context,
    delivery: DeliveryArgument,
    call: Annotated[
        str | None,
        typer.Argument(metavar="[CALL]", help="The uncertain effect; may be left out when there is one."),
    ] = None,
    *,
    happened: Annotated[
        str | None,
        typer.Option("--happened", metavar="VALUE", help="With which result, as JSON; the exit status of a command."),
    ] = None,
    did_not_happen: Annotated[bool, typer.Option("--did-not-happen", help="It is done again, once.")] = False,
    abandon: Annotated[bool, typer.Option("--abandon", help="Nobody knows; the Delivery ends as failed.")] = False,
    adopt: Annotated[bool, typer.Option("--adopt", help="What somebody edited belongs to the Delivery.")] = False,
    discard: Annotated[bool, typer.Option("--discard", help="What somebody edited is put back.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what became of an effect whose end nobody saw, or of a worktree that somebody edited."""
    from runner.cli import saying

    flags = {
        "happened": happened is not None,
        "did-not-happen": did_not_happen,
        "abandon": abandon,
        "adopt": adopt,
        "discard": discard,
    }
    said = [name for name, given in flags.items() if given]
    if len(said) != 1:
        raise typer.BadParameter("say exactly one of --happened VALUE, --did-not-happen, --abandon, --adopt, --discard")
    named = explicit_config(ctx, config)
    spoken = saying.Spoken(find_config(ctx, config), delivery, named, as_json=as_json)
    raise typer.Exit(saying.resolve(spoken, call, said[0], happened))


def verify(
    ctx: typer.Context, delivery: DeliveryArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Look at everything that is recorded of a Delivery again, and say what was looked at."""
    from runner.cli import inspecting

    raise typer.Exit(inspecting.verify(find_config(ctx, config), delivery, as_json=as_json))


def takeover(
    ctx: typer.Context,
    delivery: DeliveryArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """End the process that drives a Delivery, and all that it started, so that another can go on."""
    from runner.cli import saying

    named = explicit_config(ctx, config)
    spoken = saying.Spoken(find_config(ctx, config), delivery, named, as_json=as_json)
    raise typer.Exit(saying.takeover(spoken, yes=yes))
