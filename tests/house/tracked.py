"""What no tracked file may say: the host of a package registry, or a path of somebody's machine.

A lock file with hosts installs only where those hosts are reached; a path of one machine is wrong on every other. The
forbidden words are put together here from parts, so that this file may be tracked too.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.house.source import Breach, tracked

_HOSTS: Final = [
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("pypi", "python", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("yarnpkg", "com"),
    ("crates", "io"),
    ("proxy", "golang", "org"),
    ("deb", "debian", "org"),
    ("security", "debian", "org"),
    ("rubygems", "org"),
    ("maven", "org"),
]
REGISTRY: Final = re.compile("|".join(r"\b" + r"\.".join(parts) + r"\b" for parts in _HOSTS), re.IGNORECASE)
INDEX_OPTION: Final = re.compile(r"--(extra-)?" + r"index-url|--find" + r"-links|^\s*-[if] \S+:/", re.MULTILINE)
_HOMES: Final = [
    r"ro" r"ot/",
    r"ho" r"me/(?!(?:u|me|user)/)[A-Za-z][\w.-]*/",
    r"Us" r"ers/(?!(?:u|me|user)/)[A-Za-z][\w.-]*/",
]
"""Home directories; nobody in particular may be called u, me or user."""
MACHINE_PATH: Final = re.compile(r"(?<![\w.$~}/-])/(?:" + "|".join(_HOMES) + ")")


def breaches(tree: Path) -> Iterator[Breach]:
    """Every line of a tracked file under ``tree`` that names a registry or a place on one machine."""
    here = re.compile(re.escape(str(tree.resolve())) + r"\b")
    for path, text in tracked(tree):
        for number, line in enumerate(text.splitlines(), 1):
            place = f"{path}:{number}"
            if REGISTRY.search(line):
                yield Breach(
                    place=place, rule="names a package registry", fix="write what to install, never from where"
                )
            if INDEX_OPTION.search(line) and path.startswith("requirements/"):
                yield Breach(place=place, rule="chooses a package index", fix="leave that to the machine: make lock")
            if MACHINE_PATH.search(line) or here.search(line):
                yield Breach(place=place, rule="names a path of one machine", fix="use a relative or a made-up path")
