"""The started provider: one HTTP client for all sessions. Imported only when a realm opens, because the SDK takes seconds."""

from providers import chat
from providers.openai.endpoint import http_client
from providers.openai.session import OpenAiSession, Target
from providers.openai.settings import Settings, read_options, sampling
from runner.contract.activation import Executor
from runner.contract.errors import CallerError, Code, Finding
from runner.contract.provider import Credentials, NativeSession, SessionDispatch


class OpenAiRealm:
    """Implements ``Realm``. Nothing is sent before the first turn."""

    def __init__(self, settings: Settings, credentials: Credentials | None) -> None:
        self._settings = settings
        self._credentials = credentials
        self._client = http_client(settings, authorized=credentials is not None)

    async def open_session(self, dispatch: SessionDispatch) -> NativeSession:
        """A new conversation. ``CallerError(binding-invalid)`` for options or tool names that cannot be."""
        options = read_options(dispatch.executor.options)
        if isinstance(options, tuple):
            raise CallerError(
                Code.BINDING_INVALID,
                f"role {dispatch.executor.role!r}: the options of the binding cannot be used",
                remedy="admit the workflow again with other options",
                findings=options,
            )
        target = Target(
            settings=self._settings,
            client=self._client,
            credentials=self._credentials,
            model=dispatch.executor.model,
            sampling=sampling(self._settings, options),
        )
        native_id = f"{dispatch.delivery}/{dispatch.step.key}/{dispatch.attempt}"
        return OpenAiSession(native_id, chat.begin(dispatch, self._settings.structured_output), target)

    def review(self, executor: Executor, asked: frozenset[tuple[str, int]]) -> tuple[Finding, ...]:
        """Nothing: an endpoint does not mind not being asked."""
        return ()

    async def close(self) -> None:
        """Closes the connections. Idempotent."""
        await self._client.aclose()
