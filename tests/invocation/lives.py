"""One agent episode that uses tools of every effect class, and dies at a boundary of choice; what is outside the process
lives on: the endpoint, mails that were sent, notes that were left, savepoints of files, the ledger."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from providers import chat
from runner.contract.activation import AgentAction
from runner.contract.canonical import FrozenJson, canonical, digest, freeze
from runner.contract.events import (
    InterventionResolved,
    ModelCalled,
    ModelResponded,
    SavepointTaken,
    ToolCalled,
    ToolFailed,
    ToolSucceeded,
    Usage,
)
from runner.contract.grant import WorkspaceGrant
from runner.contract.ids import DeliveryId, Digest, ObjectId
from runner.contract.outcomes import OpenWait
from runner.contract.ports import Answer, Bridge, Disposition, LedgerWriter, Savepoint, Uncertain
from runner.contract.provider import (
    CallIntent,
    CallResult,
    NativeSession,
    SessionDispatch,
    ToolOutcome,
    ToolSpec,
    Turn,
    TurnEnded,
    TurnEvent,
)
from runner.contract.records import Draft, Record
from runner.contract.scope import EVERYTHING
from tests.invocation.fakes import SCHEMA, Delivery, ScriptedFactory, ScriptedRealm, executor


class Killed(BaseException):
    """The process is gone: nothing in it may catch this."""


class Doom:
    """Kills at the ``at``-th boundary; a dead process reaches no other."""

    def __init__(self, at: int | None = None) -> None:
        self._at = at
        self._dead = False
        self.reached: list[str] = []

    @property
    def cause(self) -> str:
        """The boundary it died at, or empty."""
        return self.reached[-1] if self._dead else ""

    def reach(self, boundary: str) -> None:
        if self._dead:
            raise Killed
        self.reached.append(boundary)
        if len(self.reached) == self._at:
            self._dead = True
            raise Killed(boundary)


@dataclass
class Outside:
    """What no death of the process changes."""

    asked: Counter[int] = field(default_factory=Counter)
    """How often each turn's request arrived at the endpoint."""
    sent: list[tuple[str, Digest]] = field(default_factory=list)
    notes: dict[Digest, str] = field(default_factory=dict)
    questions: int = 0
    savepoints: dict[str, dict[str, bytes]] = field(default_factory=dict)


@dataclass
class Pen:
    """A writer whose owner may die before and after each append."""

    writer: LedgerWriter
    doom: Doom

    def stage(self, *drafts: Draft) -> None:
        self.writer.stage(*drafts)

    def append(self, *drafts: Draft) -> tuple[Record, ...]:
        kinds = "+".join(draft.event.KIND for draft in drafts)
        self.doom.reach(f"before {kinds}")
        records = self.writer.append(*drafts)
        self.doom.reach(f"after {kinds}")
        return records


def _spec(name: str, effect: Any, *required: str) -> ToolSpec:
    parameters = {
        "type": "object",
        "properties": {n: {"type": "string"} for n in required},
        "required": required,
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description="", parameters=freeze(parameters), effect=effect)


SPECS = (
    _spec("look", "read", "path"),
    _spec("fail", "read"),
    _spec("add", "workspace", "path", "line"),
    _spec("note", "idempotent", "text"),
    _spec("mail", "external", "to"),
    _spec("ping", "external"),
)


@dataclass
class Bench:
    """A toolbox. ``add`` is not idempotent: made twice over the same file, it shows."""

    root: Path
    outside: Outside
    doom: Doom

    def specs(self, names: tuple[str, ...], writable: bool) -> tuple[ToolSpec, ...]:
        return tuple(spec for spec in SPECS if spec.name in names)

    async def call(self, grant: WorkspaceGrant, spec: ToolSpec, arguments: FrozenJson, *, key: Digest) -> ToolOutcome:
        assert isinstance(arguments, Mapping)
        self.doom.reach(f"before {spec.name}")
        outcome = self._act(spec.name, {k: str(v) for k, v in arguments.items()}, key)
        self.doom.reach(f"after {spec.name}")
        return outcome

    def _act(self, name: str, given: dict[str, str], key: Digest) -> ToolOutcome:
        match name:
            case "look":
                path = self.root / given["path"]
                return ToolOutcome(ok=True, text=path.read_text() if path.exists() else "")
            case "add":
                with (self.root / given["path"]).open("a") as file:
                    file.write(given["line"] + "\n")
                return ToolOutcome(ok=True, text="added", changed=(given["path"],))
            case "note":
                self.outside.notes[key] = given["text"]
                return ToolOutcome(ok=True, text="noted")
            case "mail" | "ping":
                self.outside.sent.append((name, key))
                return ToolOutcome(ok=True, text="sent" if name == "mail" else "")
            case _:
                return ToolOutcome(ok=False, text="it \x00 failed")


