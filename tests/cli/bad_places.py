"""Configs, repositories and stored files that are refused."""

import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.cli import world
from tests.cli.bad import Bad, Ground
from tests.cli.bad_words import FILES

RUN = "run touch.yaml --repo REPO"
OPENAI = "[providers.openai]\nsettings = { base_url = 'http://127.0.0.1:1/v1' }\n"
BIND = "--config c.toml run roles.yaml --repo REPO --input task=x --input n=1 --bind coder=openai:m"


def config(text: str | bytes, place: str, code: str = "config-invalid", *, name: str = "c.toml", **more: Any) -> Bad:
    return Bad(words=f"--config {name} {RUN}", code=code, place=place, files={name: text}, **more)


def secret(text: str, place: str, **more: Any) -> Bad:
    """A credential that cannot be read."""
    files = {**FILES, "c.toml": OPENAI + text}
    return Bad(words=BIND, code="secret-unreadable", place=place, files=files, **more)


def place(prepare: Callable[[Ground], None], place: str, words: str = RUN, **more: Any) -> Bad:
    """A repository."""
    return Bad(words=words, place=place, prepare=prepare, **{"code": "repository-invalid", **more})


def _open_key(ground: Ground) -> None:
    (ground.here / "key").write_text("sk-x")
    (ground.here / "key").chmod(0o644)


def _directory(ground: Ground) -> None:
    (ground.here / "c.toml").mkdir()


def _pipe(ground: Ground) -> None:
    os.mkfifo(ground.here / "c.toml")


def _git(*words: str) -> Callable[[Ground], None]:
    def prepare(ground: Ground) -> None:
        subprocess.run(["git", "init", "-q", *words, str(ground.here / "other")], check=True)

    return prepare


def _sha256(ground: Ground) -> None:
    _git("--object-format=sha256")(ground)
    (ground.here / "other" / "a").touch()
    world.git(ground.here / "other", "add", ".")
    world.git(ground.here / "other", "commit", "-qm", "one")


def _plain(ground: Ground) -> None:
    (ground.here / "other").mkdir()


def _dangling(ground: Ground) -> None:
    _plain(ground)
    (ground.here / "other" / ".git").write_text("gitdir: /nonexistent\n")


def _dirty(ground: Ground) -> None:
    (ground.repo / "one.txt").write_text("mine")
    (ground.repo / "n\N{LATIN SMALL LETTER E WITH ACUTE}w \x1b file").touch()


def _merging(ground: Ground) -> None:
    world.git(ground.repo, "checkout", "-qb", "other")
    _commit(ground.repo, "theirs")
    world.git(ground.repo, "checkout", "-q", "main")
    _commit(ground.repo, "ours")
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run(["git", "-C", str(ground.repo), *who, "merge", "-q", "other"], check=False, capture_output=True)


def _commit(repo: Path, text: str) -> None:
    (repo / "one.txt").write_text(text)
    world.git(repo, "commit", "-qam", text)


def _filtered(ground: Ground) -> None:
    (ground.repo / ".gitattributes").write_text("*.txt filter=lfs\n")
    world.git(ground.repo, "add", ".")
    world.git(ground.repo, "commit", "-qm", "lfs")


def _broken_config(ground: Ground) -> None:
    (ground.repo / ".git" / "config").write_text("[broken")


def _no_objects(ground: Ground) -> None:
    for path in (ground.repo / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.unlink()


# --- what is stored --------------------------------------------------------------------------------------------------


def _admit(ground: Ground) -> Path:
    ground.run("admit", "touch.yaml", "--repo", str(ground.repo), "--id", "d1", "-o", "d1.json")
    return ground.here / "d1.json"


def activation(change: Callable[[bytes], bytes], place: str, code: str = "activation-invalid", **more: Any) -> Bad:
    """An activation that was admitted, and then changed."""

    def prepare(ground: Ground) -> None:
        file = _admit(ground)
        file.write_bytes(change(file.read_bytes()))

    return Bad(words="execute d1.json", code=code, place=place, prepare=prepare, **more)


def _activation_pipe(ground: Ground) -> None:
    os.mkfifo(ground.here / "d1.json")


def ledger(words: str, damage: Callable[[Path], None], **more: Any) -> Bad:
    """A Delivery whose ledger does not hold."""

    def prepare(ground: Ground) -> None:
        ground.run("run", "touch.yaml", "--repo", str(ground.repo), "--id", "d1")
        damage(ground.state / "deliveries" / "d1" / "ledger.sqlite")

    return Bad(words=words, exit=4, code="ledger-corrupt", place="d1/ledger.sqlite", prepare=prepare, **more)


def _text(file: Path) -> None:
    file.write_text("hello")


def _half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: 4096 * 3])


def _gone(file: Path) -> None:
    file.unlink()


