"""The system prompt. Deterministic: the same binding and action give the same bytes, so that recordings stay valid."""

from runner.contract.activation import Executor
from runner.contract.ports import Dispatch
from runner.contract.provider import ProviderDescriptor
from runner.invocation.completion import contract_text


def system_prompt(executor: Executor, dispatch: Dispatch, offered: ProviderDescriptor) -> str:
    """Instructions of the executor, then what the action adds, then the contract of the result unless the provider makes
    the model keep it natively; parts that are empty leave no gap."""
    parts = [executor.instructions, dispatch.system]
    if "structured-output" not in offered.features:
        parts.append(contract_text(dispatch.action.result_schema))
    return "\n\n".join(part.strip() for part in parts if part.strip())
