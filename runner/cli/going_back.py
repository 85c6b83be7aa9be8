"""What ``retry`` and ``fork`` do: admit a Delivery that starts from another one, say what it takes over, and drive it."""

import asyncio
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runner.cli import config_lookup
from runner.cli.activation_file import kept_file, repository_of
from runner.cli.admitting import Admitted, frozen, is_taken, make, missing, now, worktree_of
from runner.cli.executing import Manner, drive_admitted, recording
from runner.cli.terminal import Line, say, write_json, write_lines
from runner.contract.activation import Activation
from runner.contract.errors import CallerError, Code
from runner.contract.ids import DeliveryId, StepRef, delivery_id
from runner.contract.outcomes import Departure, TakenOver
from runner.contract.text import visible

if TYPE_CHECKING:
    from runner.admission import Binding, Checkout, LoadedPackage
    from runner.config_file import RunnerFactoryConfig
    from runner.contract.activation import Origin
    from runner.factory import RunnerFactory
    from runner.records import Records

ID_CHARS_MAX: Final = 58
"""Of an old id in a new one: a number must fit behind it."""
NAMED_MAX: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """What a person asked for, as words."""

    delivery: str
    savepoint: str | None = None
    """None: where it failed."""
    package: Path | None = None
    bindings: tuple[str, ...] = ()
    repository: Path | None = None
    target: str | None = None
    new: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    admitted: Admitted
    departure: Departure
    told: TakenOver
    note: str = ""
    """Why it does not start where it was asked to."""


def go_back(back: Back, lookup: config_lookup.Lookup, manner: Manner) -> int:
    """The exit code. Everything that can be refused is refused before the first write; the old Delivery is only read."""
    from runner.admission import load_package
    from runner.factory import RunnerFactory

    config = recording(config_lookup.load_to_act(lookup), manner.record)
    factory = RunnerFactory(config)
    loaded = load_package(back.package) if back.package is not None else None
    planned = _plan(back, factory, config, loaded)
    if back.dry_run:
        if manner.as_json:
            write_json(document(planned.admitted.activation, planned.departure, planned.told, planned.note))
        else:
            write_lines(lines(planned.admitted.activation, planned.departure, planned.told, planned.note))
        return 0
    make(loaded.setup if loaded is not None else (), planned.admitted, Path(config.state_root))
    for line in lines(planned.admitted.activation, planned.departure, planned.told, planned.note):
        say(*((line,) if isinstance(line, str) else line))
    if loaded is None:
        say("  set-up     none is run; name the package with --package where its set-up is needed")
    return drive_admitted(planned.admitted, factory, config, manner)


def _plan(
    back: Back, factory: "RunnerFactory", config: "RunnerFactoryConfig", loaded: "LoadedPackage | None"
) -> _Planned:
    """Judged whole, without an effect. A step that cannot go on in its middle starts at its beginning."""
    records, old_id = factory.open_records(), delivery_id(back.delivery)
    old = Activation.model_validate_json(records.document(old_id))
    departure = (
        records.failure_to_retry(old_id)
        if back.savepoint is None
        else records.savepoint_to_fork(old_id, back.savepoint)
    )
    new = _new_id(back, old, records.state_root)
    checkout = _checkout(back, old, records.state_root, new)
    wish = _Wish(back=back, old=old, factory=factory, loaded=loaded, checkout=checkout, new=new)
    activation, note = wish.activation(departure.origin), ""
    try:
        told = records.taken_over(activation)
    except CallerError as error:
        if departure.nearest is None or error.code is not Code.ORIGIN_INVALID:
            raise
        note, activation = error.message, wish.activation(departure.nearest)
        told = _told_or(records, activation, error)
        step = StepRef.parse(departure.step) if departure.step else None
        departure = departure.model_copy(update={"origin": departure.nearest, "what": f"before {step}"})
    factory.check(activation)
    file = kept_file(records.state_root, new)
    admitted = Admitted(
        activation=activation, file=file, checkout=checkout, made=missing(checkout.path.parent, file.parent)
    )
    return _Planned(admitted=admitted, departure=departure, told=told, note=note)


