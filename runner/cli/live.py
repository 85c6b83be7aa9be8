"""The live view: an observer that shows one line per step. Ended steps stay as lines, running ones tick below them."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from runner.cli.run_view import STYLES, RunView, StepLine, isolation_text
from runner.cli.terminal import Style, console, say
from runner.contract import events
from runner.contract.ids import StepRef
from runner.contract.records import Record
from runner.contract.text import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

REFRESH_PER_S = 5


class LiveView:
    """``ports.Observer`` on stderr: a moving part on a terminal, plain lines on a pipe. A context manager."""

    def __init__(self, isolation: str) -> None:
        self._isolation = isolation
        self._began = False
        self.view = RunView()
        self.changed: set[str] = set()
        """Paths that differ from the baseline at some point of what was seen."""
        self._live: Any = None
        self._moves = sys.stderr.isatty()
        self._held: list[tuple[str, Style]] | None = None
        """Lines that came while a person was asked."""
        self._lock = threading.RLock()
        """Records come from another thread than questions do."""

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The screen belongs to somebody else meanwhile: nothing moves, and what comes is shown afterwards."""
        with self._lock:
            self._held = []
            self._end()
        try:
            yield
        finally:
            with self._lock:
                held, self._held = self._held, None
                self._begin()
                for text, style in held or ():
                    self._print(text, style)

    def _begin(self) -> None:
        if not self._moves:
            return
        from rich.live import Live

        self._live = Live(
            get_renderable=self._running,
            console=console(stderr=True),
            refresh_per_second=REFRESH_PER_S,
            transient=True,
        )
        self._live.start()

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def record(self, record: Record) -> None:
        """See ``ports.Observer``."""
        if not self._began:
            self._began = True
            self.note(f"isolation  {isolation_text(self._isolation)}")
        line = self.view.take(record, time.monotonic())
        if line is not None and (not self._moves or line.state != "running"):
            self._show(line)
        match record.event:
            case events.DeliveryAccepted():
                self.note("accepted")
            case events.SavepointTaken(changed=changed, role=role) if role != "baseline":
                self.changed.update(changed)
            case events.CancelRequested(cause=cause):
                self.note(f"cancelling ({cause})")
            case events.InterventionNeeded(reason=reason):
                self.note(f"a person is needed: {reason}")
            case events.TerminalProposed(outcome=outcome, reason=reason):
                self.note(f"{outcome} ({reason}), settling")
            case _:
                pass

    def progress(self, step: StepRef, text: str) -> None:
        """See ``ports.Observer``."""
        self.view.progress(step, text)

    def note(self, text: str, style: Style = "dim") -> None:
        """One line that is about no step."""
        self._print(f"  {text}", style)

    def _show(self, line: StepLine) -> None:
        columns = console(stderr=True).width if self._moves else None
        self._print("\n".join(line.lines(time.monotonic(), columns)), STYLES[line.state])

    def _print(self, text: str, style: Style) -> None:
        with self._lock:
            if self._held is not None:
                self._held.append((text, style))
                return
            if self._live is None:
                say(text, style)
                return
            from rich.text import Text

            # Printing shows the moving part again as it was last drawn: draw it anew, without the step that just ended.
            self._live.refresh()
            self._live.console.print(Text(visible(text), style=style))

    def _running(self) -> "RenderableType":
        from rich.text import Text

        now = time.monotonic()
        lines = [visible(line.line(now)) for line in self.view.running()]
        total = str(self.view.total)
        lines.append(f"  isolation {self._isolation}" + (f", so far {total}" if total else ""))
        return Text("\n".join(lines), style="cyan", no_wrap=True, overflow="ellipsis")


__all__ = ["LiveView"]
