"""YAML 1.2 (or JSON) text -> a plain value in which every part knows its line.

Only the JSON-like core of YAML is taken: one document, no tags, no anchors, no aliases, no duplicate keys. Plain scalars follow
the YAML 1.2 core schema, so ``on``, ``yes`` and ``12:30`` are strings; keys are always the text as written, so a case named
``true`` or ``1`` is what it looks like. The parser's events are read without recursion, and depth and size are bounded before
anything is built.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from runner.contract import limits
from runner.contract.canonical import DEPTH_MAX, INTEGER_MAX
from runner.contract.errors import Finding

Path = tuple[str | int, ...]

_NULL: Final = re.compile(r"|~|null|Null|NULL")
_BOOL: Final = re.compile(r"(true|True|TRUE)|false|False|FALSE")
_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_JSON: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed file. ``value`` is plain (dict, list, scalars); ``lines`` has the line of every part by its path."""

    name: str
    """How the file is called in findings."""
    value: Any
    lines: dict[Path, int]
    """Of the key, for what stands in a map."""

    def place(self, path: Sequence[str | int]) -> str:
        """``file:line`` of ``path``, or of the nearest part around it that exists."""
        known = tuple(path)
        while known and known not in self.lines:
            known = known[:-1]
        return f"{self.name}:{self.lines.get(known, 1)}"

    def nearest(self, base: Path, parts: Sequence[str]) -> Path:
        """``base`` and below it ``parts``, those left out that the document does not have."""
        known = base
        for part in parts:
            for step in (part, int(part)) if part.isdecimal() else (part,):
                if (*known, step) in self.lines:
                    known = (*known, step)
                    break
        return known


def read_document(data: bytes, name: str) -> tuple[Document | None, tuple[Finding, ...]]:
    """``data`` parsed, and what is wrong with it as YAML. After a syntax error there is no document; duplicate keys and
    numbers that JSON does not have leave one, so that the rest can be judged in the same pass."""
    builder = _Builder(name)

    def refuse(line: int, problem: str, fix: str) -> tuple[None, tuple[Finding, ...]]:
        return None, (*builder.findings, Finding(place=f"{name}:{line}", problem=problem, fix=fix))

    if len(data) > limits.PACKAGE_BYTES_MAX:
        return refuse(1, f"is larger than {limits.PACKAGE_BYTES_MAX} bytes", "split the workflow")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return refuse(data[: error.start].count(b"\n") + 1, "is not UTF-8 text", "save it as UTF-8")
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except _Refused as error:
        return refuse(error.line, error.problem, error.fix)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        return refuse(line, f"is not YAML: {error.problem}", "check indentation, quotes and brackets")
    except (YAMLError, ValueError, RecursionError) as error:
        return refuse(1, f"is not YAML: {str(error).splitlines()[0][:200]}", "check it with an editor")
    if not builder.begun:
        return refuse(1, "is empty", "write a workflow")
    return Document(name=name, value=builder.value, lines=builder.lines), tuple(builder.findings)


class _Refused(Exception):
    """Something after which reading on makes no sense."""

    def __init__(self, line: int, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.line, self.problem, self.fix = line, problem, fix


@dataclass(slots=True)
class _Open:
    """A map or a list that is being filled."""

    path: Path
    value: dict[str, Any] | list[Any]
    key: str | None = None
    key_line: int = 0


class _Builder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.value: Any = None
        self.begun = False
        self.lines: dict[Path, int] = {}
        self.findings: list[Finding] = []
        self._open: list[_Open] = []

    def take(self, event: Event) -> None:
        line = event.start_mark.line + 1
        match event:
            case DocumentStartEvent():
                if self.begun:
                    raise _Refused(line, "a second document begins here", "keep one workflow per file")
                if event.version not in (None, (1, 2)):
                    raise _Refused(line, "only YAML 1.2 is read", "remove the %YAML line")
                self.begun = True
            case AliasEvent():
                raise _Refused(line, f"'*{event.anchor}': aliases are not part of the language", "write the value out")
            case MappingStartEvent() | SequenceStartEvent():
                self._plain(event, line)
                self._begin({} if isinstance(event, MappingStartEvent) else [], line)
            case MappingEndEvent() | SequenceEndEvent():
                self._open.pop()
            case ScalarEvent():
                self._plain(event, line)
                self._scalar(event, line)
            case _:
                return

    def _plain(self, event: Any, line: int) -> None:
        if event.anchor is not None:
            raise _Refused(line, f"'&{event.anchor}': anchors are not part of the language", "remove it")
        if event.tag is not None:
            raise _Refused(line, f"'{event.tag}': tags are not part of the language", "remove it")

    def _begin(self, value: dict[str, Any] | list[Any], line: int) -> None:
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is None:
            raise _Refused(line, "a key must be text", "use a plain word as the key")
        if len(self._open) >= DEPTH_MAX:
            raise _Refused(line, f"is nested deeper than {DEPTH_MAX}", "make it flatter")
        self._open.append(_Open(self._put(value, line), value))

    def _scalar(self, event: Any, line: int) -> None:
        top = self._open[-1] if self._open else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            top.key, top.key_line = self._key(top.value, event.value, line), line
            return
        try:
            value = _text(event.value) if event.style else _core(_text(event.value))
        except ValueError as error:
            self._find(line, str(error), "put it in quotes if it is text")
            value = None
        self._put(value, line)

    def _key(self, siblings: dict[str, Any], key: str, line: int) -> str:
        if key == "<<":
            raise _Refused(line, "'<<': merging is not part of the language", "write the keys out")
        try:
            _text(key)
        except ValueError as error:
            raise _Refused(line, str(error), "write the key in plain characters") from None
        if key in siblings:
            self._find(line, f"the key {key!r} stands twice", "remove one")
        return key

    def _put(self, value: Any, line: int) -> Path:
        """Stores ``value`` where the reader is and returns its path."""
        if not self._open:
            self.value, self.lines[()] = value, line
            return ()
        top = self._open[-1]
        if isinstance(top.value, list):
            path: Path = (*top.path, len(top.value))
            top.value.append(value)
        else:
            key, top.key = str(top.key), None
            path, line = (*top.path, key), top.key_line
            top.value[key] = value
        self.lines[path] = line
        return path

    def _find(self, line: int, problem: str, fix: str) -> None:
        self.findings.append(Finding(place=f"{self.name}:{line}", problem=problem, fix=fix))


def _text(text: str) -> str:
    """``text``, if UTF-8 has it; an escape such as ``\\ud800`` can write half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text[:30]!r} holds half a character (a lone surrogate)") from None
    return text


def _core(text: str) -> Any:
    """A plain scalar by the YAML 1.2 core schema; ``ValueError`` for numbers that JSON does not have."""
    if _NULL.fullmatch(text):
        return None
    if boolean := _BOOL.fullmatch(text):
        return boolean[1] is not None
    if _INT.fullmatch(text):
        if len(text) > 20:
            raise ValueError(f"{text[:30]}… is beyond 2^53 - 1")
        number = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if abs(number) > INTEGER_MAX:
            raise ValueError(f"{text} is beyond 2^53 - 1")
        return number
    if _NOT_JSON.fullmatch(text):
        raise ValueError(f"{text} is not a JSON number")
    if _FLOAT.fullmatch(text):
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise ValueError(f"{text} is not a JSON number")
        return value
    return text