def _told_or(records: "Records", activation: Activation, first: CallerError) -> TakenOver:
    """What is taken over from the beginning of the step; what was wrong at first when that cannot be either."""
    try:
        return records.taken_over(activation)
    except CallerError:
        raise first from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """Everything but the place to start from."""

    back: Back
    old: Activation
    factory: "RunnerFactory"
    loaded: "LoadedPackage | None"
    checkout: "Checkout"
    new: DeliveryId

    def activation(self, origin: "Origin") -> Activation:
        from runner.admission import admit_again, admit_changed, servers_of

        shared: dict[str, Any] = {
            "old": self.old,
            "origin": origin,
            "worktree": self.checkout,
            "bindings": self._bindings(),
            "descriptors": self.factory.descriptors(),
            "delivery": self.new,
            "admitted_at": now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "target_ref": self.back.target,
        }
        if self.loaded is None:
            return admit_again(**shared)
        asked = servers_of(self.loaded)
        offers = asyncio.run(self.factory.offers(asked)) if asked else {}
        return admit_changed(package=self.loaded, offers=offers, **shared)

    def _bindings(self) -> "dict[str, Binding]":
        from runner.admission import parse_bindings

        return {role: frozen(self.factory, b) for role, b in parse_bindings(self.back.bindings).items()}


def _new_id(back: Back, old: Activation, state_root: Path) -> DeliveryId:
    if back.new is not None:
        asked = delivery_id(back.new)
        if is_taken(state_root, asked):
            raise CallerError(
                Code.USAGE, f"the Delivery {asked} exists already", remedy="choose another --id; nothing was done"
            )
        return asked
    stem = re.sub(r"-\d{1,3}$", "", old.delivery) if old.origin is not None else old.delivery
    numbered = (f"{stem[:ID_CHARS_MAX].rstrip('-')}-{n}" for n in range(2, 1000))
    return delivery_id(next(name for name in numbered if not is_taken(state_root, name)))


def _checkout(back: Back, old: Activation, state_root: Path, new: DeliveryId) -> "Checkout":
    """A fresh worktree at the commit that the old one began at."""
    from runner.admission import discover, planned_worktree

    known = repository_of(Path(old.workspace.worktree))
    repository = discover(back.repository or (Path(known) if known is not None else Path()))
    made = planned_worktree(repository, base=old.workspace.base_commit, directory=worktree_of(state_root, new))
    return replace(made, include_dirty=old.workspace.include_dirty)


# --- what is said ----------------------------------------------------------------------------------------------------


def lines(activation: Activation, departure: Departure, told: TakenOver, note: str) -> list[Line]:
    """Pure."""
    origin = departure.origin
    found: list[Line] = [
        (f"Delivery {activation.delivery}", "bold"),
        f"  from       {origin.delivery}, {departure.what} (record {origin.position}, savepoint {origin.savepoint[:12]})",
    ]
    if note:
        found.append((f"  instead    {visible(note)}", "yellow"))
    found.append(f"  taken over {_listed(told.kept) or 'nothing: it starts at the beginning'}")
    if told.inside is not None:
        found.append(f"  goes on in {StepRef.parse(told.inside)}")
    if told.again:
        found.append(f"  again      {_listed(told.again)}")
    if told.changed:
        found.append(
            (f"  changed    {_listed(told.changed)}: defined differently now, taken over all the same", "yellow")
        )
    if told.repeated:
        calls = ", ".join(visible(call) for call in told.repeated[:NAMED_MAX])
        more = f" and {len(told.repeated) - NAMED_MAX} more" if len(told.repeated) > NAMED_MAX else ""
        found.append((f"  may repeat {calls}{more}: done there, outside the worktree", "yellow"))
    return found


def document(activation: Activation, departure: Departure, told: TakenOver, note: str) -> dict[str, Any]:
    """For scripts: what ``--dry-run --json`` prints."""
    return {
        "delivery": activation.delivery,
        "target": activation.target.ref,
        "origin": departure.origin.model_dump(mode="json"),
        "what": departure.what,
        "instead": note or None,
        **told.model_dump(mode="json"),
    }


def _listed(keys: tuple[str, ...]) -> str:
    shown = ", ".join(str(StepRef.parse(key)) for key in keys[:NAMED_MAX])
    return f"{shown} and {len(keys) - NAMED_MAX} more" if len(keys) > NAMED_MAX else shown
