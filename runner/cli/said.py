"""What a person said, as words: values of answers and resolutions, and who it was. Pure, but for ``who``."""

import os
import pwd
import socket
from collections.abc import Mapping
from typing import Final

from runner.contract.canonical import FrozenJson, freeze, parse
from runner.contract.errors import CallerError, Code
from runner.contract.outcomes import OpenWait

_JSON_BEGINS: Final = ("{", "[", '"')


def value_of(word: str) -> FrozenJson:
    """``word`` as JSON; any other text stands for itself. What begins as JSON and is none is a slip: ``CallerError``
    (``answer-invalid``)."""
    try:
        return parse(word)
    except ValueError as error:
        if word.lstrip().startswith(_JSON_BEGINS):
            raise CallerError(
                Code.ANSWER_INVALID, f"{word[:100]!r} is not JSON: {error}", remedy="correct it; nothing was recorded"
            ) from None
        return word


def with_comment(wait: OpenWait, value: FrozenJson, comment: str | None) -> FrozenJson:
    """``value`` with the comment in it. ``CallerError`` (``answer-invalid``) when it has no place there."""
    if comment is None:
        return value
    if isinstance(value, str) and wait.outcome is not None:
        return freeze({wait.outcome: value, "comment": comment})
    if isinstance(value, Mapping) and "comment" not in value:
        return freeze({**value, "comment": comment})
    raise CallerError(
        Code.ANSWER_INVALID,
        f"an answer to wait {wait.wait} that is not an object, or has a comment already, takes no --comment",
        remedy="leave --comment out, or give the whole answer as one JSON object",
    )


def who() -> str:
    """The user of this process, for the record. Never from the environment, which anybody may set."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"user {os.getuid()}"
    return f"{name} on {socket.gethostname()}"
