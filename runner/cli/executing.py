"""What ``execute`` and ``run`` do: drive one Delivery, or all that are open, and show how it ended."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.admission.history import diffstat
from runner.cli import config_lookup, render
from runner.cli.activation_file import find_activation, kept_file, read_activation, where_of
from runner.cli.admitting import Admitted, Wish, admit_wish, remove_made_worktree
from runner.cli.driving import Driven, drive
from runner.cli.exit_codes import Exit, of_error, of_result, worst
from runner.cli.failures import document_of
from runner.cli.person import is_there
from runner.cli.terminal import columns, say, write_json, write_lines
from runner.cli.where import Where
from runner.contract.canonical import FrozenJson
from runner.contract.errors import RunnerError
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import Interrupted, Outcome, Settled

if TYPE_CHECKING:
    from runner.config_file import RunnerFactoryConfig
    from runner.factory import RunnerFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a command drives and shows."""

    keep: bool = False
    """Keep a worktree that was made for it, also after a completed settlement."""
    record: Path | None = None
    named_config: Path | None = None
    as_json: bool = False

    @property
    def ask(self) -> bool:
        """A script that reads the document is no person, whatever its terminal."""
        return not self.as_json and is_there()


def execute_one(word: str, lookup: config_lookup.Lookup, manner: Manner) -> int:
    """``runner execute``, with a file or a Delivery's id: the exit code. Whoever names one wants it tried now, whatever its
    suspension says. A worktree that ``admit`` or ``run`` made goes after a completed settlement."""
    config = recording(config_lookup.load_to_act(lookup), manner.record)
    factory = _factory(config)
    document, file = find_activation(word, factory.open_records())
    driven, where = _driven(factory, config, document, file, manner, ask=manner.ask, early=True)
    return _show(factory, config, driven, where, as_json=manner.as_json)


def run_wish(wish: Wish, lookup: config_lookup.Lookup, manner: Manner) -> int:
    """``runner run``: the exit code. The activation is kept under the state root, so that ``execute`` can go on with it;
    a fresh worktree is removed after a completed settlement and after a refusal that began nothing."""
    config = recording(config_lookup.load_to_act(lookup), manner.record)
    factory = _factory(config)
    admitted = admit_wish(wish, config, None)
    if not lookup.trusted:
        say(f"config {lookup.source}, found in the repository")
    say(f"Delivery {admitted.delivery}", "bold")
    say(f"  package    {wish.package}")
    return drive_admitted(admitted, factory, config, manner)


def drive_admitted(admitted: Admitted, factory: "RunnerFactory", config: "RunnerFactoryConfig", manner: Manner) -> int:
    """Drives what was just admitted: the exit code. Its worktree is removed as ``run_wish`` says."""
    from runner.admission import remove_worktree

    say(f"  repository {admitted.checkout.repository.root}")
    say(f"  worktree   {admitted.checkout.path}")
    document = read_activation(admitted.file)
    where = where_of(document, admitted.file, manner.named_config)
    where = replace(where, repository=str(admitted.checkout.repository.root))
    try:
        driven = drive(factory, document, admitted.delivery, isolation=config.isolation, ask=manner.ask)
    except RunnerError:
        if not _is_known(factory, admitted.delivery):
            admitted.undo()
        raise
    if admitted.checkout.fresh and not manner.keep and _completed(driven):
        remove_worktree(admitted.checkout)
        where = replace(where, worktree_kept=False)
    return _show(factory, config, driven, where, as_json=manner.as_json)


def execute_open(lookup: config_lookup.Lookup, manner: Manner) -> int:
    """``runner execute --open``: every open Delivery that nobody drives, one after another, each shown in one line. The exit
    code is the worst. One whose time has not come is not tried. Nobody is asked; a stop leaves the rest as they are."""
    config = recording(config_lookup.load_to_act(lookup), manner.record)
    factory = _factory(config)
    records = factory.open_records()
    ended: list[dict[str, Any]] = []
    for delivery in records.open_deliveries():
        say(f"Delivery {delivery}", "bold")
        kept = kept_file(records.state_root, delivery)
        try:
            document = records.document(delivery)
            driven, where = _driven(factory, config, document, kept if kept.exists() else None, manner, ask=False)
        except RunnerError as error:
            ended.append({"delivery": delivery, "exit": int(of_error(error)), **document_of(error)})
            _line(delivery, f"error[{error.code}]: {error.message}", manner)
            continue
        ended.append(render.result_document(driven, where, "", _output(factory, driven)))
        _line(delivery, render.result_line(driven.result), manner)
        if isinstance(driven.result, Interrupted):
            break
    code = worst(Exit(found["exit"]) for found in ended)
    if manner.as_json:
        write_json({"deliveries": ended, "exit": int(code)})
    elif not ended:
        write_lines(["no Delivery is open"])
    return int(code)


def _driven(
    factory: "RunnerFactory",
    config: "RunnerFactoryConfig",
    document: bytes,
    file: Path | None,
    manner: Manner,
    *,
    ask: bool,
    early: bool = False,
) -> tuple[Driven, Where]:
    where = where_of(document, file, manner.named_config)
    driven = drive(factory, document, DeliveryId(where.delivery), isolation=config.isolation, ask=ask, early=early)
    removable = not manner.keep and _completed(driven) and where.repository
    if removable and remove_made_worktree(Path(config.state_root), where):
        where = replace(where, worktree_kept=False)
    return driven, where


def _line(delivery: str, text: str, manner: Manner) -> None:
    if not manner.as_json:
        write_lines([f"{delivery}  {text}"])


def _factory(config: "RunnerFactoryConfig") -> "RunnerFactory":
    from runner.factory import RunnerFactory

    return RunnerFactory(config)


def recording(config: "RunnerFactoryConfig", record: Path | None) -> "RunnerFactoryConfig":
    return config if record is None else config.model_copy(update={"record_dir": str(record.absolute())})


def _is_known(factory: "RunnerFactory", delivery: str) -> bool:
    return delivery in factory.open_records().deliveries()


def _completed(driven: Driven) -> bool:
    return isinstance(driven.result, Settled) and driven.result.settlement.outcome is Outcome.COMPLETED


def _recorded(config: "RunnerFactoryConfig", where: Where) -> Where:
    """With where its sessions were recorded, if any was."""
    made = None if config.record_dir is None else Path(config.record_dir) / where.delivery
    return replace(where, recordings=made) if made is not None and made.is_dir() else where


def _output(factory: "RunnerFactory", driven: Driven) -> FrozenJson:
    """What the workflow gave; read only where the settlement says that there is something."""
    if not isinstance(driven.result, Settled) or driven.result.settlement.output is None:
        return None
    return factory.open_records().output(DeliveryId(driven.result.settlement.delivery))


def _show(
    factory: "RunnerFactory", config: "RunnerFactoryConfig", driven: Driven, where: Where, *, as_json: bool
) -> int:
    where = _recorded(config, where)
    stat = ""
    if isinstance(driven.result, Settled) and where.repository:
        stat = diffstat(Path(where.repository), where.base_commit, driven.result.settlement.result_commit)
    output = _output(factory, driven)
    if as_json:
        write_json(render.result_document(driven, where, stat, output))
    else:
        write_lines(render.result_lines(driven, where, stat, columns(), output))
    return int(of_result(driven.result))
