"""One row of bad input: what is done, and how it is refused."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Ground:
    """Where a row is prepared: the working directory, a repository with one commit on ``main``, the state root."""

    here: Path
    repo: Path
    state: Path
    run: Callable[..., object]
    """``runner`` with these words, for rows that need a Delivery."""


def _nothing(_: Ground) -> None:
    """The default preparation."""


@dataclass(frozen=True, kw_only=True)
class Bad:
    """``words`` is a command line in which ``REPO`` and ``HOME`` stand for those; ``touch.yaml`` is a good package."""

    words: str
    code: str
    place: str
    """What the message must name."""
    exit: int = 2
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """Written into the working directory first."""
    prepare: Callable[[Ground], None] = _nothing
    process: bool = False
    """Whether it is tried in a process of its own as well."""

    def argv(self, ground: Ground) -> list[str]:
        """The words, split."""
        places = {"REPO": ground.repo, "HOME": ground.here.parent}
        return [_filled(word, places) for word in shlex.split(self.words)]


def _filled(word: str, places: Mapping[str, Path]) -> str:
    for name, path in places.items():
        word = word.replace(name, str(path))
    return word
