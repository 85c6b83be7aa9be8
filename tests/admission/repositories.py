"""Real repositories for the tests."""

import os
import subprocess
from pathlib import Path

ENVIRONMENT = {
    **{name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ},
    **{f"GIT_{who}_{what}": "t@example.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(directory), *arguments], capture_output=True, text=True, env=ENVIRONMENT, check=True
    )
    return done.stdout.strip()


def repository(directory: Path, files: dict[str, str] | None = None) -> Path:
    """A repository with one commit of ``files``."""
    directory.mkdir(parents=True)
    git(directory, "init", "--quiet", "--initial-branch=main")
    for name, text in (files or {"a.txt": "a\n", ".gitignore": ".env\n.venv/\n"}).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--message", "one")
    return directory
