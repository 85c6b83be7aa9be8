"""A repository, a config and packages for the command line."""

import subprocess
from pathlib import Path

PACKAGE = """\
name: touch
steps:
  - id: first
    command: {{ run: {first}, shell: true, scope: everything, effect: workspace }}
  - id: second
    needs: [first]
    command: {{ run: "echo two > two.txt", shell: true, scope: ["*.txt"], effect: workspace }}
"""
ROLES = """\
name: roles
input: { task: { type: string }, n: { type: integer } }
roles: { coder: { instructions: { text: Be brief. } } }
steps:
  - id: write
    agent: { role: coder, prompt: "{{ input.task }}", scope: ["src/**"] }
"""


def git(repository: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@localhost", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def repository(directory: Path) -> Path:
    directory.mkdir(parents=True)
    git(directory, "init", "-q", "-b", "main")
    (directory / "one.txt").write_text("1\n")
    git(directory, "add", ".")
    git(directory, "commit", "-qm", "one")
    return directory


def package(directory: Path, first: str = "echo one > one.txt") -> Path:
    file = directory / "touch.yaml"
    file.write_text(PACKAGE.format(first=f"'{first}'"))
    return file
