"""The door: refuses what was changed or is not whole, and gives the same plan everywhere."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from runner.contract.activation import Activation, Output
from runner.contract.canonical import canonical
from runner.contract.errors import CallerError, Code
from runner.interpreter.interpret import interpret
from tests.interpreter.build import activation, agent, command

LOOP = (
    agent("plan"),
    agent("work", "plan"),
    command("tests", "work", routes={"success": "review", "timeout": "work", "failure": "work"}, visits=3),
    agent("review", "plan", routes={"approve": "completed"}),
)


def document(made: Activation) -> bytes:
    return canonical(made.to_json())


def refused(data: bytes) -> CallerError:
    with pytest.raises(CallerError) as caught:
        interpret(data)
    return caught.value


def test_the_plan_says_what_the_activation_means() -> None:
    """Edges merge a source's outcomes, back routes are marked, and re-opening covers everything downstream."""
    made, plan = interpret(document(activation(*LOOP, output=Output(value=1))))
    assert made.delivery == plan.delivery
    assert [(e.source, e.outcomes) for e in plan.site("review").edges] == [("plan", None), ("tests", ("success",))]  # type: ignore[arg-type]
    assert [(r.outcome, r.target, r.back) for r in plan.site("tests").routes] == [  # type: ignore[arg-type]
        ("success", "review", False),
        ("timeout", "work", True),
        ("failure", "work", True),
    ]
    assert plan.reopens == (("work", ("work", "tests", "review")),)
    assert plan.site("plan").successors == ("work", "review")  # type: ignore[arg-type]


def test_every_changed_byte_is_noticed_or_harmless() -> None:
    """An edit anywhere in the document is refused, or leaves exactly the same activation."""
    data = document(activation(*LOOP))
    original, _ = interpret(data)
    for position in range(0, len(data), 7):
        edited = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        try:
            assert interpret(edited)[0] == original
        except CallerError as error:
            assert error.code in (Code.ACTIVATION_TAMPERED, Code.ACTIVATION_INVALID)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not an activation"),
        (b"[]", "format is None"),
        (b'{"format": "runner.activation/9"}', "runner.activation/9"),
        (b'{"format": 1, "format": 2}', "stands twice"),
        (b'{"x": NaN}', "NaN"),
        (b'{"x": 9007199254740993}', "beyond 2^53"),
        (b"\xff\xfe\x00", "not an activation"),
        (b"[" * 100_000, "not an activation"),
    ],
)
def test_what_is_no_activation_is_refused_with_one_message(data: bytes, problem: str) -> None:
    """Hostile bytes give one clear refusal."""
    error = refused(data)
    assert error.code is Code.ACTIVATION_INVALID
    assert problem in error.message


def test_shape_and_closure_problems_come_with_their_places() -> None:
    """Unknown keys and wrong types are findings; so is what does not resolve."""
    value: dict[str, Any] = json.loads(document(activation(*LOOP)))
    value["extra"] = 1
    value["workflow"]["steps"][0]["attempts_max"] = "3"
    places = {f.place for f in refused(json.dumps(value).encode()).findings}
    assert places == {"extra", "workflow.steps.0.attempts_max"}
    assert [f.place for f in refused(document(activation(command("a", "b")))).findings] == ["workflow.steps.0.needs.0"]


def test_the_plan_digest_is_the_same_in_every_process() -> None:
    """Hash seeds do not reach the digest."""
    data = document(activation(*LOOP))
    program = "import sys; from runner.interpreter.interpret import interpret; print(interpret(sys.stdin.buffer.read())[1].digest)"
    seen = {interpret(data)[1].digest}
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", program], input=data, capture_output=True, env=environment, check=True
        )
        seen.add(done.stdout.decode().strip())  # type: ignore[arg-type]
    assert len(seen) == 1


def test_the_plan_digest_tells_plans_apart() -> None:
    """Another input is another plan."""
    assert interpret(activation(*LOOP))[1].digest != interpret(activation(*LOOP, input={"a": 1}))[1].digest


def test_a_thousand_steps_are_one_ordinary_workflow() -> None:
    """A long chain with loops and references is interpreted, without recursion."""
    steps = [
        agent(
            f"s{n}",
            *([f"s{n - 1}"] if n else []),
            routes={"revise": f"s{n - 3}"} if n % 50 == 3 else None,
            visits=2 if n % 50 == 3 else None,
            action={"prompt": f"{{{{ steps.s{n - 1}.output.text }}}}" if n else "go"},
        )
        for n in range(1000)
    ]
    _, plan = interpret(document(activation(*steps)))
    assert len(plan.sites) == 1000
    assert len(plan.reopens) == 20