CALLS: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = (
    (
        ("look", {"path": "log"}),
        ("add", {"path": "log", "line": "one"}),
        ("mail", {"to": "x"}),
        ("add", {"path": "log", "line": "one"}),
    ),
    (),
    (("mail", {"to": "x"}), ("note", {"text": "n"}), ("rm", {}), ("add", {"path": "log"})),
    (("fail", {}), ("ask", {"question": "Which?"}), ("ping", {}), ("look", {"path": "log"})),
    (("complete", {"verdict": "maybe"}),),
    (("complete", {"verdict": "good"}),),
)
"""What the model asks for, turn by turn; a turn without calls is text, and is corrected."""


class Session:
    """A chat session with an endpoint that knows by the request which turn it is."""

    native_id = "s"

    def __init__(self, dispatch: SessionDispatch, outside: Outside, doom: Doom) -> None:
        self._conversation = chat.begin(dispatch, "json_schema")
        self._outside = outside
        self._doom = doom

    async def run(self, turn: Turn) -> AsyncIterator[TurnEvent]:
        heard = chat.hear(self._conversation, turn)
        yield CallIntent(request=chat.request(heard))
        number = sum(isinstance(m, Mapping) and m["role"] == "assistant" for m in heard.messages)
        self._doom.reach("before the request")
        self._outside.asked[number] += 1
        self._doom.reach("after the answer")
        calls = [
            chat.ToolCall(id=f"c{number}.{n}", name=name, arguments=canonical(freeze(arguments)).decode())
            for n, (name, arguments) in enumerate(CALLS[number])
        ]
        message = chat.assistant(text="hm", reasoning="", calls=tuple(calls))
        self._conversation = chat.answered(heard, message)
        yield CallResult(response=message, provider="fake", model="m", usage=Usage())
        for asked in chat.asked_in(heard, message):
            yield asked
        yield TurnEnded(finish="stop")

    def replay(self, turn: Turn, response: FrozenJson) -> tuple[TurnEvent, ...]:
        self._conversation, events = chat.replayed(self._conversation, turn, response)
        return events

    async def close(self) -> None: ...


@dataclass
class Factory(ScriptedFactory):
    life: "Life | None" = None

    async def open_realm(self, settings: Any, credentials: Any) -> "Realm":
        assert self.life is not None
        return Realm(self.key, self.script, self.life)


class Realm(ScriptedRealm):
    def __init__(self, key: str, script: Any, life: "Life") -> None:
        super().__init__(key, script)
        self._life = life

    async def open_session(self, dispatch: SessionDispatch) -> NativeSession:
        return Session(dispatch, self._life.outside, self._life.doom)


class Person:
    """Answers at once."""

    def __init__(self, outside: Outside, doom: Doom) -> None:
        self._outside = outside
        self._doom = doom

    async def ask(self, delivery: DeliveryId, wait: OpenWait) -> Answer:
        self._doom.reach("before the question")
        self._outside.questions += 1
        self._doom.reach("after the question")
        return Answer(value="blue", who="p")


