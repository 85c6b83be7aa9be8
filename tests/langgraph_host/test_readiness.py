"""Readiness, routing and the fold as pure functions; the state's reducers; the drawing."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.langgraph import drawing
from hosts.langgraph.readiness import (
    Closing,
    End,
    Mark,
    Readiness,
    Snapshot,
    Topology,
    advance,
    closings,
    exhausted,
    final,
    judge,
    startable,
    to_supersede,
)
from hosts.langgraph.state import Position, merge_closings, merge_counts, merge_marks, read_state
from runner.contract.activation import Step
from runner.contract.errors import Code, IntegrityError
from runner.contract.ids import SiteId, StepRef
from runner.interpreter.interpret import plan_of
from tests.langgraph_host.fakes import activation, generate, to
from tests.langgraph_host.reference import Reference, random_workflow


class Fold:
    """A position that a test feeds with ends."""

    def __init__(self, *steps: Step) -> None:
        self.topology = Topology(plan_of(activation(*steps)))
        self.position = Position(Snapshot())
        self.seq = 0

    @property
    def now(self) -> Snapshot:
        return self.position.now

    def end(
        self, site: str, outcome: str = "success", *, failed: bool = False, retriable: bool = True, code: str = ""
    ) -> None:
        self.seq += 1
        ran = outcome not in ("skipped", "superseded")
        end = End(
            step=self.now.step(SiteId(site)),
            outcome=outcome,
            failed=failed,
            retriable=retriable,
            ran=ran,
            code=code,
            seq=self.seq,
        )
        self.position.apply(advance(self.topology, self.now, end))

    def exhausted(self, site: str, *beside: str) -> SiteId | None:
        """Whose budget forbids that ``site`` goes back now, while those ``beside`` it run."""
        route = next(route for route in self.topology.sites[SiteId(site)].routes if route.back)
        running = frozenset(map(SiteId, (site, *beside)))
        return exhausted(self.topology, self.now, SiteId(site), route, running)

    def judge(self, site: str) -> Readiness:
        return judge(self.topology, self.now, SiteId(site))


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({}, Readiness.WAITING),
        ({"a": "success"}, Readiness.WAITING),
        ({"a": "success", "b": "success"}, Readiness.READY),
        ({"a": "skipped", "b": "success"}, Readiness.READY),
        ({"a": "skipped", "b": "skipped"}, Readiness.SKIP_NEEDS),
        ({"a": "failure", "b": "success"}, Readiness.SKIP_BLOCKED),
        ({"a": "failure", "b": "skipped"}, Readiness.SKIP_BLOCKED),
        ({"a": "revise", "b": "success"}, Readiness.READY),
    ],
)
def test_needs(ends: dict[str, str], expected: Readiness) -> None:
    """Taken, blocked, open: as ARCHITECTURE.md has it."""
    fold = Fold(generate("a", routes=to(failure="x")), generate("b"), generate("x"), generate("j", needs=("a", "b")))
    for site, outcome in ends.items():
        fold.end(site, outcome, failed=outcome == "failure")
    assert fold.judge("j") is expected


@pytest.mark.parametrize(
    ("a", "b", "need", "expected"),
    [
        ("left", "success", "success", Readiness.READY),
        ("right", "left", "success", Readiness.READY),
        ("right", "success", "success", Readiness.SKIP_NOT_CHOSEN),
        ("skipped", "skipped", "success", Readiness.SKIP_NEEDS),
        ("left", "success", "skipped", Readiness.READY),
        ("left", "success", "failure", Readiness.SKIP_BLOCKED),
    ],
)
def test_route_edges(a: str, b: str, need: str, expected: Readiness) -> None:
    """One taken route is enough, needs alone are not, and a failed need blocks."""
    fold = Fold(
        generate("a", routes=to(left="j", right="x")),
        generate("b", routes=to(left="j")),
        generate("n", routes=to(failure="x")),
        generate("x"),
        generate("j", needs=("n",)),
    )
    for site, outcome in (("a", a), ("b", b), ("n", need)):
        fold.end(site, outcome, failed=outcome == "failure")
    assert fold.judge("j") is expected


@pytest.mark.parametrize(
    ("outcome", "retriable", "routes", "target"),
    [
        ("failure", True, {"failure": "x"}, "x"),
        ("failure", False, {"failure": "x", "nonretryable_failure": "y"}, "x"),
        ("failure", False, {"nonretryable_failure": "y"}, "y"),
        ("failure", True, {"nonretryable_failure": "y"}, None),
        ("timeout", False, {"timeout": "x", "failure": "y"}, "x"),
        ("timeout", False, {"failure": "y"}, "y"),
        ("timeout", False, {"nonretryable_failure": "y"}, "y"),
        ("budget-exhausted", False, {"failure": "x", "nonretryable_failure": "y"}, None),
        ("cancelled", False, {"failure": "x"}, None),
    ],
)
def test_fallbacks(outcome: str, retriable: bool, routes: dict[str, str], target: str | None) -> None:
    """Exact first, then the declared fallbacks and no others."""
    fold = Fold(generate("a", routes=to(**routes)), generate("x"), generate("y"))
    route = fold.topology.route(SiteId("a"), outcome, failed=True, retriable=retriable)
    assert (route.target if route else None) == target


LOOPS = (
    generate("a", budget_visits=3),
    generate("b", needs=("a",), routes=to(again="a")),
    generate("c", needs=("a",), routes=to(again="c"), budget_visits=9),
    generate("d", needs=("b", "c")),
)


def test_a_closing_holds_supersedes_and_reopens() -> None:
    """From the end that goes back until the last step of the group has an end, nothing there may start."""
    fold = Fold(*LOOPS)
    fold.end("a")
    fold.end("b", "again")
    assert fold.judge("c") is Readiness.HELD and closings(fold.now) == ("b",)
    assert to_supersede(fold.topology, fold.now, frozenset({SiteId("c")})) == ()
    assert to_supersede(fold.topology, fold.now, frozenset()) == ("c", "d")
    fold.end("c", "superseded")
    fold.end("d", "superseded")
    assert fold.now.visit(SiteId("d")) == 2 and startable(fold.topology, fold.now) == ("a",)
    assert fold.now.st[SiteId("a")].ran == 1 and fold.now.st[SiteId("c")].ran == 0


def test_an_end_inside_a_closing_routes_nowhere() -> None:
    """A step that is consumed by a loop neither ends the Delivery nor goes back itself."""
    fold = Fold(*LOOPS)
    fold.end("a")
    fold.end("b", "again")
    fold.end("c", "failure", failed=True)
    assert final(fold.now) is None and closings(fold.now) == ("b",)


def test_two_closings_take_effect_in_ledger_order() -> None:
    """The inner one, which came first, is done first; the outer then re-opens everything once more."""
    fold = Fold(*LOOPS)
    fold.end("a")
    fold.end("c", "again")
    fold.end("b", "again")
    assert closings(fold.now) == ("c", "b")
    fold.end("d", "superseded")
    assert fold.now.visit(SiteId("c")) == 2 and closings(fold.now) == ("b",)
    fold.end("c", "superseded")
    fold.end("d", "superseded")
    assert [fold.now.visit(SiteId(s)) for s in "abcd"] == [2, 2, 3, 3]


def test_exactly_the_budget() -> None:
    """Two times of going back for a budget of three; the third would open the fourth visit."""
    fold = Fold(*LOOPS)
    for _ in range(2):
        fold.end("a")
        assert fold.exhausted("b") is None
        fold.end("b", "again")
        fold.end("c", "superseded")
        fold.end("d", "superseded")
    fold.end("a")
    assert fold.exhausted("b") == "a"


def test_what_counts_for_a_budget() -> None:
    """A visit that ran, or that runs when a loop goes back; not one that the loop goes over before it ran."""
    fold = Fold(
        generate("a", budget_visits=9),
        generate("b", needs=("a",), routes=to(again="a")),
        generate("c", needs=("a",), budget_visits=2),
    )
    for _ in range(5):
        fold.end("a")
        fold.end("b", "again")
        fold.end("c", "superseded")
    fold.end("a")
    assert fold.now.visit(SiteId("c")) == 6 and fold.exhausted("b") is None
    assert fold.exhausted("b", "c") is None
    fold.end("c")
    fold.end("b", "again")
    fold.end("a")
    assert fold.exhausted("b") is None and fold.exhausted("b", "c") == "c"


def test_two_closings_at_once_open_one_visit_that_runs() -> None:
    """What the earlier one opens the later one goes over, so it costs nothing of a budget."""
    steps = (
        generate("a", budget_visits=9),
        generate("b", needs=("a",), routes=to(again="a")),
        generate("c", needs=("a",), routes=to(again="c"), budget_visits=3),
    )
    fold = Fold(*steps)
    fold.end("a")
    fold.end("c", "again")
    fold.end("b", "again")
    fold.end("c", "superseded")
    assert fold.now.visit(SiteId("c")) == 3 and fold.now.us[SiteId("c")] == 1
    fold.end("a")
    assert fold.exhausted("c") is None
    fold.end("c", "again")
    assert fold.exhausted("c") == "c"


def test_a_pass_in_which_no_budgeted_step_ran_counts_for_those_it_skipped() -> None:
    """The step that goes back may run because of something outside the loop; then nothing else would bound it."""
    fold = Fold(
        generate("out"),
        generate("a", routes=to(left="b", right="x")),
        generate("b", budget_visits=3),
        generate("x"),
        generate("d", needs=("out", "b"), routes=to(again="a")),
    )
    fold.end("out")
    for _ in range(2):
        fold.end("a", "right")
        fold.end("b", "skipped")
        fold.end("x")
        assert fold.judge("d") is Readiness.READY and fold.exhausted("d") is None
        fold.end("d", "again")
    fold.end("a", "right")
    fold.end("b", "skipped")
    assert fold.exhausted("d") == "b"


def test_a_changed_environment_comes_before_everything() -> None:
    """Whatever ended the Delivery first."""
    fold = Fold(generate("a", routes=to(success="completed")), generate("b", routes=to(failure="c")), generate("c"))
    fold.end("a")
    assert final(fold.now) == "a"
    fold.end("b", "failure", failed=True, code="environment-changed")
    assert final(fold.now) == "b" and fold.judge("c") is Readiness.HELD


def test_an_end_that_was_never_opened_is_refused() -> None:
    """A ledger of another plan stops everything; an end of an earlier visit changes nothing."""
    fold = Fold(*LOOPS)
    for step in (StepRef(site=SiteId("a"), visit=2), StepRef(site=SiteId("zz"))):
        end = End(step=step, outcome="success", failed=False, retriable=False, ran=True, code="", seq=1)
        with pytest.raises(IntegrityError) as raised:
            advance(fold.topology, fold.now, end)
        assert raised.value.code is Code.LEDGER_CORRUPT
    fold.end("a")
    again = End(
        step=StepRef(site=SiteId("a")), outcome="failure", failed=True, retriable=False, ran=True, code="", seq=9
    )
    assert not advance(fold.topology, fold.now, again).st


@pytest.mark.parametrize("seed", range(200))
def test_the_fold_agrees_with_the_reference(seed: int) -> None:
    """Ends taken one at a time in any order: the same outcomes and visits as the naive interpreter, without LangGraph."""
    sample = random_workflow(seed)
    reference = Reference(sample.steps, sample.choose, sample.back)
    reference.run(random.Random(seed))
    fold, rnd = Fold(*sample.steps), random.Random(-seed)
    while final(fold.now) is None and (ready := startable(fold.topology, fold.now)):
        site = rnd.choice(ready)
        verdict = fold.judge(site)
        outcome = sample.choose(site, fold.now.visit(site)) if verdict is Readiness.READY else "skipped"
        route = fold.topology.route(site, outcome, failed=False, retriable=True)
        if outcome != "skipped" and exhausted(fold.topology, fold.now, site, route, frozenset({site})):
            outcome = "budget-exhausted"
        fold.end(site, outcome, failed=outcome in ("failure", "budget-exhausted"))
        for left in to_supersede(fold.topology, fold.now, frozenset()):
            fold.end(left, "superseded")
    if final(fold.now) is None:
        assert {s: m.outcome for s, m in fold.now.st.items()} == reference.ended
        assert {s: fold.now.visit(SiteId(s)) for s in reference.visit} == reference.visit
    else:
        assert "budget-exhausted" in reference.ended.values()


marks = st.dictionaries(
    st.sampled_from("abc"),
    st.tuples(st.integers(1, 3), st.sampled_from(["superseded", "skipped", "success"]), st.just(0)).map(list),
)


@given(st.lists(marks, min_size=2, max_size=3))
def test_marks_merge_in_any_order(updates: list[dict[str, list[object]]]) -> None:
    """By visit, then by the rank of the outcome, however the nodes of a superstep are ordered."""
    results = []
    for order in itertools.permutations(updates):
        merged: dict[str, object] = {}
        for update in order:
            merged = merge_marks(merged, update)
        results.append(merged)
    assert all(result == results[0] for result in results)


def test_counts_and_closings_merge() -> None:
    """The larger count, the later visit."""
    assert merge_counts({"a": 2}, {"a": 1, "b": 1}) == {"a": 2, "b": 1}
    assert merge_closings({"a": [1, 5, "back"]}, {"a": [2, 9, "back"]}) == {"a": [2, 9, "back"]}


def test_state_is_read_back_as_it_was() -> None:
    """What the checkpoint holds gives the very position."""
    fold = Fold(*LOOPS)
    fold.end("a")
    fold.end("b", "again")
    update, woken = fold.position.flush()
    assert set(woken) == {"b", "c", "d"} and fold.position.flush() == ({}, ())
    back = read_state(update, fold.topology)
    assert back.st == {"a": Mark(1, "success", 1), "b": Mark(1, "again", 1)}
    assert (back.cl, back.sq) == ({"b": Closing(1, 2, "back")}, 2)


def test_drawings_show_every_step_and_route() -> None:
    """Mermaid and ASCII, offline."""
    plan = plan_of(activation(*LOOPS, generate("e", routes=to(success="completed"))))
    drawn, listed = drawing.mermaid(plan), drawing.ascii(plan)
    for line in (
        "a(a)",
        "a -.-> b;",
        "b -. &nbsp;again&nbsp; .-> a;",
        "e -. &nbsp;success (completed)&nbsp; .-> __end__;",
    ):
        assert line in drawn
    assert "[b] generate\n  <- a\n  ^> again: a (again)\n  -> d\n" in listed
    assert "[a] generate  (at most 3 visits)\n  <- start\n" in listed and "  -> success: end: completed\n" in listed
