"""``runner demo``: a real repository with failing tests, and a whole Delivery over it from recorded sessions."""

import importlib.util
import json
import sys
import tempfile
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from runner.admission.history import make_repository
from runner.cli.admitting import Wish
from runner.cli.config_lookup import Lookup
from runner.cli.executing import Manner, run_wish
from runner.cli.starter import isolation_lines
from runner.cli.terminal import say
from runner.contract.errors import CallerError, Code, EnvironmentFault

DELIVERY: Final = "demo"
TASK: Final = "Two tests fail. Find out why and mend the code; do not change the tests."


def run_demo(directory: Path | None, *, as_json: bool) -> int:
    """Makes everything in ``directory`` (new or empty; a temporary one by default) and leaves it there. The exit code."""
    _require_pytest()
    root = _fresh(directory)
    wish = lay_out(root, f"recorded:{root / 'recordings'}")
    unpack(_data() / "recordings", root / "recordings")
    config = root / "runner.toml"
    config.write_text(config_text(root, "[providers.recorded]\n"))
    say("A small repository whose tests fail, and a workflow that will mend it.")
    say("The models' answers are recorded; the files, git and pytest are real.\n", "dim")
    lookup = Lookup(path=config, why="it is the demo's own", places=())
    return run_wish(wish, lookup, Manner(named_config=config, as_json=as_json))


def lay_out(root: Path, model: str) -> Wish:
    """The demo's repository and package below ``root``, and what to run on them with every role bound to ``model``."""
    repository, package = root / "openhours", root / "package"
    make_repository(repository, shipped(_data() / "repository"), message="openhours 0.3.0")
    unpack(_data() / "package", package)
    return Wish(
        package=package / "fix-tests.yaml",
        repository=repository,
        inputs=(f"task={TASK}", f"python={sys.executable}"),
        bindings=(f"coder={model}", f"reviewer={model}"),
        delivery=DELIVERY,
    )


def config_text(root: Path, providers: str) -> str:
    """A config that uses nothing outside ``root``."""
    # A JSON string is a TOML basic string too, whatever stands in the path.
    state_root = f"state_root = {json.dumps(str(root / 'state'))}\n"
    return f"# The demo's own config.\n{state_root}\n{isolation_lines()}\n{providers}"


def _data() -> Traversable:
    return resources.files("runner.cli") / "demo_data"


def shipped(source: Traversable, prefix: str = "") -> dict[str, bytes]:
    """The shipped tree: path -> content. ``.txt`` at the end of a name and ``dot-`` at its beginning only keep tools off
    the data."""
    files: dict[str, bytes] = {}
    for entry in source.iterdir():
        if entry.is_dir():
            files |= shipped(entry, f"{prefix}{entry.name}/")
            continue
        name = entry.name.removesuffix(".txt")
        name = f".{name.removeprefix('dot-')}" if name.startswith("dot-") else name
        files[prefix + name] = entry.read_bytes()
    return files


def unpack(source: Traversable, target: Path) -> None:
    """The shipped tree as files below ``target``."""
    for name, data in shipped(source).items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


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
