"""A repository, a config and packages for the command line."""

import subprocess
from pathlib import Path

from runner.contract.recording import Header, line_bytes

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


CONFIG = """\
[providers.openai]
credential = { env = "NO_SUCH_KEY" }
[providers.openai.settings]
base_url = "http://127.0.0.1:1/v1"
[providers.recorded]
"""
"""A provider whose secret is missing, at an address where nobody listens."""


def recordings(directory: Path) -> Path:
    """A directory of recordings that holds, with one session in which nothing was asked."""
    directory.mkdir(parents=True)
    (directory / "write.1.jsonl").write_bytes(line_bytes(Header(step="write@1", provider="openai", model="m")))
    return directory


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


AGENT = """\
name: mend
roles: { coder: { instructions: { text: Be brief. } } }
steps:
  - id: mend
    agent: { role: coder, prompt: "Mend it.", scope: ["*.txt"] }
"""


def openai_config(directory: Path, base_url: str) -> Path:
    """A config that is named, with a key in a file beside it."""
    key = directory / "key"
    key.touch(mode=0o600)
    key.write_text("sk-nothing")
    file = directory / "c.toml"
    file.write_text(
        f'[providers.openai]\ncredential = {{ file = "{key}" }}\n[providers.openai.settings]\nbase_url = "{base_url}"\n'
    )
    return file


REVIEW = """\
name: reviewed
steps:
  - id: write
    command: { run: "echo one > made.txt", shell: true, scope: ["*.txt"], effect: workspace }
  - id: review
    needs: [write]
    approval: { prompt: "Ship it?" }
    routes: { approve: last, reject: failed }
  - id: last
    command: { run: "echo two > two.txt", shell: true, scope: ["*.txt"], effect: workspace }
"""


def reviewed(directory: Path) -> Path:
    file = directory / "reviewed.yaml"
    file.write_text(REVIEW)
    return file
