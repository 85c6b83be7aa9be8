"""What stands behind ``--input`` and ``--bind``: words of the command line -> values. Reads the files that are named."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.contract.canonical import FrozenJson, parse
from runner.contract.errors import CallerError, Code

INPUT_BYTES_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """``role=provider:model``. The model may itself hold ``:`` and ``=``."""

    role: str
    provider: str
    model: str


def parse_bindings(words: Sequence[str]) -> tuple[Binding, ...]:
    """``CallerError(binding-invalid)`` for a word of another form or a role that is bound twice."""
    bindings: dict[str, Binding] = {}
    for word in words:
        role, equals, rest = word.partition("=")
        provider, colon, model = rest.partition(":")
        if not (equals and colon and role and provider and model):
            raise CallerError(
                Code.BINDING_INVALID,
                f"--bind {word!r} is not of the form ROLE=PROVIDER:MODEL",
                remedy="for example --bind coder=openai:gpt-5",
            )
        if role in bindings:
            raise CallerError(
                Code.BINDING_INVALID, f"the role {role!r} is bound twice", remedy="keep one --bind for each role"
            )
        bindings[role] = Binding(role=role, provider=provider, model=model)
    return tuple(bindings.values())


def parse_inputs(words: Sequence[str]) -> dict[str, FrozenJson]:
    """``k=text``, ``k=@FILE`` (its text; its value if it ends in ``.json``), ``k:=JSON``, or ``@FILE.json`` for a whole
    object. ``CallerError(input-invalid)`` for another form, a key given twice, or a file that cannot be read."""
    values: dict[str, FrozenJson] = {}
    for word in words:
        for key, value in _parsed(word).items():
            if key in values:
                raise _invalid(f"the input {key!r} is given twice", "give it once")
            values[key] = value
    return values


def _parsed(word: str) -> dict[str, FrozenJson]:
    if word.startswith("@"):
        whole = _json(_text(word[1:]), word)
        if not isinstance(whole, Mapping):
            raise _invalid(f"{word[1:]} does not hold a JSON object", "write the inputs as one object")
        return dict(whole)
    key, equals, rest = word.partition("=")
    if not equals or not key or key == ":":
        raise _invalid(f"--input {word!r} is not of the form NAME=VALUE", "write NAME=TEXT, NAME=@FILE or NAME:=JSON")
    if key.endswith(":"):
        return {key[:-1]: _json(rest, word)}
    if rest.startswith("@"):
        text = _text(rest[1:])
        return {key: _json(text, rest) if rest.endswith(".json") else text}
    return {key: rest}


def _json(text: str, place: str) -> FrozenJson:
    try:
        return parse(text)
    except ValueError as error:
        raise _invalid(f"{place}: not JSON: {error}", "correct it, or give it as text with NAME=TEXT") from None


def _text(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            data = file.read(INPUT_BYTES_MAX + 1)
        if len(data) > INPUT_BYTES_MAX:
            raise _invalid(f"{name} is larger than {INPUT_BYTES_MAX} bytes", "give a smaller file")
        return data.decode()
    except OSError as error:
        raise _invalid(f"{name} cannot be read: {error.strerror}", "name a file that exists") from None
    except UnicodeDecodeError:
        raise _invalid(f"{name} is not UTF-8 text", "convert it to UTF-8") from None


def _invalid(message: str, remedy: str) -> CallerError:
    return CallerError(Code.INPUT_INVALID, message, remedy=remedy)
