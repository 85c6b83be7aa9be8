"""What a session is started with, as one comparable value, and whether it is still what was admitted. Pure."""

from collections.abc import Mapping

from runner.contract.activation import Activation, AgentAction, Executor
from runner.contract.canonical import FrozenJson, digest, freeze
from runner.contract.plan import Plan
from runner.contract.ports import Dispatch
from runner.contract.provider import ProviderDescriptor, ToolSpec, tool_json
from runner.contract.scope import READ_ONLY


def executor_of(activation: Activation, role: str) -> Executor | None:
    """The executor bound to ``role``."""
    return next((e for e in activation.executors if e.role == role), None)


def executor_descriptor(executor: Executor, dispatch: Dispatch, tools: tuple[ToolSpec, ...]) -> FrozenJson:
    """Provider, version, model, and the digests of all else that a session is started with."""
    action = dispatch.action
    scope = action.scope if isinstance(action, AgentAction) else READ_ONLY
    return freeze(
        {
            "role": executor.role,
            "provider": executor.provider,
            "version": executor.version,
            "descriptor": executor.descriptor,
            "model": executor.model,
            "instructions": digest(executor.instructions),
            "options": digest(executor.options),
            "tools": digest(tool_json(tools)),
            "scope": digest(scope.to_json()),
            "result_schema": digest(action.result_schema),
            "session": action.session if isinstance(action, AgentAction) else "episode",
        }
    )


def descriptor_problems(executor: Executor, offered: ProviderDescriptor) -> tuple[str, ...]:
    """How the provider of this Runner differs from the one that was bound, field by field."""
    problems = []
    if executor.version != offered.version:
        problems.append(f"version: bound {executor.version}, here {offered.version}")
    if executor.descriptor != offered.digest:
        features = ", ".join(offered.features)
        problems.append(f"descriptor: bound {executor.descriptor}, here {offered.digest} (features: {features})")
    return tuple(problems)


def dispatch_problems(plan: Plan, dispatch: Dispatch) -> tuple[str, ...]:
    """How ``dispatch`` differs from what was admitted for its site, in everything that is not a resolved template."""
    site = next((s for s in plan.sites if s.id == dispatch.step.site), None)
    if site is None:
        return (f"step: the plan has no {dispatch.step.site}",)
    admitted, asked = site.action, dispatch.action
    if admitted.kind != asked.kind:
        return (f"kind: admitted {admitted.kind}, asked {asked.kind}",)
    names = ["executor", "result_schema", "outcome"]
    names += ["scope", "tools", "turns_max", "asks", "session"] if isinstance(asked, AgentAction) else []
    problems = [f"{n}: not the admitted one" for n in names if getattr(admitted, n) != getattr(asked, n)]
    grant = dispatch.grant
    if isinstance(asked, AgentAction):
        if grant is None:
            problems.append("grant: an agent needs a workspace grant")
        elif grant.scope != asked.scope or (grant.step, grant.attempt) != (dispatch.step.key, dispatch.attempt):
            problems.append("grant: issued for another scope, step or attempt")
        elif grant.delivery != plan.delivery:
            problems.append("grant: issued for another Delivery")
    elif grant is not None:
        problems.append("grant: generate has none")
    return tuple(problems)


def drift(before: FrozenJson, now: FrozenJson) -> tuple[str, ...]:
    """Where two executor descriptors differ, field by field."""
    old = before if isinstance(before, Mapping) else {}
    new = now if isinstance(now, Mapping) else {}
    names = sorted({*old, *new})
    return tuple(f"{n}: was {old.get(n)}, is {new.get(n)}" for n in names if old.get(n) != new.get(n))
