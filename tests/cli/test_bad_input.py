"""Whatever a person can get wrong: one clear message with the place, the right exit code, nothing written, no traceback."""

import hashlib
from pathlib import Path

import pytest

from tests.cli import world
from tests.cli.bad import Bad, Ground
from tests.cli.bad_packages import GOOD, PACKAGES
from tests.cli.bad_places import PLACES
from tests.cli.bad_words import WORDS
from tests.cli.conftest import Answer, CommandLine

FAMILIES = {2: ("caller", "provider"), 4: ("integrity",), 5: ("environment",)}
TABLES = {"package": PACKAGES, "words": WORDS, "places": PLACES}
ROWS = {f"{table}: {name}": bad for table, rows in TABLES.items() for name, bad in rows.items()}


@pytest.mark.parametrize("name", ROWS)
def test_bad_input(runner: CommandLine, name: str) -> None:
    """For people on stderr, for scripts as the one document on stdout."""
    bad = ROWS[name]
    ground = prepared(runner, bad)
    argv = bad.argv(ground)
    before = fingerprint(runner.home)
    judge_shown(bad, runner(*argv))
    judge_scripted(bad, runner(*argv, "--json"))
    if bad.process:
        judge_shown(bad, runner.python("-m", "runner.cli", *argv))
    assert fingerprint(runner.home) == before


def prepared(runner: CommandLine, bad: Bad) -> Ground:
    ground = Ground(here=runner.here, repo=world.repository(runner.home / "repo"), state=runner.state, run=runner)
    for file, content in {"touch.yaml": GOOD, **bad.files}.items():
        data = content if isinstance(content, bytes) else content.encode()
        (runner.here / file).write_bytes(data.replace(b"HERE", str(runner.here).encode()))
    bad.prepare(ground)
    return ground


def judge_shown(bad: Bad, shown: Answer) -> None:
    assert (shown.code, shown.out) == (bad.exit, ""), shown
    assert shown.err.startswith(f"error[{bad.code}]: "), shown
    assert bad.place in shown.err, shown
    assert shown.err.count("error[") == 1 and "what to do: " in shown.err, shown


def judge_scripted(bad: Bad, scripted: Answer) -> None:
    assert (scripted.code, scripted.err) == (bad.exit, ""), scripted
    error = scripted.document["error"]
    assert set(error) == {"family", "code", "message", "findings", "remedy"}
    assert error["family"] in FAMILIES[bad.exit] and error["code"] == bad.code
    places = [error["message"], *(f"{f['place']}: {f['problem']}" for f in error["findings"])]
    assert any(bad.place in place for place in places), places


def fingerprint(home: Path) -> dict[str, str]:
    """Every file, link and directory below ``home``: the working directory, the repository, the state root. Not SQLite's own
    shared memory, which reading a ledger touches."""
    found = {}
    for path in sorted(home.rglob("*")):
        mode = path.lstat().st_mode
        if path.is_symlink():
            what = str(path.readlink())
        elif path.is_file():
            what = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            what = ""
        if not path.name.endswith(("-shm", "-wal")):
            found[str(path.relative_to(home))] = f"{mode:o} {what}"
    return found
