"""What ``answer``, ``resolve``, ``cancel`` and ``takeover`` do: what a person says of a Delivery is left for whoever drives it."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runner.cli import cancel_view, config_lookup
from runner.cli.activation_file import where_in
from runner.cli.attention import step_name
from runner.cli.exit_codes import Exit
from runner.cli.program import command
from runner.cli.said import value_of, who, with_comment
from runner.cli.terminal import Line, columns, write_json, write_lines
from runner.cli.where import begin_command, command_lines, continue_command
from runner.contract.errors import CallerError, Code
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.outcomes import CancelAck, DeliveryState, OpenWait

if TYPE_CHECKING:
    from runner.factory import RunnerFactory
    from runner.records import Records

OF_WORKTREE: Final = ("adopt", "discard")
TAKEN_SOON: Final = "the process that drives it takes it at once"


class Spoken:
    """One Delivery that a person speaks about: its records, and how it is said what was recorded."""

    def __init__(self, lookup: config_lookup.Lookup, text: str, named_config: Path | None, *, as_json: bool) -> None:
        from runner.factory import RunnerFactory

        self.records: Records = RunnerFactory(config_lookup.load(lookup)).open_records()
        self.delivery: DeliveryId = delivery_id(text)
        self._named_config = named_config
        self._as_json = as_json

    def recorded(self, line: str, document: dict[str, Any]) -> int:
        """Shows what was recorded, and how it goes on. Exit 0."""
        state = self.records.inspect(self.delivery)
        where = where_in(self.records, self.delivery, self._named_config)
        open_ = state.driver is None and state.settlement is None
        go_on = [continue_command(where) if state.accepted_at else begin_command(where)] if open_ else []
        if self._as_json:
            next_ = [words for _, words in go_on]
            write_json({"delivery": self.delivery, **document, "driver": state.driver, "next": next_})
            return int(Exit.OK)
        note: list[Line] = [f"  {TAKEN_SOON} ({state.driver})"] if state.driver else []
        write_lines([(line, "green"), *note, *command_lines(go_on, columns())])
        return int(Exit.OK)


def answer(spoken: Spoken, wait: str | None, word: str, comment: str | None) -> int:
    """Leaves an answer to ``wait``, or to the only one that is open."""
    value = value_of(word)
    if comment is not None:
        value = with_comment(_open_wait(spoken, wait), value, comment)
    asked = spoken.records.answer(spoken.delivery, wait, value, who())
    line = f"Delivery {spoken.delivery}: {word[:100]} is recorded as the answer to wait {asked.wait} of {step_name(asked.step)}"
    return spoken.recorded(line, {"wait": asked.wait, "step": asked.step, "recorded": "answer"})


def _open_wait(spoken: Spoken, wait: str | None) -> OpenWait:
    waits = spoken.records.waits(spoken.delivery)
    named = [w for w in waits if w.wait == wait] if wait is not None else list(waits)
    if len(named) == 1:
        return named[0]
    problem = f"no wait {wait[:200]!r} is open" if wait is not None else f"{len(waits)} waits are open"
    raise CallerError(Code.WAIT_UNKNOWN, problem, remedy=f"see which are: {command('inspect', spoken.delivery)}")


def resolve(spoken: Spoken, call: str | None, said: str, word: str | None) -> int:
    """Leaves what somebody says of an uncertain effect, or of an edited worktree."""
    value = None if word is None else value_of(word)
    named = _call(spoken, call, said)
    spoken.records.resolve(spoken.delivery, named, said, value, who())
    about = f"call {named}" if named else "the edited worktree"
    line = f"Delivery {spoken.delivery}: {said} is recorded of {about}"
    return spoken.recorded(line, {"call": named or None, "recorded": said})


def _call(spoken: Spoken, call: str | None, said: str) -> str:
    """The call that is meant; empty for the worktree."""
    if said in OF_WORKTREE:
        if call is not None:
            raise CallerError(
                Code.USAGE, f"--{said} is about the worktree, not about a call", remedy=f"leave {call!r:.100} out"
            )
        return ""
    if call is not None:
        return call
    calls = [effect.call for effect in spoken.records.inspect(spoken.delivery).uncertain]
    if len(calls) == 1:
        return calls[0]
    if not calls and said == "abandon":
        return ""
    look = command("inspect", spoken.delivery)
    raise CallerError(
        Code.CALL_UNKNOWN,
        f"{len(calls)} effects are uncertain: {', '.join(calls)}" if calls else "no effect is uncertain",
        remedy=f"name the call; {look} lists the commands" if calls else f"see how it stands: {look}",
    )


# --- ending it -------------------------------------------------------------------------------------------------------


def takeover(spoken: Spoken, *, yes: bool) -> int:
    """Ends whoever drives it, once somebody has confirmed that."""
    state = spoken.records.inspect(spoken.delivery)
    if state.driver is not None and not yes:
        _confirm(state)
    ended = spoken.records.takeover(spoken.delivery)
    processes = f"; ended: {', '.join(map(str, ended.ended))}" if ended.ended else ""
    line = f"Delivery {spoken.delivery}: {ended.detail}{processes}"
    return spoken.recorded(line, {"ended": list(ended.ended), "detail": ended.detail})


def _confirm(state: DeliveryState) -> None:
    """``CallerError`` unless a person at the terminal says yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CallerError(
            Code.USAGE,
            f"{state.driver} drives Delivery {state.delivery}, and nobody is here to confirm that it may be ended",
            remedy="add --yes",
        )
    write_lines(
        [
            (f"Delivery {state.delivery} is driven by {state.driver}; its last sign was at {state.last_at}.", "bold"),
            "That process and everything it started will be ended. What finished is kept.",
        ],
        stderr=True,
    )
    sys.stderr.write("End it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CallerError(Code.USAGE, "not confirmed, so nothing was ended", remedy="answer y, or add --yes")


def cancel(lookup: config_lookup.Lookup, text: str, named_config: Path | None, *, as_json: bool) -> int:
    """Asks, or settles when nobody drives it. Exit 0, but 1 when it was too late, and 4 when somebody must first say what
    became of an effect."""
    from runner.factory import RunnerFactory

    factory = RunnerFactory(config_lookup.load_to_act(lookup))
    ack = asyncio.run(_cancel(factory, delivery_id(text)))
    records = factory.open_records()
    state = records.inspect(ack.delivery)
    where = where_in(records, ack.delivery, named_config)
    if as_json:
        write_json(cancel_view.cancel_document(ack, state, where))
    else:
        write_lines(cancel_view.cancel_lines(ack, state, where, columns()))
    if ack.disposition == "too-late":
        return int(Exit.NOT_DONE)
    return int(Exit.ATTENTION if cancel_view.must_be_said(state, where) else Exit.OK)


async def _cancel(factory: "RunnerFactory", delivery: DeliveryId) -> CancelAck:
    async with factory.open() as runner:
        return await runner.cancel(delivery)
