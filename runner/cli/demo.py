"""``runner demo``: a real repository with failing tests, and a whole Delivery over it from recorded sessions."""

import importlib.util
import json
import sys
import tempfile
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from runner.cli.admitting import Wish, make_repository
from runner.cli.config_lookup import Lookup
from runner.cli.executing import run_wish
from runner.cli.terminal import say
from runner.contract.errors import CallerError, Code, EnvironmentFault

DELIVERY: Final = "demo"
TASK: Final = "Two tests fail. Find out why and mend the code; do not change the tests."


def run_demo(directory: Path | None, *, as_json: bool) -> int:
    """Makes everything in ``directory`` (new or empty; a temporary one by default) and leaves it there. The exit code."""
    _require_pytest()
    root = _fresh(directory)
    repository, package, config = root / "openhours", root / "package", root / "runner.toml"
    data = resources.files("runner.cli") / "demo_data"
    unpack(data / "repository", repository)
    make_repository(repository, message="openhours 0.3.0")
    unpack(data / "package", package)
    unpack(data / "recordings", root / "recordings")
    config.write_text(f"# The demo's own config: nothing outside this directory is used.\n{_config_text(root)}")
    say(f"A small repository whose tests fail: {repository}")
    say(f"The workflow that will mend it:      {package / 'fix-tests.yaml'}")
    say("The models' answers are recorded; files, git and pytest are real.\n", "dim")
    wish = Wish(
        package=package / "fix-tests.yaml",
        repository=repository,
        inputs=(f"task={TASK}", f"python={sys.executable}"),
        bindings=tuple(f"{role}=recorded:{root / 'recordings'}" for role in ("coder", "reviewer")),
        target=None,
        delivery=DELIVERY,
        base="HEAD",
        in_place=False,
        include_dirty=False,
    )
    lookup = Lookup(path=config, why="it is the demo's own", places=())
    return run_wish(wish, lookup, keep=False, record=None, named_config=config, as_json=as_json)


def unpack(source: Traversable, target: Path) -> None:
    """The shipped tree as files. ``.txt`` at the end of a name and ``dot-`` at its beginning keep tools off the data."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir():
            unpack(entry, target / entry.name)
            continue
        name = entry.name.removesuffix(".txt")
        name = f".{name.removeprefix('dot-')}" if name.startswith("dot-") else name
        (target / name).write_bytes(entry.read_bytes())


def _config_text(root: Path) -> str:
    # A JSON string is a TOML basic string too, whatever stands in the path.
    return f"state_root = {json.dumps(str(root / 'state'))}\n\n[providers.recorded]\n"


def _fresh(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="runner-demo-")).resolve()
    root = directory.absolute()
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise CallerError(
            Code.USAGE, f"{root} exists and is not empty", remedy="name a new directory, or leave --dir out"
        )
    root.mkdir(parents=True, exist_ok=True)
    return root.resolve()


def _require_pytest() -> None:
    if importlib.util.find_spec("pytest") is None:
        raise EnvironmentFault(
            Code.SETUP_FAILED,
            f"the demo runs a real pytest, and {sys.executable} has none",
            remedy=f"{sys.executable} -m pip install pytest",
        )
