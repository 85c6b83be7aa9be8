"""The measurable part of the house style: sizes, names, and what never stands in a finished file."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.house.source import Breach, Module, modules

FILE_LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 70
SAYS_NOTHING: Final = re.compile(r"(^|/)(utils?|helpers?|common|base|manager|misc)(\.py|/)")
UNFINISHED: Final = re.compile(r"\b(" + "|".join(("TODO", "FIXME", "HACK")) + r")\b")
BARE_SILENCE: Final = re.compile(r"# (type: ignore(?!\[)|noqa(?!:))")


def breaches(tree: Path) -> Iterator[Breach]:
    """Every place in the four packages that does not keep the house style."""
    for module in modules(tree):
        yield from _of_file(module)
        yield from _of_syntax(module)


def _of_file(module: Module) -> Iterator[Breach]:
    lines = module.text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield Breach(
            place=module.path, rule=f"{len(lines)} lines", fix="which two questions does it answer? Split there."
        )
    if SAYS_NOTHING.search(module.path):
        yield Breach(place=module.path, rule="a name that says nothing", fix="name the question that the file answers")
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield Breach(place=f"{module.path}:{number}", rule="unfinished", fix="finish it, or refuse it with a code")
        if BARE_SILENCE.search(line):
            yield Breach(place=f"{module.path}:{number}", rule="silences everything", fix="name the rule in brackets")


def _of_syntax(module: Module) -> Iterator[Breach]:
    for node in ast.walk(module.tree):
        place = f"{module.path}:{getattr(node, 'lineno', 1)}"
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > FUNCTION_LINES_MAX:
                    yield Breach(place=place, rule=f"{name} has {size} lines", fix="separate deciding from acting")
            case ast.ExceptHandler(body=[ast.Pass()]) if not _says_why(module, node):
                yield Breach(place=place, rule="an exception swallowed", fix="act on it, or say in a comment why not")
            case ast.Raise(exc=ast.Name(id="NotImplementedError") | ast.Call(func=ast.Name(id="NotImplementedError"))):
                yield Breach(place=place, rule="a stub", fix="refuse what is not built with a coded error")


def _says_why(module: Module, node: ast.ExceptHandler) -> bool:
    """Whether a comment stands inside the handler."""
    lines = module.text.splitlines()[node.lineno : node.end_lineno]
    return any("#" in line for line in lines)
