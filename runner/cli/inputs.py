"""What stands behind ``--input``: words of the command line -> values. Reads the files that are named."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.admission.regular_file import read_regular
from runner.contract.canonical import FrozenJson, parse
from runner.contract.errors import CallerError, Code

INPUT_BYTES_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """``texts`` are typed later, by the package's schema; ``values`` are what they are."""

    texts: Mapping[str, str]
    values: Mapping[str, FrozenJson]


def parse_inputs(words: Sequence[str]) -> Inputs:
    """``k=TEXT``, ``k=@FILE`` (its text), ``k:=JSON``, or ``@FILE`` for a whole JSON object. ``CallerError(input-invalid)``
    for another form, a key given twice, or a file that cannot be read."""
    texts: dict[str, str] = {}
    values: dict[str, FrozenJson] = {}
    for word in words:
        found = _parsed(word)
        for key in {**found.texts, **found.values}:
            if key in texts or key in values:
                raise _invalid(f"the input {key!r} is given twice", "give it once")
        texts |= found.texts
        values |= found.values
    return Inputs(texts=texts, values=values)


def _parsed(word: str) -> Inputs:
    if word.startswith("@"):
        whole = _json(_text(word[1:]), word[1:])
        if not isinstance(whole, Mapping):
            raise _invalid(f"{word[1:]} does not hold a JSON object", "write the inputs as one object")
        return Inputs(texts={}, values=whole)
    key, equals, rest = word.partition("=")
    if not equals or not key.removesuffix(":"):
        raise _invalid(f"--input {word!r} is not of the form NAME=VALUE", "write NAME=TEXT, NAME=@FILE or NAME:=JSON")
    if key.endswith(":"):
        return Inputs(texts={}, values={key[:-1]: _json(rest, word)})
    return Inputs(texts={key: _text(rest[1:]) if rest.startswith("@") else rest}, values={})


def _json(text: str, place: str) -> FrozenJson:
    try:
        return parse(text)
    except ValueError as error:
        raise _invalid(f"{place}: not JSON: {error}", "correct it, or give it as text with NAME=TEXT") from None


def _text(name: str) -> str:
    try:
        return read_regular(Path(name), INPUT_BYTES_MAX).decode()
    except OSError as error:
        raise _invalid(
            f"the file {name!r:.300} cannot be read: {error.strerror or error}",
            "name a file that exists, or give the text itself",
        ) from None
    except UnicodeDecodeError:
        raise _invalid(f"{name} is not UTF-8 text", "convert it to UTF-8") from None


def _invalid(message: str, remedy: str) -> CallerError:
    return CallerError(Code.INPUT_INVALID, message, remedy=remedy)
