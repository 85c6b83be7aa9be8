"""The effect key: one name for one effect, stable across attempts and crashes, new for a new visit (durability.md)."""

from runner.contract.activation import EffectClass
from runner.contract.canonical import FrozenJson, digest
from runner.contract.config import Isolation
from runner.contract.ids import CallId, DeliveryId, Digest, StepRef


def effect_key(delivery: DeliveryId, step: StepRef, tool: str, value: FrozenJson, occurrence: int) -> Digest:
    """SHA-256 of (Delivery, site, visit, item, tool, canonical input, occurrence); ``occurrence`` counts equal calls of
    one step from 0, so that two identical calls are two effects."""
    return digest([delivery, step.site, step.visit, list(step.item), tool, value, occurrence])


def process_effect(declared: EffectClass | None, isolation: Isolation) -> EffectClass:
    """The effect class of a process: as declared, else what it can do at most. Contained, it has no network and writes only
    the worktree."""
    return declared or ("workspace" if isolation == "bubblewrap" else "external")


def model_call_id(step: StepRef, attempt: int, turn: int) -> CallId:
    """The id of a model call: the same when it is made again after a crash or a transient failure."""
    return CallId(f"{step.key}/{attempt}/m{turn}")


def tool_call_id(step: StepRef, attempt: int, number: int) -> CallId:
    """The id of the ``number``-th tool call (from 1) of an attempt."""
    return CallId(f"{step.key}/{attempt}/t{number}")
