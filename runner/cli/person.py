"""The person at the terminal: asked for what a Delivery waits for, one question at a time.

An empty answer leaves the question open; so does Ctrl-C, and then nothing more is asked by this execute. What is typed before
a question is shown does not answer it. A question that is answered from elsewhere meanwhile goes away.
"""

import asyncio
import os
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from runner.cli.attention import answer_text, choices, prompt_lines, step_name, takes_comment
from runner.cli.live import LiveView
from runner.cli.said import value_of, who, with_comment
from runner.cli.terminal import Line, write_lines
from runner.contract.canonical import FrozenJson
from runner.contract.errors import CallerError
from runner.contract.ids import DeliveryId
from runner.contract.outcomes import OpenWait
from runner.contract.text import excerpt

if TYPE_CHECKING:
    from runner.contract.ports import Answer, Deferred

DIFF_LINES_MAX: Final = 200
LINE_CHARS_MAX: Final = 400
ANSWER_BYTES_MAX: Final = 65_536

Changed = Callable[[DeliveryId], str]
"""What the Delivery has changed so far, as a diff; called in a thread."""


def is_there() -> bool:
    """Whether a person can be asked: input and messages are a terminal, and this process is in its foreground."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:  # a terminal that controls nobody
        return True


class Person:
    """``ports.Bridge`` for both kinds of questions."""

    def __init__(self, view: LiveView, changed: Changed) -> None:
        self._view: Final = view
        self._changed: Final = changed
        self._turn: Final = asyncio.Lock()
        self._line: asyncio.Future[str] | None = None
        self._left = False
        self._asked: set[str] = set()

    def leave(self) -> bool:
        """Ctrl-C: whether that was an answer. From then on everything is deferred."""
        if self._line is None:
            return False
        self._left = True
        if not self._line.done():
            sys.stderr.write("\n")
            self._line.set_result("")
        return True

    async def ask(self, delivery: DeliveryId, wait: OpenWait) -> "Answer | Deferred":
        """See ``ports.Bridge``."""
        from runner.contract.ports import Answer, Deferred

        async with self._turn:
            if self._left or not is_there():
                return Deferred()
            again = wait.wait in self._asked
            self._asked.add(wait.wait)
            changed = await asyncio.to_thread(self._changed, delivery) if wait.show_diff and not again else ""
            with self._view.paused():
                write_lines(_refused(wait) if again else question_lines(wait, changed), stderr=True)
                try:
                    value = await self._value(wait)
                except asyncio.CancelledError:
                    write_lines(["", ("  (no longer asked)", "dim")], stderr=True)
                    raise
            return Deferred() if value is None else Answer(value=value, who=who())

    async def _value(self, wait: OpenWait) -> FrozenJson | None:
        words = choices(wait)
        while True:
            word = (await self._read(f"  {' / '.join(words) or 'answer'} (empty: later) > ")).strip()
            if not word:
                return None
            try:
                value = value_of(word)
            except CallerError as error:
                write_lines([(f"  {error.message}", "red")], stderr=True)
                continue
            if isinstance(value, str) and words and value not in words:
                write_lines([(f"  one of: {', '.join(words)}; or a whole answer as JSON", "red")], stderr=True)
                continue
            if isinstance(value, str) and wait.outcome is not None and takes_comment(wait):
                comment = (await self._read("  comment (empty: none) > ")).strip()
                return None if self._left else with_comment(wait, value, comment or None)
            return value

    async def _read(self, prompt: str) -> str:
        """One line from the terminal, whose driver does the editing; empty at its end, and when the person leaves."""
        stdin, loop = sys.stdin.fileno(), asyncio.get_running_loop()
        with suppress(termios.error):  # no terminal any more: reading says so
            termios.tcflush(stdin, termios.TCIFLUSH)
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line: asyncio.Future[str] = loop.create_future()
        self._line = line

        def readable() -> None:
            try:
                data = os.read(stdin, ANSWER_BYTES_MAX)
            except OSError:
                data = b""
            if not line.done():
                line.set_result(data.decode(errors="replace"))

        loop.add_reader(stdin, readable)
        try:
            return await line
        finally:
            loop.remove_reader(stdin)
            self._line = None


def question_lines(wait: OpenWait, changed: str) -> list[Line]:
    """The question as it is put to the person. Pure."""
    until = f", until {wait.expires_at}" if wait.expires_at else ""
    lines: list[Line] = [""]
    if changed:
        lines.append(("changed so far", "bold"))
        lines += _diff_lines(changed)
    lines.append((f"{step_name(wait.step)} asks (wait {wait.wait}{until})", "bold"))
    lines += [f"  {line}" for line in prompt_lines(wait)]
    return [*lines, (f"  answer: {answer_text(wait)}", "dim")]


def _diff_lines(changed: str) -> list[Line]:
    all_lines = changed.splitlines()
    lines: list[Line] = []
    for line in all_lines[:DIFF_LINES_MAX]:
        text = f"  {excerpt(line, LINE_CHARS_MAX)}"
        added, removed = line.startswith("+") and line[:3] != "+++", line.startswith("-") and line[:3] != "---"
        lines.append((text, "green") if added else (text, "red") if removed else text)
    more = len(all_lines) - DIFF_LINES_MAX
    return [*lines, (f"  ... and {more} more lines", "dim")] if more > 0 else lines


def _refused(wait: OpenWait) -> list[Line]:
    return [(f"  that does not fit; an answer is: {answer_text(wait)}", "red")]
