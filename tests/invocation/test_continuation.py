"""Killed anywhere in a session, it goes on where it was: nothing that answered is asked again, nothing that returned runs
again, nothing that is uncertain is guessed, and in the end nobody can tell."""

from collections import Counter
from pathlib import Path

from runner.contract import recording
from runner.contract.canonical import freeze
from runner.contract.ports import Completed
from tests.invocation.fakes import GOOD
from tests.invocation.lives import CALLS, Life

UNSEEN = ("before the request", "after the answer", "before model.responded")
"""Boundaries at which an answer is lost, or may be."""


PAIRS = [(n, again) for n in range(1, 112, 14) for again in (2, 9)]


async def lived(tmp: Path, *deaths: int, record: bool = False) -> tuple[Life, list[str], list[str]]:
    """An episode with these deaths, at its end; where it died, and what was uncertain then."""
    tmp.mkdir()
    life = Life(tmp, record=record)
    said, causes, uncertain = await life.to_the_end(*deaths)
    assert said == Completed(value=freeze(GOOD)), (causes, said)
    life.delivery.close()
    return life, causes, uncertain


def the_same(life: Life, whole: Life, causes: list[str]) -> None:
    """Nobody can tell that it died, but by how often the endpoint was asked what it had no chance to answer."""
    assert life.told == whole.told, causes
    assert life.files() == whole.files(), causes
    assert life.outside.sent == whole.outside.sent, causes
    assert life.outside.notes == whole.outside.notes, causes
    lost = sum(cause.startswith(UNSEEN) for cause in causes)
    assert sum(life.outside.asked.values()) <= len(CALLS) + lost, (causes, life.outside.asked)


def recorded(life: Life) -> dict[int, tuple[str, object]]:
    """The recording's turns: what was asked, and what came of it but for how the endpoint called the end."""
    assert life.delivery.recordings is not None
    path = life.delivery.recordings / "code.1.jsonl"
    turns = recording.read(path.read_bytes(), str(path)).turns
    return {n: (t.line.digest, t.events[:-1]) for n, t in turns.items()}


async def test_killed_at_every_boundary(tmp_path: Path) -> None:
    """Before and after every entry and every effect: the same completion, transcript and files; every effect outside once;
    every answer recorded once. Only effects outside whose end nobody saw were ever uncertain."""
    whole, _, doubts = await lived(tmp_path / "whole")
    assert doubts == []
    boundaries = list(whole.doom.reached)
    uncertain: Counter[str] = Counter()
    for n, boundary in enumerate(boundaries, 1):
        life, causes, doubts = await lived(tmp_path / str(n), n)
        assert causes == [boundary]
        the_same(life, whole, causes)
        uncertain.update(whole.told[f"{call} tool"][0] for call in doubts)
    print(f"\n{len(boundaries)} boundaries, uncertain: {dict(uncertain)}")
    assert uncertain == {"mail": 8, "ping": 4}


async def test_killed_twice(tmp_path: Path) -> None:
    """And once more while it goes through what it had done; the recording is whole, whatever stood in the file."""
    whole, _, _ = await lived(tmp_path / "whole", record=True)
    for n, again in PAIRS:
        life, causes, _ = await lived(tmp_path / f"{n}.{again}", n, again, record=True)
        the_same(life, whole, causes)
        assert recorded(life) == recorded(whole), causes
