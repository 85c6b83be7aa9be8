"""Is this the Delivery that was accepted? What is recorded against what is asked, before any effect. Pure."""

from collections.abc import Mapping

from runner.contract.canonical import FrozenJson, canonical
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.events import DeliveryAccepted
from runner.contract.outcomes import Settlement
from runner.contract.plan import Plan
from runner.contract.text import excerpt

VALUE_CHARS_MAX = 120


def check_activation(accepted: DeliveryAccepted | Settlement, plan: Plan) -> None:
    """``CallerError`` (``correlation-mismatch``) if another activation was accepted under this Delivery id."""
    if accepted.activation != plan.activation:
        raise CallerError(
            Code.CORRELATION_MISMATCH,
            f"{plan.delivery}: accepted with activation {accepted.activation}; this one is {plan.activation}",
            remedy="execute the activation that was accepted, or admit this work under another delivery id",
        )


def check_meaning(accepted: DeliveryAccepted, plan: Plan, meaning: FrozenJson, meaning_digest: str) -> None:
    """``CallerError`` (``meaning-changed``) if the configuration means something else now, or this Runner reads the
    workflow differently: each with what differs and how to continue."""
    if accepted.meaning != meaning_digest:
        raise CallerError(
            Code.MEANING_CHANGED,
            f"{plan.delivery}: it was accepted under a configuration that means something else",
            remedy="continue it under a config with these fields as they were; new Deliveries use the new ones",
            findings=differences(accepted.meaning_text, meaning),
        )
    if accepted.plan != plan.digest:
        raise CallerError(
            Code.MEANING_CHANGED,
            f"{plan.delivery}: this Runner makes another plan of its activation than the one that accepted it",
            remedy=f"continue it with Runner {accepted.runner_version}",
        )


def differences(before: FrozenJson, now: FrozenJson, place: str = "") -> tuple[Finding, ...]:
    """Every field that differs, by its dotted path, in a fixed order."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        found: list[Finding] = []
        for key in sorted(before.keys() | now.keys()):
            path = f"{place}.{key}" if place else key
            if key not in now:
                found.append(_finding(path, f"was {_shown(before[key])} and is not set", before[key]))
            elif key not in before:
                found.append(Finding(place=path, problem=f"was not set and is {_shown(now[key])}", fix="remove it"))
            else:
                found.extend(differences(before[key], now[key], path))
        return tuple(found)
    if canonical(before) == canonical(now):
        return ()
    return (_finding(place or "$", f"was {_shown(before)} and is {_shown(now)}", before),)


def _finding(place: str, problem: str, before: FrozenJson) -> Finding:
    return Finding(place=place, problem=problem, fix=f"set it to {_shown(before)}")


def _shown(value: FrozenJson) -> str:
    return excerpt(canonical(value).decode(), VALUE_CHARS_MAX)
