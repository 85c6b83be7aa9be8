"""The deciders: phases, recovery, terminal order, meaning. No fixtures, no I/O."""

from itertools import product
from pathlib import Path

import pytest

from runner.contract.canonical import digest, freeze
from runner.contract.errors import Code, Finding, IntegrityError
from runner.contract.events import (
    VOCABULARY,
    CancelRequested,
    InterventionResolved,
    ResultPreserved,
    TerminalProposed,
    ValueRef,
)
from runner.contract.ids import SiteId, StepRef
from runner.contract.outcomes import OWNERS, Outcome, Publication, Reason, Retirement
from runner.contract.ports import TerminalProposal
from runner.coordinator.correlation import differences
from runner.coordinator.machine import CUES, TRANSITIONS, Cue, Phase, after
from runner.coordinator.recovery import Wind
from runner.coordinator.settlement import TerminalFacts, decide, next_act, settlement_of
from tests.coordinator.fakes import MEANING, TREE, activation, interpret

A = StepRef(site=SiteId("a"))


def test_every_kind_has_a_cue_and_every_cue_a_transition() -> None:
    """The table covers the vocabulary, and nothing stands in it that neither the vocabulary nor a driver brings about."""
    assert CUES.keys() == VOCABULARY.keys()
    assert {cue for _, cue in TRANSITIONS} == set(Cue)
    assert set(CUES.values()) | {Cue.LEFT, Cue.TAKEN_UP} == set(Cue)


def test_every_phase_is_reached_and_only_settled_is_final() -> None:
    """From the first phase every other one is reached, and from every one a settlement is."""
    reach = {phase: {phase} for phase in Phase}
    for _ in Phase:
        for (source, _cue), target in TRANSITIONS.items():
            reach[source] |= reach[target]
    assert reach[Phase.ACCEPTING] == set(Phase)
    assert all(Phase.SETTLED in reach[phase] for phase in Phase)
    assert reach[Phase.SETTLED] == {Phase.SETTLED}


def test_a_pair_outside_the_table_is_refused() -> None:
    """Everything not written down is illegal."""
    for phase, cue in product(Phase, Cue):
        if (phase, cue) in TRANSITIONS:
            assert after(phase, cue) is TRANSITIONS[phase, cue]
        else:
            with pytest.raises(IntegrityError) as caught:
                after(phase, cue)
            assert caught.value.code is Code.ILLEGAL_TRANSITION


def proposal(outcome: Outcome = Outcome.COMPLETED) -> TerminalProposal:
    value = ValueRef(digest=digest(1), bytes=1, inline=1)
    return TerminalProposal(outcome=outcome, reason=Reason.ROUTED, step=A, detail="d", output=value)


def test_a_cancel_that_was_recorded_first_wins() -> None:
    """Whatever the graph proposed, the terminal is the same, because a killed run would not have got that far."""
    cancel = Wind(event=CancelRequested(who="me", cause="request"))
    for outcome in Outcome:
        decided = decide(proposal(outcome), cancel, ())
        assert (decided.outcome, decided.reason) == (Outcome.CANCELLED, Reason.CANCEL_REQUESTED)
        assert (decided.step, decided.output) == (None, None)
    late = decide(proposal(), Wind(event=CancelRequested(who="runner", cause="delivery-timeout")), ())
    assert late.reason is Reason.DELIVERY_TIMEOUT


def test_an_abandonment_fails_the_delivery() -> None:
    """Whatever the host proposed when it was told to end: failed, with the step and the call that was given up."""
    given_up = Wind(event=InterventionResolved(call="a@1/1/t1", resolution="abandon", who="me"), step=A)
    for outcome in Outcome:
        decided = decide(proposal(outcome), given_up, ())
        assert (decided.outcome, decided.reason, decided.step) == (Outcome.FAILED, Reason.ABANDONED, "a@1")
        assert "a@1/1/t1" in decided.detail
        assert decided.output is None


def test_findings_turn_a_completion_into_a_failure() -> None:
    """What a provider holds against a completion is the failure's detail; without any the proposal stands."""
    failed = decide(proposal(), None, (Finding(place="fixture:3", problem="was never asked for", fix=""),))
    assert (failed.outcome, failed.reason) == (Outcome.FAILED, Reason.RECORDING_UNUSED)
    assert failed.detail == "fixture:3: was never asked for"
    assert decide(proposal(), None, ()).step == "a@1"


def test_the_terminal_order() -> None:
    """Each fact leads to exactly the next act, and the settlement holds the four retirements in their order."""
    publication = Publication(disposition="not-requested", ref="r", old="absent", new="absent")
    proposed = TerminalProposed(outcome=Outcome.FAILED, reason=Reason.ROUTED, step=None, detail="", output=None)
    preserved = ResultPreserved(tree=TREE, commit=TREE, ref="r")
    assert next_act(TerminalFacts(proposed=proposed)) == "preserve"
    assert next_act(TerminalFacts(proposed=proposed, preserved=preserved)) == "publish"
    assert next_act(TerminalFacts(proposed=proposed, preserved=preserved, publication=publication)) == "authorize"
    retired: dict[str, Retirement] = {}

    def facts(authorization: str = digest(1)) -> TerminalFacts:
        return TerminalFacts(
            proposed=proposed,
            preserved=preserved,
            publication=publication,
            authorization=authorization,  # type: ignore[arg-type]
            retired=dict(retired),
        )

    for owner in OWNERS:
        assert next_act(facts()) == f"retire-{owner}"
        assert facts().rooms_needed == (owner != "coordinator")
        retired[owner] = Retirement.model_validate({"owner": owner, "authorization": digest(1)})
    assert next_act(facts()) == "settle"
    _, plan = interpret(activation(Path("/w")))
    assert settlement_of(plan, facts()).retirements == tuple(retired[owner] for owner in OWNERS)
    with pytest.raises(IntegrityError) as caught:
        settlement_of(plan, facts(digest(2)))
    assert caught.value.code is Code.AUTHORIZATION_FOREIGN


def test_a_change_of_meaning_names_every_field() -> None:
    """Changed, added and removed fields are each named by their dotted path, in a fixed order."""
    now = freeze({"engine": "langgraph", "isolation": "bwrap", "providers": {"other": {"version": "1"}}})
    found = differences(MEANING, now)
    assert [f.place for f in found] == ["isolation", "providers.fake", "providers.other"]
    assert found[0].problem == 'was "none" and is "bwrap"'
    assert differences(MEANING, MEANING) == ()
