"""The door: package + worktree + bindings + input -> activation, or everything that is wrong with them."""

from collections.abc import Mapping
from pathlib import Path

from runner.admission.bindings import Binding, binding_findings, executors
from runner.admission.load import LoadedPackage, load_package
from runner.admission.target import full_ref, target_at
from runner.admission.tools import declared_tools
from runner.admission.worktree import Checkout, discover, in_place
from runner.contract import limits
from runner.contract.activation import Activation, Limits, Workspace, seal
from runner.contract.canonical import FrozenJson, canonical, freeze, parse
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.ids import DeliveryId, delivery_id
from runner.contract.ports import OfferedTool
from runner.contract.provider import ProviderDescriptor
from runner.interpreter.closure import check as check_activation
from runner.interpreter.expressions import ExpressionError, Template
from runner.interpreter.schemas import value_findings


def admit(
    *,
    package: LoadedPackage | Path,
    worktree: Checkout | Path,
    input: Mapping[str, object],
    bindings: Mapping[str, Binding],
    descriptors: Mapping[str, ProviderDescriptor],
    delivery: DeliveryId,
    admitted_at: str,
    offers: Mapping[str, tuple[OfferedTool, ...]] | None = None,
    target_ref: str | None = None,
    push: str | None = None,
    include_dirty: bool = False,
) -> Activation:
    """A sealed activation in which everything is resolved.

    ``worktree`` is a checkout from ``planned_worktree`` or ``in_place``, or the path of one to be used in place (then
    ``include_dirty`` counts). ``target_ref`` (a branch or a full ref) overrides the package's target; with ``push``, a remote's
    name or address, it is the remote's. ``descriptors`` are the configured providers by key, and ``bindings`` hold what their
    providers freeze (``RunnerFactory.bind``); ``admitted_at`` is UTC, ``YYYY-MM-DDTHH:MM:SSZ``. ``CallerError`` with every
    finding of the first of: package, bindings and input, tools, repository, target. Writes nothing. ``offers`` is what the package's tool servers offer now, by
    key (``RunnerFactory.offers``).
    """
    loaded = load_package(package) if isinstance(package, Path) else package
    delivery_id(delivery)
    whole = checked_input(loaded, input, bindings, descriptors)
    tools = declared_tools(loaded, offers or {})
    checkout = in_place(discover(worktree), include_dirty=include_dirty) if isinstance(worktree, Path) else worktree
    ref = full_ref(target_ref) if target_ref is not None else target_of(loaded, whole, delivery)
    target = target_at(checkout.repository, ref, push)
    activation = seal(
        delivery=delivery,
        admitted_at=admitted_at,
        workflow=loaded.workflow,
        executors=executors(loaded, bindings, descriptors),
        tools=tools,
        workspace=Workspace(
            worktree=str(checkout.path),
            base_commit=checkout.base_commit,
            base_tree=checkout.base_tree,
            include_dirty=checkout.include_dirty,
        ),
        target=target,
        limits=Limits(delivery_timeout_s=loaded.timeout_s),
        input=whole,
    )
    _last_check(activation, loaded)
    return activation


def check(
    loaded: LoadedPackage,
    *,
    input: Mapping[str, object] | None = None,
    bindings: Mapping[str, Binding] | None = None,
    descriptors: Mapping[str, ProviderDescriptor] | None = None,
) -> tuple[Finding, ...]:
    """What is wrong with bindings and input, each as far as it is given; the package itself has no findings any more. Needs no
    repository and has no effect."""
    found: list[Finding] = []
    if bindings is not None:
        found += binding_findings(loaded, bindings, descriptors or {})
    if input is not None:
        found += _completed(loaded, input)[1]
    return tuple(found)


def checked_input(
    loaded: LoadedPackage,
    input: Mapping[str, object],
    bindings: Mapping[str, Binding],
    descriptors: Mapping[str, ProviderDescriptor],
) -> FrozenJson:
    """The input with defaults filled in; ``CallerError`` with the findings of ``check`` (``binding-invalid`` if any is about
    a binding, ``provider-unknown`` if all are unknown providers, else ``input-invalid``)."""
    whole, wrong_input = _completed(loaded, input)
    wrong_bindings = binding_findings(loaded, bindings, descriptors)
    found = (*wrong_bindings, *wrong_input)
    if not found:
        return whole
    code = Code.BINDING_INVALID if wrong_bindings else Code.INPUT_INVALID
    if wrong_bindings and all("is not configured" in f.problem for f in found):
        code = Code.PROVIDER_UNKNOWN
    if wrong_bindings and all("no feature" in f.problem for f in found):
        code = Code.FEATURE_MISSING
    count = "a problem" if len(found) == 1 else f"{len(found)} problems"
    raise CallerError(
        code,
        f"the package {loaded.name!r:.100} cannot be admitted like this: {count}",
        remedy="bind each role with --bind role=provider:model and give each input with --input name=value",
        findings=found,
    )


def target_of(loaded: LoadedPackage, whole: FrozenJson, delivery: DeliveryId) -> str:
    """The package's own target as a full ref."""
    try:
        branch = Template.parse(loaded.branch).evaluate({"input": whole, "delivery": {"id": delivery}, "steps": {}})
    except ExpressionError as error:
        raise CallerError(
            Code.TARGET_INVALID, f"the target cannot be told: {error}", remedy="correct target.branch"
        ) from None
    if not isinstance(branch, str) or not branch:
        raise CallerError(Code.TARGET_INVALID, "the target is not text", remedy="correct target.branch")
    return full_ref(branch)


def input_value(loaded: LoadedPackage, name: str, text: str) -> FrozenJson:
    """What ``text`` from a command line means for the input ``name``: text where the schema says string (or is not known),
    otherwise JSON. ``CallerError`` when it is not JSON."""
    schema = loaded.workflow.input_schema
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    declared = properties.get(name) if isinstance(properties, Mapping) else None
    kind = declared.get("type") if isinstance(declared, Mapping) else None
    if kind == "string" or kind is None:
        return text
    try:
        return parse(text)
    except ValueError as error:
        problem = f"the input {name!r:.80} is not JSON: {error}"
        raise CallerError(Code.INPUT_INVALID, problem, remedy=f"the package wants {kind!r}") from None


def _completed(loaded: LoadedPackage, given: Mapping[str, object]) -> tuple[FrozenJson, tuple[Finding, ...]]:
    try:
        whole = freeze({**loaded.defaults, **given})
    except ValueError as error:
        return None, (Finding(place="input", problem=str(error), fix="give JSON values"),)
    return whole, value_findings(loaded.workflow.input_schema, whole, "input")


def _last_check(activation: Activation, loaded: LoadedPackage) -> None:
    """What only shows in the whole: the activation must be one that the interpreter takes."""
    found = [loaded.origins.moved(finding) for finding in check_activation(activation)]
    if found:
        raise CallerError(
            Code.PACKAGE_INVALID, "the package cannot be admitted", remedy="mend what is listed", findings=found
        )
    if len(canonical(activation.to_json())) > limits.ACTIVATION_BYTES_MAX:
        size = f"the activation would be larger than {limits.ACTIVATION_BYTES_MAX} bytes"
        raise CallerError(Code.PACKAGE_INVALID, size, remedy="give large values as files in the repository")
