"""verify: what it looks at, and that it finds each kind of damage by name."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from runner.contract.activation import Activation
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import Check
from runner.contract.plan import Plan
from runner.contract.records import Record
from runner.coordinator.verification import verify
from runner.ledger import create_or_open
from tests.coordinator.asking import layout, leave_uncertain
from tests.coordinator.fakes import House, interpret
from tests.coordinator.test_execute import settled
from tests.ledger.fakes import StillClock

NAMES = ["chain", "order", "artifacts", "plan", "settlement"]


def broken(house: House) -> dict[str, str]:
    return {check.name: check.detail for check in verify(layout(house), interpret, ()).checks if not check.ok}


def edit(house: House, statement: str) -> None:
    with sqlite3.connect(layout(house).ledger) as db:
        db.execute(statement)
    db.close()


async def test_a_whole_record(house: House) -> None:
    """Settled or open, it holds, and says what was looked at; other rooms add what they keep themselves."""
    await leave_uncertain(house, "c1")
    found = verify(layout(house), interpret, ())
    assert [check.name for check in found.checks] == NAMES
    assert found.ok
    assert found.checks[-1].detail == "not settled yet"
    other = House(root=house.root / "other")
    settled(await other.coordinator().execute(other.activation()))

    def probe(activation: Activation, where: DeliveryLayout, records: tuple[Record, ...]) -> tuple[Check, ...]:
        assert where.ledger.exists()
        return (Check(name="probe", ok=False, detail=f"{activation.delivery} {len(records)}"),)

    found = verify(layout(other), interpret, (probe,))
    assert [check.name for check in found.checks] == [*NAMES, "probe"]
    assert (found.ok, found.checks[-1].detail.split()[0]) == (False, "one")
    assert "completed (all-steps-finished)" in found.checks[4].detail


@pytest.mark.parametrize("seq", [1, 5, 12])
async def test_an_edited_record(house: House, seq: int) -> None:
    """The chain is broken at that record, and nothing behind it is judged."""
    settled(await house.coordinator().execute(house.activation()))
    edit(house, f"UPDATE records SET at = '2026-03-01T12:00:00.000001Z' WHERE seq = {seq}")
    found = verify(layout(house), interpret, ())
    assert [(check.name, check.ok) for check in found.checks] == [("chain", False)]
    assert str(seq) in found.checks[0].detail


async def test_a_list_of_open_steps_that_lies(house: House) -> None:
    """The ledger's own table of steps is compared with what its records say."""
    settled(await house.coordinator().execute(house.activation()))
    edit(house, "UPDATE steps SET ended = NULL WHERE step = 'plan@1'")
    assert list(broken(house)) == ["order"]


@pytest.mark.parametrize("statement", ["DELETE FROM records WHERE seq > 9", "DELETE FROM steps"])
async def test_rows_that_were_removed(house: House, statement: str) -> None:
    """A ledger whose end or whose steps somebody removed is a check that failed, as every other damage is."""
    settled(await house.coordinator().execute(house.activation()))
    edit(house, statement)
    assert list(broken(house)) == ["ledger"]


async def test_a_lost_artifact(house: House) -> None:
    """A value that a record names and nobody has any more."""
    settled(await house.coordinator().execute(house.activation(say="z" * 5_000)))
    assert broken(house) == {}
    shutil.rmtree(layout(house).artifacts)
    assert list(broken(house)) == ["artifacts", "plan"]


async def test_another_plan(house: House) -> None:
    """A Runner that makes another plan of the same activation says so, naming the version that accepted it."""
    settled(await house.coordinator().execute(house.activation()))

    def differently(document: bytes) -> tuple[Activation, Plan]:
        activation, plan = interpret(document)
        other = interpret(house.activation(say="other"))[1]
        return activation, Plan(
            delivery=plan.delivery,
            activation=plan.activation,
            sites=(),
            reopens=(),
            output=None,
            input=None,
            digest=other.digest,
        )

    found = verify(layout(house), differently, ())
    assert [check.name for check in found.checks if not check.ok] == ["plan", "settlement"]
    assert "Runner 0.1.0" in found.checks[3].detail


def test_nothing_recorded_yet(tmp_path: Path) -> None:
    """A ledger without an acceptance holds as far as it goes."""
    place = DeliveryLayout(tmp_path / "one")
    create_or_open(place, clock=StillClock()).close()
    found = verify(place, interpret, ())
    assert (found.ok, [check.name for check in found.checks]) == (True, ["chain", "order", "artifacts", "plan"])
