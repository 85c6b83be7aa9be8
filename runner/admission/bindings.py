"""Roles -> executors: who acts, exactly. ``role=provider:model`` on the command line. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runner.admission.load import LoadedPackage
from runner.contract import ids
from runner.contract.activation import Executor
from runner.contract.canonical import FrozenJson
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.provider import ProviderDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    role: str
    provider: str
    model: str
    """The provider's own name for a model; for ``recorded`` the directory of the recording."""
    options: FrozenJson = None
    """As words, a binding says a model only; the provider then freezes both (``RunnerFactory.bind``)."""


def parse_binding(text: str) -> Binding:
    """``role=provider:model``; ``CallerError`` (``binding-invalid``) for anything else."""
    match = re.fullmatch(rf"({ids.SITE_ID_PATTERN})=([a-z][a-z0-9-]*):(.+)", text, re.DOTALL)
    if match is None or not match[3].strip() or "\x00" in text:
        raise CallerError(
            Code.BINDING_INVALID,
            f"{text[:120]!r} is not a binding",
            remedy="write role=provider:model, for example coder=openai:MODEL or coder=recorded:DIRECTORY",
        )
    return Binding(role=match[1], provider=match[2], model=match[3])


def parse_bindings(texts: Iterable[str]) -> dict[str, Binding]:
    """All bindings by role; ``CallerError`` for a role that is bound twice."""
    bindings: dict[str, Binding] = {}
    for text in texts:
        binding = parse_binding(text)
        if binding.role in bindings:
            raise CallerError(
                Code.BINDING_INVALID,
                f"the role {binding.role!r} is bound twice: to {_shown(bindings[binding.role])} and to {_shown(binding)}",
                remedy="bind each role once",
            )
        bindings[binding.role] = binding
    return bindings


def binding_findings(
    loaded: LoadedPackage, bindings: Mapping[str, Binding], descriptors: Mapping[str, ProviderDescriptor]
) -> tuple[Finding, ...]:
    """Roles without a binding, bindings without a role, unknown providers, missing features. Places are ``bind ROLE``."""
    found = []
    for role in loaded.instructions:
        binding = bindings.get(role)
        if binding is None:
            known = " or ".join(f"{role}={key}:MODEL" for key in sorted(descriptors)) or "a configured provider"
            found.append(Finding(place=f"bind {role}", problem="this role is not bound", fix=f"bind it: {known}"))
            continue
        descriptor = descriptors.get(binding.provider)
        if descriptor is None:
            choices = f"configured are: {', '.join(sorted(descriptors)) or 'none'}"
            problem = f"the provider {binding.provider!r} is not configured"
            found.append(Finding(place=f"bind {role}", problem=problem, fix=choices))
            continue
        for feature in sorted(loaded.features.get(role, frozenset()) - set(descriptor.features)):
            able = [key for key, d in sorted(descriptors.items()) if feature in d.features]
            problem = f"the provider {binding.provider!r} has no feature {feature!r}, which a step of this role needs"
            fix = f"providers that have it: {', '.join(able) or 'none'}"
            found.append(Finding(place=f"bind {role}", problem=problem, fix=fix))
    for role in bindings:
        if role not in loaded.instructions:
            fix = f"roles are: {', '.join(loaded.instructions) or 'none'}"
            found.append(Finding(place=f"bind {role}", problem=f"the package has no role {role!r}", fix=fix))
    return tuple(found)


def executors(
    loaded: LoadedPackage, bindings: Mapping[str, Binding], descriptors: Mapping[str, ProviderDescriptor]
) -> tuple[Executor, ...]:
    """One executor per role of the package, in its order. The bindings have no findings."""
    return tuple(
        Executor(
            role=role,
            provider=bindings[role].provider,
            version=descriptors[bindings[role].provider].version,
            descriptor=descriptors[bindings[role].provider].digest,
            model=bindings[role].model,
            instructions=instructions,
            options=bindings[role].options,
        )
        for role, instructions in loaded.instructions.items()
    )


def _shown(binding: Binding) -> str:
    return f"{binding.provider}:{binding.model[:80]}"
