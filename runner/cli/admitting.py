"""From words to an activation: what ``check``, ``graph``, ``admit`` and ``run`` ask of admission."""

import asyncio
import datetime as dt
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from runner.cli.activation_file import kept_file, read_activation, write_activation
from runner.cli.inputs import parse_inputs
from runner.cli.program import command
from runner.cli.terminal import Line
from runner.cli.where import Where
from runner.contract.canonical import FrozenJson, canonical, thaw
from runner.contract.errors import CallerError, Code, EnvironmentFault
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.layout import made_worktree

if TYPE_CHECKING:
    from runner.admission import Binding, Checkout, LoadedPackage, Repository, SetupStep
    from runner.config_file import RunnerFactoryConfig
    from runner.contract.activation import Activation
    from runner.factory import RunnerFactory

NOT_BOUND: Final = "sha256:" + "0" * 64
NO_OBJECT: Final = "0" * 40
NAME_CHARS_MAX: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asked to be admitted, as words."""

    package: Path
    repository: Path
    inputs: tuple[str, ...] = ()
    bindings: tuple[str, ...] = ()
    target: str | None = None
    push: str | None = None
    delivery: str | None = None
    base: str = "HEAD"
    in_place: bool = False
    include_dirty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A sealed activation, its file, and its worktree."""

    activation: "Activation"
    file: Path
    checkout: "Checkout"
    made: tuple[Path, ...] = ()
    """Directories that were made on the way, the outer ones first."""

    @property
    def delivery(self) -> DeliveryId:
        return delivery_id(self.activation.delivery)

    def undo(self) -> None:
        """Removes the worktree, the file and the directories that were made for them and hold nothing else."""
        from runner.admission import remove_worktree

        remove_worktree(self.checkout)
        self.file.unlink(missing_ok=True)
        self.undo_directories()

    def undo_directories(self) -> None:
        """Removes the directories alone."""
        for directory in reversed(self.made):
            with suppress(OSError):  # something else is in it by now, or it was never made
                directory.rmdir()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSummary:
    """A package without findings, in few words."""

    name: str
    steps: tuple[tuple[str, str], ...]
    """Id and kind."""
    roles: tuple[str, ...]
    inputs: tuple[str, ...]
    tools: tuple[tuple[str, str], ...]
    """Declared tools and their servers."""
    external: tuple[str, ...]
    """The commands of which a person is asked when they are cut short."""

    def document(self) -> dict[str, Any]:
        steps = [{"id": id_, "kind": kind} for id_, kind in self.steps]
        return {
            "name": self.name,
            "steps": steps,
            "roles": list(self.roles),
            "inputs": list(self.inputs),
            "tools": [{"name": name, "server": server} for name, server in self.tools],
            "external": list(self.external),
        }

    def lines(self) -> list[Line]:
        return [
            f"  name    {self.name}",
            f"  steps   {', '.join(f'{id_} ({kind})' for id_, kind in self.steps)}",
            f"  roles   {', '.join(self.roles) or 'none'}",
            f"  inputs  {', '.join(self.inputs) or 'none'}",
            *self._tools(),
            *self._notes(),
        ]

    def _tools(self) -> list[Line]:
        if not self.tools:
            return []
        return [
            f"  tools   {', '.join(f'{name} ({server})' for name, server in self.tools)}",
            "          their servers are asked when the package is admitted; 'runner tools' asks them now",
        ]

    def _notes(self) -> list[Line]:
        if not self.external:
            return []
        return [
            f"  note    cut short, a person is asked what happened: {', '.join(self.external)} (effect: external);",
            "          a command that changes files of the worktree at most says effect: workspace",
        ]


def checked_package(package: Path) -> PackageSummary:
    """``CallerError`` with every finding when the package is not right."""
    from runner.admission import load_package

    loaded = load_package(package)
    schema = loaded.workflow.input_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return PackageSummary(
        name=loaded.name,
        steps=tuple((step.id, step.action.kind) for step in loaded.workflow.steps),
        roles=tuple(loaded.instructions),
        inputs=tuple(properties) if isinstance(properties, Mapping) else (),
        tools=tuple((name, tool.server) for name, tool in loaded.tools.items()),
        external=tuple(
            step.id
            for step in loaded.workflow.steps
            if step.action.kind == "command" and step.action.effect == "external"
        ),
    )


