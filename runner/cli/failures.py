"""How a failure looks: code, message, every finding with its place, and what to do; never a traceback."""

import errno
import sys
import traceback
from typing import Any, Final

from runner.cli.terminal import Line, write_json, write_lines
from runner.contract.errors import CallerError, Code, EnvironmentFault, RunnerError

DEBUG = "RUNNER_DEBUG"
FINDINGS_SHOWN_MAX: Final = 50
"""What a person reads at once; a file of nonsense can have twenty thousand."""


def document_of(error: RunnerError) -> dict[str, Any]:
    """The error as it stands in ``--json`` output."""
    return {
        "error": {
            "family": error.family,
            "code": str(error.code),
            "message": error.message,
            "findings": [{"place": f.place, "problem": f.problem, "fix": f.fix} for f in error.findings],
            "remedy": error.remedy,
        }
    }


def lines_of(error: RunnerError) -> list[Line]:
    """The error for people."""
    lines: list[Line] = [(f"error[{error.code}]: {error.message}", "red")]
    for finding in error.findings[:FINDINGS_SHOWN_MAX]:
        lines.append(f"  {finding.place}: {finding.problem}")
        if finding.fix:
            lines.append((f"    fix: {finding.fix}", "cyan"))
    if len(error.findings) > FINDINGS_SHOWN_MAX:
        lines.append(f"  ... and {len(error.findings) - FINDINGS_SHOWN_MAX} more; --json lists them all")
    if error.remedy:
        lines.append((f"  what to do: {error.remedy}", "cyan"))
    return lines


def refusal_of(error: OSError) -> RunnerError:
    """An error of the operating system in our words."""
    named = f"{str(error.filename)!r:.300}: " if error.filename is not None else ""
    message = f"{named}{error.strerror or error}"
    if error.errno in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL):
        return CallerError(Code.USAGE, message, remedy="name another path")
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free some space, then try again" if full else "check its owner and rights, then try again"
    return EnvironmentFault(Code.DISK_FULL if full else Code.STATE_UNWRITABLE, message, remedy=remedy)


def show_error(error: RunnerError, *, as_json: bool) -> None:
    """On stderr for people, as the one document on stdout for scripts."""
    if as_json:
        write_json(document_of(error))
    else:
        write_lines(lines_of(error), stderr=True)


def show_unprinted(failure: OSError) -> None:
    """What was done is done; only its result could not be printed."""
    lines: list[Line] = [
        (
            f"error[{Code.STATE_UNWRITABLE}]: the standard output cannot be written: {failure.strerror or failure}",
            "red",
        ),
        ("  what to do: give the output a place to go, then ask again; nothing is done twice", "cyan"),
    ]
    write_lines(lines, stderr=True)


def show_internal(error: BaseException, *, as_json: bool, full: bool) -> None:
    """A mistake of ours: one line and how to report it; with ``full`` (RUNNER_DEBUG=1) the traceback too."""
    what = f"{type(error).__name__}: {error}"
    if as_json:
        write_json({"error": {"family": "internal", "code": "internal", "message": what, "findings": [], "remedy": ""}})
    write_lines(
        [
            (f"error[internal]: {what}", "red"),
            f"  This is a mistake in the Runner. Please report it with the output of the same command and {DEBUG}=1.",
        ],
        stderr=True,
    )
    if full:
        traceback.print_exception(error, file=sys.stderr)
