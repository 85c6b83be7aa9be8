"""One step from near: what it asked, called, got and wrote, bounded and harmless to a terminal."""

from runner.cli.step_view import IN, TEXT_LINES_MAX, left_lines, step_document, step_lines
from runner.contract import events
from runner.contract.canonical import FrozenJson, canonical, digest, freeze
from runner.contract.events import Event, ValueRef
from runner.contract.records import InboxItem, Record
from tests.cli.records import DIGEST, OID, record, text_of

ENDED = {"end": "exit", "status": 1, "stdout": "1 failed", "stderr": "No module named pytest", "truncated": False}


def ref(value: object) -> ValueRef:
    frozen = freeze(value)
    return ValueRef(digest=digest(frozen), bytes=len(canonical(frozen)), inline=frozen)


def inline(named: ValueRef) -> FrozenJson:
    return freeze(named.inline)


def step(*happened: Event) -> tuple[Record, ...]:
    return tuple(record(event, "tests@2", seq=n) for n, event in enumerate(happened, start=1))


def called(tool: str, given: object) -> events.ToolCalled:
    return events.ToolCalled(call="c1", tool=tool, caller="model", effect="workspace", key=DIGEST, input=ref(given))


EVERYTHING = step(
    events.StepScheduled(),
    events.StepAttemptStarted(savepoint=OID, input=DIGEST),
    events.ModelCalled(call="m1", turn=3, request=DIGEST),
    events.ModelResponded(
        call="m1",
        provider="p",
        model="some-model",
        response=ref({"content": "I write"}),
        usage=events.Usage(input_tokens=1_200, output_tokens=5, cost_usd=0.5),
        duration_s=2.0,
    ),
    called("write", {"path": "a.py"}),
    events.ToolFailed(call="c1", message="a.py is outside"),
    called("command", {"argv": ["pytest"]}),
    events.ToolSucceeded(call="c1", value=ref(ENDED)),
    events.SavepointTaken(savepoint=OID, tree=OID, changed=("a.py",), changed_count=3, role="mid-step"),
    events.StepCompleted(outcome="failure", output=ref(ENDED), savepoint=OID),
)


def test_everything_it_did() -> None:
    """Turns with usage, tools with input and result, both streams of a process, savepoints, the end."""
    text = text_of(step_lines(EVERYTHING, inline))
    for said in (
        "turn 3: asked the model",
        "some-model, 1,200 in, 5 out, $0.5000, 2.0s",
        "I write",
        'write (workspace)\n      {"path":"a.py"}',
        "failed\n      a.py is outside",
        "stdout:\n      1 failed",
        "stderr:\n      No module named pytest",
        "(mid-step), 3 changed\n      a.py and 2 more",
        "completed: failure",
    ):
        assert said in text


def test_it_is_bounded_and_harmless() -> None:
    """A flood is cut and says so; what would steer a terminal is written out."""
    flood = step(events.ToolSucceeded(call="c1", value=ref("\x1b[2J\n" * 10_000)))
    lines = step_lines(flood, inline)
    assert len(lines) < TEXT_LINES_MAX + 5 and "more lines]" in text_of(lines)
    assert "\x1b" not in text_of(lines) and f"{IN}\\x1b[2J" in text_of(lines)


def test_a_script_gets_the_values_whole() -> None:
    """Each record as ``--events`` has it, with what it names."""
    document = step_document(EVERYTHING, inline)
    assert document["step"] == "tests@2" and len(document["records"]) == len(EVERYTHING)
    assert document["records"][7]["values"] == {"value": ENDED}
    assert document["records"][0]["values"] == {}


def test_what_was_left() -> None:
    """An answer that nobody has taken is not lost to sight."""
    item = InboxItem(id="i", kind="answer", body='{"value":"approve"}', who="me", at="2026-01-01T00:00:00.000000Z")
    assert left_lines(()) == []
    assert 'answer by me, 2026-01-01 00:00:00 UTC  {"value":"approve"}' in text_of(left_lines((item,)))