class Life:
    """Lives of one episode, one after the other."""

    def __init__(self, tmp: Path, *, record: bool = False) -> None:
        self.outside, self.doom = Outside(), Doom()
        self.delivery = Delivery(tmp, record=record, opened=False)
        self.delivery.factory = Factory(self.delivery.script, life=self)
        self.delivery.actions = {
            "code": AgentAction(
                executor="coder",
                prompt="p",
                scope=EVERYTHING,
                result_schema=SCHEMA,
                tools=tuple(spec.name for spec in SPECS),
                asks=True,
                turns_max=10,
            )
        }
        self.delivery.executors = (executor(self.delivery.factory),)
        self.person: Bridge | None = None
        self.told: dict[str, Any] = {}
        """The transcript at the end."""

    async def live(self, doom: Doom | None = None) -> Disposition:
        """One life: everything anew but what is outside; the files as custody puts them back. Raises ``Killed``."""
        self.doom, delivery = doom or Doom(), self.delivery
        delivery.toolbox = Bench(delivery.worktree, self.outside, self.doom)
        delivery.bridge = self.person or Person(self.outside, self.doom)
        delivery.pen = lambda writer: Pen(writer, self.doom)
        delivery.again()
        self._restore()
        return await delivery.invocation.invoke(delivery.dispatch(mark=self._mark))

    async def to_the_end(self, *deaths: int | None) -> tuple[Disposition, list[str], list[str]]:
        """The disposition after lives that end at ``deaths``, where those died, and which calls were said to be uncertain;
        what happened to those is looked up outside, as a person would."""
        causes: list[str] = []
        uncertain: list[str] = []
        left = [Doom(at) for at in deaths if at is not None]
        while True:
            doom = left.pop(0) if left else Doom()
            try:
                said = await self.live(doom)
            except Killed:
                causes.append(doom.cause)
                continue
            if not isinstance(said, Uncertain):
                self.told = self.transcript()
                return said, causes, uncertain
            uncertain.append(said.call)
            self.resolve(said.call)

    def resolve(self, call: str) -> None:
        ledger = self.delivery.ledger
        called = next(e for e in map(_event, ledger.read()) if isinstance(e, ToolCalled) and e.call == call)
        happened = (called.tool, called.key) in self.outside.sent
        value = ledger.artifacts.put("sent") if happened and called.tool == "mail" else None
        said = InterventionResolved(
            call=call, resolution="happened" if happened else "did-not-happen", value=value, who="p"
        )
        step = self.delivery.dispatch().step
        ledger.writer("coordinator").append(Draft(event=said, step=step, attempt=1))

    def transcript(self) -> dict[str, Any]:
        """What the ledger says was asked and answered, each once: what must not depend on deaths."""
        told: dict[str, Any] = {}
        for event in map(_event, self.delivery.ledger.read()):
            match event:
                case ModelCalled(call=call, request=request):
                    assert told.setdefault(f"{call} request", request) == request
                case ToolCalled(call=call, tool=tool, key=key, input=value):
                    assert told.setdefault(f"{call} tool", (tool, key, value)) == (tool, key, value)
                case ModelResponded(call=call, response=value) | ToolSucceeded(call=call, value=value):
                    assert f"{call} value" not in told
                    told[f"{call} value"] = value
                case ToolFailed(call=call, message=message):
                    assert f"{call} value" not in told
                    told[f"{call} value"] = message
        return told

    def files(self) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in self.delivery.worktree.iterdir()}

    def _mark(self, paths: tuple[str, ...]) -> Savepoint:
        self.doom.reach("before the savepoint")
        files = self.files()
        name = ObjectId(digest({k: v.decode() for k, v in files.items()}).removeprefix("sha256:")[:40])
        self.outside.savepoints[name] = files
        taken = SavepointTaken(savepoint=name, tree=name, changed=paths, changed_count=len(paths), role="mid-step")
        self.delivery.ledger.writer("custody").stage(Draft(event=taken, step=self.delivery.dispatch().step, attempt=1))
        self.doom.reach("after the savepoint")
        return Savepoint(commit=name, tree=name, changed=paths)

    def _restore(self) -> None:
        newest = self.delivery.ledger.last(frozenset({SavepointTaken.KIND}))
        event = None if newest is None else newest.event
        files = self.outside.savepoints[event.savepoint] if isinstance(event, SavepointTaken) else {}
        for name in self.files():
            (self.delivery.worktree / name).unlink()
        for name, content in files.items():
            (self.delivery.worktree / name).write_bytes(content)


def _event(record: Record) -> object:
    return record.event
