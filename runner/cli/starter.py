"""What ``runner init`` writes: a commented config and an example package, never over anything that exists."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from runner.cli.program import command
from runner.contract.errors import CallerError, Code, EnvironmentFault

PACKAGE_DIR: Final = Path("workflows") / "fix-tests"

CONTAINED: Final = """\
# Commands, and what agents let run, are contained: no network, only the worktree writable. It was tried here and holds.
# "none" would run them as ordinary processes with your rights.
isolation = "bubblewrap"
"""

UNCONTAINED: Final = """\
# Commands, and what agents let run, are ordinary processes with your rights. "bubblewrap" would contain them, but:
# {why}
isolation = "none"
"""

CONFIG_TEXT: Final = """\
# How Deliveries are run. Name this file with --config or RUNNER_CONFIG: one that is only found, at the root of a repository,
# may not name a secret or where to write, because whoever can write to the repository may have written it.
# `runner doctor` says which config is used and why. It holds no secret: only where one is.

# The engine and the isolation are part of what a Delivery means; an open Delivery is continued only under the same.
engine = "langgraph"

{isolation}

# Where Deliveries, their ledgers and worktrees live. Without it: the user's state directory.
# state_root = "~/.local/state/runner"

# Any endpoint that speaks OpenAI's Chat Completions: a hosted one, vLLM, llama.cpp, Ollama, a gateway.
[providers.openai]
credential = { env = "OPENAI_API_KEY" }       # or { file = "/path/to/key" }, a file with mode 0600

[providers.openai.settings]
base_url = "https://api.openai.com/v1"
# structured_output = "text"                  # for endpoints that cannot constrain an answer to a JSON Schema

# [providers.openai.settings.prices]          # dollars for a million tokens; without them the cost is unknown
# input_per_mtok = 1.25
# output_per_mtok = 10.0

# Replays recorded sessions offline: `runner execute ACTIVATION --record DIR` writes them to DIR/DELIVERY.
[providers.recorded]

# How many steps run at once. Steps that use the worktree run one at a time.
[concurrency]
steps = 4
"""


def isolation_lines() -> str:
    """What a new config says of isolation: contained where a contained process, when it tried, could not get out."""
    from runner.factory import probe_boundary

    try:
        probe_boundary()
    except EnvironmentFault as error:
        return UNCONTAINED.format(why=" ".join(error.message.split()))
    return CONTAINED


def example_package() -> Mapping[str, str]:
    """The files of the example package: name -> text."""
    folder = resources.files("runner.cli") / "demo_data" / "package"
    return {entry.name: entry.read_text("utf-8") for entry in sorted(folder.iterdir(), key=lambda e: e.name)}


def next_commands(root: Path) -> list[tuple[str, str]]:
    """What to do with what ``write_starter`` wrote, as (why, command)."""
    config = ("--config", str(root / "runner.toml"))
    package = str(root / PACKAGE_DIR / "fix-tests.yaml")
    repository = () if root == Path() else ("--repo", str(root))
    words = ("--input", "task=Make the failing tests pass", "--input", "python=python3")
    models = ("--bind", "coder=openai:MODEL", "--bind", "reviewer=openai:MODEL")
    return [
        ("does the config work?", command("doctor", *config)),
        ("is the package right?", command("check", package)),
        ("what does it do?", command("graph", package)),
        ("run it, with your MODEL", command("run", package, *config, *repository, *words, *models)),
    ]


def write_starter(root: Path) -> tuple[Path, ...]:
    """Writes everything or nothing; returns what it wrote. ``CallerError(usage)`` names what is in the way."""
    files = {root / "runner.toml": CONFIG_TEXT.replace("{isolation}\n", isolation_lines())}
    files |= {root / PACKAGE_DIR / name: text for name, text in example_package().items()}
    taken = [str(path.relative_to(root)) for path in files if path.exists() or path.is_symlink()]
    if taken:
        raise CallerError(
            Code.USAGE,
            f"{', '.join(taken)} already exist" + ("s" if len(taken) == 1 else "") + f" in {root}",
            remedy="nothing was written; move it away, or name another directory",
        )
    written: list[Path] = []
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Exclusive: what appeared since we looked is not overwritten either.
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE,
            f"{error.filename or root} cannot be written: {error.strerror}",
            remedy="nothing was left behind; make the directory writable, or name another",
        ) from None
    return tuple(written)
