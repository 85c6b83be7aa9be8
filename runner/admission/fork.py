"""An activation that starts from another Delivery: the old one's again, or a new package with what the old one was given."""

from collections.abc import Mapping

from runner.admission.admit import admit
from runner.admission.bindings import Binding
from runner.admission.load import LoadedPackage
from runner.admission.target import full_ref, target_at
from runner.admission.worktree import Checkout
from runner.contract.activation import Activation, Executor, Origin, Workspace, seal
from runner.contract.canonical import thaw
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.ids import DeliveryId
from runner.contract.ports import OfferedTool
from runner.contract.provider import ProviderDescriptor


def admit_again(
    *,
    old: Activation,
    origin: Origin,
    worktree: Checkout,
    bindings: Mapping[str, Binding],
    descriptors: Mapping[str, ProviderDescriptor],
    delivery: DeliveryId,
    admitted_at: str,
    target_ref: str | None = None,
) -> Activation:
    """``old`` as the Delivery ``delivery`` over ``worktree``, starting at ``origin``. ``bindings`` (with what their providers
    freeze) replace those of their roles; everything else that was frozen stays. Without ``target_ref`` the target is the old
    one under the new name. ``CallerError``: ``binding-invalid``, ``target-invalid``. Writes nothing."""
    ref = full_ref(target_ref) if target_ref is not None else renamed(old, delivery)
    return seal(
        delivery=delivery,
        admitted_at=admitted_at,
        workflow=old.workflow,
        executors=_executors(old, bindings, descriptors),
        tools=old.tools,
        workspace=_workspace(old, worktree),
        target=target_at(worktree.repository, ref, old.target.remote),
        origin=origin,
        limits=old.limits,
        input=old.input,
    )


def admit_changed(
    *,
    package: LoadedPackage,
    old: Activation,
    origin: Origin,
    worktree: Checkout,
    bindings: Mapping[str, Binding],
    descriptors: Mapping[str, ProviderDescriptor],
    delivery: DeliveryId,
    admitted_at: str,
    offers: Mapping[str, tuple[OfferedTool, ...]] | None = None,
    target_ref: str | None = None,
) -> Activation:
    """``package`` with the input and the bindings of ``old``, starting at ``origin``; ``bindings`` replace those of their roles.
    Judged as ``admit`` judges it, with the same ``CallerError``."""
    frozen = {
        e.role: Binding(role=e.role, provider=e.provider, model=e.model, options=e.options)
        for e in old.executors
        if e.role in package.instructions
    }
    given = thaw(old.input)
    admitted = admit(
        package=package,
        worktree=worktree,
        input=given if isinstance(given, dict) else {},
        bindings={**frozen, **bindings},
        descriptors=descriptors,
        delivery=delivery,
        admitted_at=admitted_at,
        offers=offers,
        target_ref=target_ref,
        push=old.target.remote,
    )
    kept = {name: getattr(admitted, name) for name in Activation.model_fields if name != "binding_identity"}
    return seal(**{**kept, "workspace": _workspace(old, worktree), "origin": origin})


def renamed(old: Activation, delivery: DeliveryId) -> str:
    """The old target under the new Delivery's name, or a branch of its own."""
    if old.delivery in old.target.ref.split("/"):
        return "/".join(delivery if part == old.delivery else part for part in old.target.ref.split("/"))
    return f"refs/heads/runner/{delivery}"


def _workspace(old: Activation, worktree: Checkout) -> Workspace:
    """Dirty edits that were admitted then are in the old baseline, so they belong to the result still."""
    return Workspace(
        worktree=str(worktree.path),
        base_commit=worktree.base_commit,
        base_tree=worktree.base_tree,
        include_dirty=old.workspace.include_dirty,
    )


def _executors(
    old: Activation, bindings: Mapping[str, Binding], descriptors: Mapping[str, ProviderDescriptor]
) -> tuple[Executor, ...]:
    roles = [executor.role for executor in old.executors]
    wrong: list[Finding] = []
    for role, binding in bindings.items():
        if role not in roles:
            fix = f"roles are: {', '.join(roles) or 'none'}"
            wrong.append(Finding(place=f"bind {role}", problem=f"{old.delivery} has no role {role!r}", fix=fix))
        elif binding.provider not in descriptors:
            fix = f"configured are: {', '.join(sorted(descriptors)) or 'none'}"
            problem = f"the provider {binding.provider!r} is not configured"
            wrong.append(Finding(place=f"bind {role}", problem=problem, fix=fix))
    if wrong:
        message = f"{old.delivery} cannot be bound like this"
        raise CallerError(Code.BINDING_INVALID, message, remedy="bind its roles only", findings=wrong)
    return tuple(_bound(executor, bindings.get(executor.role), descriptors) for executor in old.executors)


def _bound(executor: Executor, binding: Binding | None, descriptors: Mapping[str, ProviderDescriptor]) -> Executor:
    if binding is None:
        return executor
    found = descriptors[binding.provider]
    changes = {
        "provider": binding.provider,
        "version": found.version,
        "descriptor": found.digest,
        "model": binding.model,
        "options": binding.options,
    }
    return executor.model_copy(update=changes)
