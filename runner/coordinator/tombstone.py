"""What stays of a collected Delivery: one file, written once, by which everything else is known to go."""

from collections.abc import Mapping

from pydantic import ValidationError

from runner.contract.canonical import canonical, digest, parse
from runner.contract.errors import Code, EnvironmentFault, IntegrityError
from runner.contract.kept import Tombstone
from runner.contract.layout import DeliveryLayout
from runner.contract.outcomes import Check, Verification
from runner.ledger.files import read_small, write_atomically

BYTES_MAX = 1 << 20


def read(layout: DeliveryLayout) -> Tombstone | None:
    """None for a Delivery that was not collected. ``IntegrityError`` for a file that is not what was written,
    ``EnvironmentFault`` for one that cannot be read."""
    try:
        value = parse(read_small(layout.tombstone, BYTES_MAX))
        stone = Tombstone.model_validate_json(canonical(value))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EnvironmentFault(
            Code.STATE_UNWRITABLE,
            f"{layout.tombstone} cannot be read: {error.strerror or error}",
            remedy="make the state directory readable, then try again",
        ) from None
    except (ValueError, ValidationError) as error:
        raise _altered(layout, str(error)[:200]) from None
    if stone.digest != _digest(value) or stone.settlement.delivery != layout.root.name:
        raise _altered(layout, "it was altered, or is another Delivery's")
    return stone


def write(layout: DeliveryLayout, **fields: object) -> Tombstone:
    """Writes the tombstone of ``fields``, durably."""
    draft = Tombstone.model_validate({**fields, "digest": "sha256:" + "0" * 64})
    stone = draft.model_copy(update={"digest": _digest(parse(canonical(draft.to_json())))})
    write_atomically(layout.tombstone, canonical(stone.to_json()))
    return stone


def verification(layout: DeliveryLayout, stone: Tombstone) -> Verification:
    """What can still be looked at."""
    told = f"at {stone.collected_at}, after {stone.records} records that ended in {stone.chain}"
    end = f"{stone.settlement.outcome} ({stone.settlement.reason}), as it was when it was collected"
    return Verification(
        delivery=layout.root.name,
        checks=(Check(name="collected", ok=True, detail=told), Check(name="settlement", ok=True, detail=end)),
    )


def _digest(value: object) -> str:
    assert isinstance(value, Mapping)  # noqa: S101 - a tombstone is an object
    return digest({name: part for name, part in value.items() if name != "digest"})


def _altered(layout: DeliveryLayout, why: str) -> IntegrityError:
    return IntegrityError(
        Code.LEDGER_CORRUPT, f"{layout.tombstone}: {why}", remedy="restore the Delivery's directory from a backup"
    )
