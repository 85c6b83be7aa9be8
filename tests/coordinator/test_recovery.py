"""Recovery: one test per row of the table. Pure; no fixtures."""

from collections.abc import Iterator

import pytest

from runner.contract import events
from runner.contract.canonical import digest
from runner.contract.events import Event, ValueRef
from runner.contract.ids import SiteId, StepRef
from runner.contract.outcomes import Outcome, Publication, Reason
from runner.contract.records import Draft, Record
from runner.coordinator.recovery import Remaining, Then, remaining, uncertain
from tests.coordinator.fakes import BASE, REF, TREE, completed, started, tool_called

A = StepRef(site=SiteId("a"))
B = StepRef(site=SiteId("b"))
VALUE = ValueRef(digest=digest(1), bytes=1, inline=1)
SUCCEEDED = events.ToolSucceeded(call="c1", value=VALUE)
FAILED = events.ToolFailed(call="c1", message="no")
MODEL = events.ModelCalled(call="m1", turn=1, request=digest(1))
ASKED = events.PublicationAsked(ref=REF, expected="absent", new=BASE)
KNOWN = events.PublicationKnown(
    publication=Publication(disposition="published", ref=REF, old="absent", new=BASE),
)
CANCEL = events.CancelRequested(who="me", cause="request")


def recorded(*drafts: Draft) -> Iterator[Record]:
    for seq, draft in enumerate(drafts, start=1):
        yield Record(seq=seq, at=f"t{seq}", generation=1, event=draft.event, step=draft.step, attempt=draft.attempt)


def left(*drafts: Draft) -> Remaining:
    return remaining(recorded(Draft(event=events.StepScheduled(), step=A), started(A), *drafts))


def of(event: Event, step: StepRef | None = A) -> Draft:
    return Draft(event=event, step=step, attempt=1 if step else None)


def said(resolution: str, call: str = "c1") -> Draft:
    value = VALUE if resolution == "happened" else None
    event = {"call": call, "resolution": resolution, "value": value, "who": "me"}
    return of(events.InterventionResolved.model_validate(event), A if call else None)


def savepoint(role: str) -> Draft:
    event = {"savepoint": BASE, "tree": TREE, "role": role}
    return Draft(event=events.SavepointTaken.model_validate(event))


ROWS: list[tuple[str, list[Draft], list[Then]]] = [
    ("no intent", [], []),
    ("intent and result", [tool_called(A, "external"), of(SUCCEEDED)], [Then.USE_RESULT]),
    ("a recorded failure is a result", [tool_called(A, "external"), of(FAILED)], [Then.USE_RESULT]),
    ("a model call without a response", [of(MODEL)], [Then.CALL_AGAIN]),
    (
        "a model call that answered",
        [of(MODEL), of(events.ModelResponded(call="m1", provider="p", model="m"))],
        [Then.USE_RESULT],
    ),
    ("read without a result", [tool_called(A, "read")], [Then.CALL_AGAIN]),
    ("idempotent without a result", [tool_called(A, "idempotent")], [Then.CALL_AGAIN]),
    ("workspace without a result", [tool_called(A, "workspace")], [Then.RESTORE_RUN]),
    ("external without a result", [tool_called(A, "external")], [Then.ASK]),
    (
        "the answer to another call",
        [tool_called(A, "external"), of(FAILED), tool_called(A, "external", "c2")],
        [Then.USE_RESULT, Then.ASK],
    ),
    ("it happened, somebody says", [tool_called(A, "external"), said("happened")], [Then.USE_RESULT]),
    ("it did not", [tool_called(A, "external"), said("did-not-happen")], [Then.RUN]),
    (
        "it did not, was begun again, and died again",
        [tool_called(A, "external"), said("did-not-happen"), tool_called(A, "external")],
        [Then.ASK],
    ),
    ("publication asked", [Draft(event=ASKED)], [Then.READ_REF]),
    ("publication known", [Draft(event=ASKED), Draft(event=KNOWN)], []),
    ("an end of the step", [tool_called(A, "external"), of(SUCCEEDED), completed(A)], []),
]


