"""What ``execute`` and ``run`` do: drive one Delivery and show its end."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.admission.history import diffstat
from runner.cli import config_lookup, render
from runner.cli.activation_file import read_activation, where_of
from runner.cli.admitting import Wish, admit_wish, remove_made_worktree
from runner.cli.driving import Driven, drive
from runner.cli.exit_codes import of_result
from runner.cli.terminal import columns, say, write_json, write_lines
from runner.contract.errors import RunnerError
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import Outcome, Settled

if TYPE_CHECKING:
    from runner.config_file import RunnerFactoryConfig
    from runner.factory import RunnerFactory


def execute_file(
    file: Path,
    lookup: config_lookup.Lookup,
    *,
    keep: bool,
    record: Path | None,
    named_config: Path | None,
    as_json: bool,
) -> int:
    """``runner execute``: the exit code. A worktree that ``admit`` or ``run`` made goes after a completed settlement."""
    document = read_activation(file)
    where = where_of(document, file, named_config)
    config = config_lookup.load_to_act(lookup)
    driven = drive(
        _factory(_recording(config, record)), document, DeliveryId(where.delivery), isolation=config.isolation
    )
    if not keep and _completed(driven) and where.repository and remove_made_worktree(Path(config.state_root), where):
        where = replace(where, worktree_kept=False)
    return _show(driven, where, as_json=as_json)


def run_wish(
    wish: Wish,
    lookup: config_lookup.Lookup,
    *,
    keep: bool,
    record: Path | None,
    named_config: Path | None,
    as_json: bool,
) -> int:
    """``runner run``: the exit code. The activation is kept under the state root, so that ``execute`` can go on with it;
    a fresh worktree is removed after a completed settlement and after a refusal that began nothing."""
    from runner.admission import remove_worktree

    config = _recording(config_lookup.load_to_act(lookup), record)
    factory = _factory(config)
    admitted = admit_wish(wish, config, None)
    if not lookup.trusted:
        say(f"config {lookup.source}, found in the repository")
    say(f"Delivery {admitted.delivery}", "bold")
    say(f"  package    {wish.package}")
    say(f"  repository {admitted.checkout.repository.root}")
    say(f"  worktree   {admitted.checkout.path}")
    document = read_activation(admitted.file)
    where = replace(where_of(document, admitted.file, named_config), repository=str(admitted.checkout.repository.root))
    try:
        driven = drive(factory, document, admitted.delivery, isolation=config.isolation)
    except RunnerError:
        if not _is_known(factory, admitted.delivery):
            admitted.undo()
        raise
    if admitted.checkout.fresh and not keep and _completed(driven):
        remove_worktree(admitted.checkout)
        where = replace(where, worktree_kept=False)
    return _show(driven, where, as_json=as_json)


def _factory(config: "RunnerFactoryConfig") -> "RunnerFactory":
    from runner.factory import RunnerFactory

    return RunnerFactory(config)


def _recording(config: "RunnerFactoryConfig", record: Path | None) -> "RunnerFactoryConfig":
    return config if record is None else config.model_copy(update={"record_dir": str(record.absolute())})


def _is_known(factory: "RunnerFactory", delivery: str) -> bool:
    return delivery in factory.open_records().deliveries()


def _completed(driven: Driven) -> bool:
    return isinstance(driven.result, Settled) and driven.result.settlement.outcome is Outcome.COMPLETED


def _show(driven: Driven, where: render.Where, *, as_json: bool) -> int:
    stat = ""
    if isinstance(driven.result, Settled) and where.repository:
        stat = diffstat(Path(where.repository), where.base_commit, driven.result.settlement.result_commit)
    if as_json:
        write_json(render.result_document(driven, where, stat))
    else:
        write_lines(render.result_lines(driven, where, stat, columns()))
    return int(of_result(driven.result))