def _edited(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("UPDATE records SET payload = replace(payload, 'completed', 'cancelled') WHERE seq > 1")


EXECUTE = "execute HOME/.local/state/runner/activations/d1.json"

PLACES = {
    "an unknown key": config("prority = 1\n", "prority"),
    "a wrong type": config("engine = 3\n[concurrency]\nsteps = 'x'\n", "concurrency.steps", process=True),
    "a relative state root": config("state_root = 'x'\n", "state_root"),
    "a state root of nobody": config("state_root = '~nobody-of-that-name/x'\n", "state_root"),
    "a provider twice": config("[providers.recorded]\n[providers.recorded]\n", "'recorded'", process=True),
    "a provider twice in JSON": config(
        '{"providers": {"recorded": {}, "recorded": {}}}', "'recorded' stands twice", name="c.json"
    ),
    "an unknown provider": config("[providers.gemini]\n", "providers.gemini", "provider-unknown"),
    "a provider that is not built": config("[providers.acp]\n", "'acp'", "provider-not-implemented"),
    "a provider of another version": config("[providers.recorded]\nversion = '9'\n", "providers.recorded.version"),
    "an unknown setting": config("[providers.recorded]\nsettings = { a = 1 }\n", "providers.recorded.settings.a"),
    "no TOML": config("engine = \n", "c.toml"),
    "a binary config": config(bytes(range(256)), "c.toml"),
    "endless TOML": config("a = " + "[" * 5000, "c.toml"),
    "no config": Bad(words=f"--config none.toml {RUN}", code="config-not-found", place="none.toml"),
    "a directory as config": Bad(
        words=f"--config c.toml {RUN}", code="config-invalid", place="c.toml cannot be read", prepare=_directory
    ),
    "a pipe as config": Bad(
        words=f"--config c.toml {RUN}", code="config-invalid", place="c.toml cannot be read", prepare=_pipe
    ),
    "a secret that is not set": secret("credential = { env = 'NO_SUCH_KEY' }\n", "NO_SUCH_KEY", process=True),
    "a secret that is not there": secret("credential = { file = '/nonexistent/key' }\n", "/nonexistent/key"),
    "a secret that others may read": secret("credential = { file = 'HERE/key' }\n", "key", prepare=_open_key),
    "a state root that is a file": config("state_root = 'HERE/touch.yaml'\n", "touch.yaml", "state-unwritable", exit=5),
    "a state root of 300": config(f"state_root = '/{'x' * 300}'\n", "File name too long", "usage"),
    "not a repository": place(_plain, "other' is not inside a git repository", "run touch.yaml --repo other"),
    "no directory": place(_plain, "none' is not inside", "run touch.yaml --repo none", process=True),
    "a repository's name of 300": place(
        _plain, "File name too long", f"run touch.yaml --repo {'x' * 300}", code="usage"
    ),
    "a bare repository": place(_git("--bare"), "other' is a bare repository", "run touch.yaml --repo other"),
    "a repository without a commit": place(_git(), "other' has no commit", "run touch.yaml --repo other"),
    "a repository of another hash": place(_sha256, "other' is a sha256", "run touch.yaml --repo other"),
    "a repository that is elsewhere": place(_dangling, "other'", "run touch.yaml --repo other"),
    "a repository with a broken config": place(_broken_config, "repo"),
    "a repository without objects": place(_no_objects, "repo"),
    "a repository with filters": place(_filtered, "one.txt"),
    "dirty in place": place(_dirty, "one.txt", f"{RUN} --in-place", code="worktree-dirty", process=True),
    "merging in place": place(_merging, "one.txt", f"{RUN} --in-place --include-dirty", code="worktree-dirty"),
    "dirty in a fresh worktree": Bad(words=f"{RUN} --include-dirty", code="usage", place="--include-dirty"),
    "an activation with another byte": activation(
        lambda data: data.replace(b"echo two", b"echo tvo"), "d1", "activation-tampered", process=True
    ),
    "an activation with another id": activation(
        lambda data: data.replace(b'"delivery":"d1"', b'"delivery":"d2"'), "d2", "activation-tampered"
    ),
    "half an activation": activation(lambda data: data[:300], "d1.json"),
    "an empty activation": activation(lambda _: b"", "d1.json"),
    "a binary activation": activation(lambda _: bytes(range(256)), "d1.json"),
    "an activation of something else": activation(lambda _: b'{"delivery": "d1"}', "not an activation"),
    "a pipe as activation": Bad(
        words="execute d1.json", code="activation-invalid", place="d1.json cannot be read", prepare=_activation_pipe
    ),
    "execute over a ledger of text": ledger(EXECUTE, _text, process=True),
    "inspect a ledger of text": ledger("inspect d1", _text),
    "its events": ledger("inspect d1 --events", _text),
    "cancel over a ledger of text": ledger("cancel d1", _text),
    "execute over half a ledger": ledger(EXECUTE, _half),
    "inspect half a ledger": ledger("inspect d1", _half),
    "cancel over half a ledger": ledger("cancel d1", _half),
    "execute without a ledger": ledger(EXECUTE, _gone),
    "inspect without a ledger": ledger("inspect d1", _gone),
    "cancel without a ledger": ledger("cancel d1", _gone),
    "execute over edited records": ledger(EXECUTE, _edited),
    "inspect edited records": ledger("inspect d1", _edited, process=True),
    "cancel over edited records": ledger("cancel d1", _edited),
}