@pytest.mark.parametrize(("drafts", "then"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_becomes_of_an_effect(drafts: list[Draft], then: list[Then]) -> None:
    """What is found at the last entry of an effect decides what becomes of it."""
    assert [effect.then for effect in left(*drafts).effects] == then


def test_open_steps() -> None:
    """What was begun and has no end is left; what has one is not."""
    assert left().steps == (A,)
    assert left(completed(A)).steps == ()
    assert left(Draft(event=events.StepScheduled(), step=B)).steps == (A, B)


def test_an_uncertain_effect_as_people_see_it() -> None:
    """With its call, tool, input, key and time; two calls are two effects, in the order they were begun."""
    first, second = uncertain(left(tool_called(A, "external"), tool_called(A, "external", "c2")).asked)
    assert (first.step, first.call, first.tool, first.since) == ("a@1", "c1", "mail", "t3")
    assert first.input_text == '{"to":"somebody"}'
    assert first.key.startswith("sha256:")
    assert (second.call, second.since) == ("c2", "t4")


def test_a_recorded_child() -> None:
    """Every child of an open step is there to be looked for; a step that has its end has none."""
    child = events.ProcessStarted(call="c1", pid=7, start_time="boot:1", group=7)
    assert left(of(child)).processes == (child,)
    assert left(of(child), completed(A)).processes == ()


def test_what_winds_it_up() -> None:
    """A cancel or an abandonment, whichever stands first; after an abandonment nothing is asked any more."""
    effect = tool_called(A, "external")
    assert left(effect).wind is None
    cancelled = left(effect, Draft(event=CANCEL))
    assert cancelled.wind is not None
    assert cancelled.wind.event == CANCEL
    assert len(cancelled.asked) == 1
    given_up = left(effect, said("abandon"), Draft(event=CANCEL))
    assert given_up.wind is not None
    assert (given_up.wind.event, given_up.wind.step) == (said("abandon").event, A)
    assert given_up.asked == ()
    both = left(effect, Draft(event=CANCEL), said("abandon"))
    assert (both.wind, both.asked) == (cancelled.wind, ())


def test_an_edited_worktree() -> None:
    """A foreign savepoint waits until somebody decides, or custody took another one."""
    assert left(savepoint("baseline")).foreign is None
    assert left(savepoint("foreign")).foreign == BASE
    assert left(savepoint("foreign"), said("adopt", "")).foreign is None
    assert left(savepoint("foreign"), said("discard", "")).foreign is None
    assert left(savepoint("foreign"), savepoint("step")).foreign is None
    assert left(savepoint("foreign"), said("adopt", ""), savepoint("foreign")).foreign == BASE


def test_a_recorded_terminal() -> None:
    """What is left then is the terminal order."""
    proposed = events.TerminalProposed(outcome=Outcome.FAILED, reason=Reason.ROUTED, step=None, detail="", output=None)
    assert not left().closing
    assert left(Draft(event=proposed)).closing


def opening(renewal: int = 0) -> Draft:
    event = {
        "wait": f"a@1~{renewal}" if renewal else "a@1",
        "prompt": "?",
        "answer_schema": True,
        "outcome": "decision",
        "show_diff": False,
    }
    return of(events.WaitOpened.model_validate({**event, "expires_at": None, "renewal": renewal}))


ASKING = of(events.InteractionRequested(wait="c9", prompt="?", answer_schema=True))
WAITS: list[tuple[str, list[Draft], list[str]]] = [
    ("opened", [opening()], ["a@1"]),
    ("answered", [opening(), of(events.WaitAnswered(wait="a@1", value=VALUE, who="me"))], []),
    ("renewed", [opening(), of(events.WaitExpired(wait="a@1", consequence="renewed")), opening(1)], ["a@1~1"]),
    ("expired for good", [opening(), of(events.WaitExpired(wait="a@1", consequence="incomplete"))], []),
    ("its default was taken", [opening(), of(events.WaitExpired(wait="a@1", consequence="default"))], []),
    ("its step has ended", [opening(), completed(A)], []),
    ("two at once", [opening(), ASKING], ["a@1", "c9"]),
    ("a question answered", [ASKING, of(events.InteractionAnswered(wait="c9", value=VALUE, who="me"))], []),
    ("another one answered", [ASKING, of(events.InteractionAnswered(wait="c8", value=VALUE, who="me"))], ["c9"]),
]


@pytest.mark.parametrize(("drafts", "waits"), [row[1:] for row in WAITS], ids=[row[0] for row in WAITS])
def test_which_questions_are_open(drafts: list[Draft], waits: list[str]) -> None:
    """Open until answered, expired for good, or overtaken by the end of the step."""
    assert [waiting.wait.wait for waiting in left(*drafts).waits] == waits