def drawn(source: Path, form: Literal["mermaid", "ascii"]) -> str:
    """The workflow of an activation (a file that holds its format's name) or of a package, as a picture in text."""
    from runner.contract.activation import FORMAT
    from runner.factory import picture

    if source.suffix == ".json" and FORMAT.encode() in (data := read_activation(source)):
        return picture(data, form)
    from runner.admission import load_package

    return picture(_preview(load_package(source)), form)


def _preview(loaded: "LoadedPackage") -> "Activation":
    """The package as an activation that could never run: no provider, no commit, no input."""
    from runner.admission import declared_tools
    from runner.contract.activation import Executor, Target, Workspace, seal
    from runner.contract.ports import OfferedTool

    schema = thaw(loaded.workflow.input_schema)
    if isinstance(schema, dict):
        schema.pop("required", None)
    executors = tuple(
        Executor(role=role, provider="none", version="1", descriptor=NOT_BOUND, model="none")
        for role in loaded.instructions
    )
    offers: dict[str, tuple[OfferedTool, ...]] = {}
    for name, tool in loaded.tools.items():
        offer = OfferedTool(remote=tool.name or name, description="", parameters={"type": "object"})
        offers[tool.server] = (*offers.get(tool.server, ()), offer)
    return seal(
        delivery="preview",
        admitted_at="2026-01-01T00:00:00Z",
        workflow=loaded.workflow.model_copy(update={"input_schema": schema}),
        executors=executors,
        tools=declared_tools(loaded, offers),
        workspace=Workspace(worktree="/preview", base_commit=NO_OBJECT, base_tree=NO_OBJECT),
        target=Target(ref="refs/heads/preview", expected="absent"),
        input={},
    )


# --- admit -----------------------------------------------------------------------------------------------------------


def admit_wish(wish: Wish, config: "RunnerFactoryConfig", out: Path | None) -> Admitted:
    """Everything that can be refused is refused before the first write. Then the worktree is made and set up, and the
    activation written to ``out`` (by default under the state root); what fails there leaves nothing behind."""
    setup, admitted = _planned(wish, config, out)
    make(setup, admitted, Path(config.state_root))
    return admitted


def make(setup: "tuple[SetupStep, ...]", admitted: Admitted, state_root: Path) -> None:
    """The worktree, set up, and the activation's file; what fails leaves nothing behind."""
    from runner.admission import claim_worktree, make_worktree, run_setup

    try:
        _make_state_root(state_root)
        if admitted.checkout.fresh:
            claim_worktree(admitted.checkout)
    except BaseException:
        admitted.undo_directories()
        raise
    try:
        if admitted.checkout.fresh:
            make_worktree(admitted.checkout)
            run_setup(setup, admitted.checkout)
        write_activation(admitted.file, canonical(admitted.activation.to_json()) + b"\n")
    except BaseException:
        admitted.undo()
        raise


def _planned(wish: Wish, config: "RunnerFactoryConfig", out: Path | None) -> tuple["tuple[SetupStep, ...]", Admitted]:
    """The set-up to run and what will have been admitted, without an effect: package, bindings, secrets, repository, target
    and names are judged here."""
    from runner.admission import admit, checked_input, discover, load_package, parse_bindings, servers_of
    from runner.factory import RunnerFactory

    if wish.include_dirty and not wish.in_place:
        raise CallerError(
            Code.USAGE,
            "--include-dirty goes with --in-place: a fresh worktree has no uncommitted edits",
            remedy="add --in-place, or leave --include-dirty out",
        )
    loaded = load_package(wish.package)
    bindings = parse_bindings(wish.bindings)
    factory = RunnerFactory(config)
    descriptors = factory.descriptors()
    values = _typed(loaded, wish)
    checked_input(loaded, values, bindings, descriptors)
    repository = discover(wish.repository)
    state_root = Path(config.state_root)
    if (file_instead := _file_on_the_way(state_root)) is not None:
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE,
            f"the state root {state_root} cannot be made: {file_instead} is not a directory",
            remedy="set state_root in the config",
        )
    delivery = _delivery(wish, loaded.name, state_root)
    file = out if out is not None else kept_file(state_root, delivery)
    if file.exists():
        raise CallerError(Code.USAGE, f"{file} exists already", remedy="nothing was done; name another file")
    if (file_instead := _file_on_the_way(file.parent)) is not None:
        raise CallerError(
            Code.USAGE, f"{file} cannot be written: {file_instead} is not a directory", remedy="name another file"
        )
    checkout = _checkout(wish, repository, state_root, delivery)
    asked = servers_of(loaded)
    offers = asyncio.run(factory.offers(asked)) if asked else {}
    activation = admit(
        package=loaded,
        worktree=checkout,
        input=values,
        bindings={role: frozen(factory, binding) for role, binding in bindings.items()},
        descriptors=descriptors,
        offers=offers,
        delivery=delivery,
        admitted_at=now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        target_ref=wish.target,
        push=wish.push,
    )
    factory.check(activation)
    made = missing(checkout.path.parent if checkout.fresh else state_root, file.parent)
    return loaded.setup, Admitted(activation=activation, file=file, checkout=checkout, made=made)


