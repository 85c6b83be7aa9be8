"""The door: ``runner``. Names the commands and turns whatever they raise into a message and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from runner.cli import (
    attention_commands,
    delivery_commands,
    kept_commands,
    origin_commands,
    package_commands,
    setup_commands,
)
from runner.cli.options import ConfigOption

app = typer.Typer(
    name="runner",
    help="Carries out one agent workflow over a git worktree: killable anywhere, settling the same.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for family in (setup_commands, package_commands, delivery_commands, attention_commands, kept_commands, origin_commands):
    family.register(app)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        from runner.cli.terminal import write_lines

        write_lines([f"runner {metadata.version('m02-runner')}"])
        raise typer.Exit


@app.callback()
def root(
    config: ConfigOption = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Carries out one agent workflow over a git worktree: killable anywhere, settling the same."""


def main() -> None:
    """The console script."""
    from runner.cli.streams import prepare

    output = prepare()
    code = run(sys.argv[1:])
    output.flush()
    if output.failure is not None:
        from runner.cli.failures import show_unprinted

        show_unprinted(output.failure)
        code = code or 5
    sys.exit(code)


def run(argv: Sequence[str], platform: str = sys.platform) -> int:
    """One command line -> its exit code. Raises nothing."""
    from runner.contract.errors import RunnerError

    # Read here too, because a failure may come before the command has parsed its options.
    as_json = "--json" in argv
    if platform == "win32":
        return _refuse_windows(as_json=as_json)
    try:
        code = app(args=list(argv), standalone_mode=False)
    except RunnerError as error:
        from runner.cli.exit_codes import of_error
        from runner.cli.failures import show_error

        show_error(error, as_json=as_json)
        return int(of_error(error))
    except BrokenPipeError:
        return _reader_gone()
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except OSError as error:
        return _machine_refused(error, as_json=as_json)
    except Exception as error:  # the outermost boundary: nothing a user can type yields a traceback
        return _unexpected(error, as_json=as_json)
    return int(code or 0)


def _unexpected(error: Exception, *, as_json: bool) -> int:
    """click's own errors show themselves (usage); anything else is a mistake of ours."""
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if callable(show) and isinstance(code, int):
        if as_json:
            from runner.cli.terminal import write_json

            message = getattr(error, "format_message", error.__str__)()
            write_json(
                {"error": {"family": "caller", "code": "usage", "message": message, "findings": [], "remedy": ""}}
            )
        else:
            show()
        return code
    from runner.cli.failures import DEBUG, show_internal

    show_internal(error, as_json=as_json, full=os.environ.get(DEBUG) == "1")
    return 4


def _machine_refused(error: OSError, *, as_json: bool) -> int:
    """What no room translated: a path that cannot be one is the caller's, anything else the machine's."""
    from runner.cli.exit_codes import of_error
    from runner.cli.failures import refusal_of, show_error

    refusal = refusal_of(error)
    show_error(refusal, as_json=as_json)
    return int(of_error(refusal))


def _refuse_windows(*, as_json: bool) -> int:
    from runner.cli.failures import show_error
    from runner.contract.errors import Code, EnvironmentFault

    show_error(
        EnvironmentFault(
            Code.PLATFORM_UNSUPPORTED, "Windows is not supported", remedy="use Linux, macOS, or Linux inside WSL"
        ),
        as_json=as_json,
    )
    return 5


def _reader_gone() -> int:
    """Whoever read our output (``| head``) has seen enough; the interpreter must not complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