def frozen(factory: "RunnerFactory", binding: "Binding") -> "Binding":
    """The binding as its provider freezes it."""
    model, options = factory.bind(binding.provider, binding.model)
    return replace(binding, model=model, options=options)


def _file_on_the_way(directory: Path) -> Path | None:
    """What stands where ``directory`` or one above it should be."""
    found = next((path for path in (directory, *directory.parents) if path.exists()), None)
    return None if found is None or found.is_dir() else found


def missing(*directories: Path) -> tuple[Path, ...]:
    """The directories on the way to these that do not exist, the outer ones first."""
    wanted = {place.absolute() for directory in directories for place in (directory, *directory.parents)}
    return tuple(sorted((path for path in wanted if not path.exists()), key=lambda path: len(path.parts)))


def remove_made_worktree(state_root: Path, where: Where) -> bool:
    """Removes the Delivery's worktree if it is one that was made for it under the state root. Whether it did."""
    from runner.admission import Checkout, discover, remove_worktree
    from runner.contract.ids import ObjectId

    made = worktree_of(state_root, where.delivery)
    if where.repository is None or not made.is_dir() or made.resolve() != Path(where.worktree):
        return False
    commit = ObjectId(where.base_commit)  # removal looks at the path and the repository only
    repository = discover(Path(where.repository))
    remove_worktree(
        Checkout(repository=repository, path=made.resolve(), base_commit=commit, base_tree=commit, fresh=True)
    )
    return True


def _checkout(wish: Wish, repository: "Repository", state_root: Path, delivery: DeliveryId) -> "Checkout":
    from runner.admission import in_place, planned_worktree

    if wish.in_place:
        return in_place(repository, include_dirty=wish.include_dirty)
    base = None if wish.base == "HEAD" else wish.base
    return planned_worktree(repository, base=base, directory=worktree_of(state_root, delivery))


def _make_state_root(state_root: Path) -> None:
    try:
        state_root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE,
            f"the state root {state_root} cannot be made: {error.strerror}",
            remedy="set state_root in the config, or make it writable",
        ) from None


def _typed(loaded: "LoadedPackage", wish: Wish) -> dict[str, FrozenJson]:
    """The inputs as values: text becomes what the package's schema says."""
    from runner.admission import input_value

    given = parse_inputs(wish.inputs)
    return {**given.values, **{name: input_value(loaded, name, text) for name, text in given.texts.items()}}


def _delivery(wish: Wish, package_name: str, state_root: Path) -> DeliveryId:
    """The id that was asked for, if nothing has it; else a new one from the package's name and the time."""
    if wish.delivery is not None:
        asked = delivery_id(wish.delivery)
        if is_taken(state_root, asked):
            raise CallerError(
                Code.USAGE,
                f"the Delivery {asked} exists already",
                remedy=f"choose another --id, or go on with it: {command('execute', str(kept_file(state_root, asked)))}",
            )
        return asked
    slug = re.sub(r"[^a-z0-9]+", "-", package_name.lower())[:NAME_CHARS_MAX].strip("-") or "delivery"
    stem = f"{slug}-{now():%Y%m%d-%H%M%S}"
    numbered = (stem if n == 1 else f"{stem}-{n}" for n in range(1, 1000))
    return delivery_id(next(name for name in numbered if not is_taken(state_root, name)))


def is_taken(state_root: Path, delivery: str) -> bool:
    places = (
        state_root / "deliveries" / delivery,
        worktree_of(state_root, delivery),
        kept_file(state_root, delivery),
    )
    return any(place.exists() for place in places)


def worktree_of(state_root: Path, delivery: str) -> Path:
    return made_worktree(state_root, delivery)


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
