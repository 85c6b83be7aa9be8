"""The tools that only look: read, list, search."""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field

from providers.workspace_tools.bounds import ENTRIES_MAX, LINE_CHARS_MAX, SEARCHED_BYTES_MAX
from providers.workspace_tools.paths import Glob, Refused, parts_of
from providers.workspace_tools.tree import Entry, Walk, directory, look, read_file, refuse_other, shown_path, told
from runner.contract.limits import FILE_READ_BYTES_MAX, SEARCH_MATCHES_MAX
from runner.contract.text import excerpt, visible


def read(root: int, path: str, offset: int, limit: int | None) -> str:
    """``limit`` lines from line ``offset`` (from 1), bounded, with a marker where the file goes on."""
    text = text_of(root, path)
    crlf = is_crlf(text)
    lines = (text.replace("\r\n", "\n") if crlf else text).split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return "[the file is empty]"
    if offset > len(lines):
        raise Refused(f"{visible(path)}: has only {len(lines)} lines")
    page = _Page(marks=["[lines end with CR LF]"] if crlf else [])
    shown = 0
    for line in lines[offset - 1 : None if limit is None else offset - 1 + limit]:
        if not page.add(visible(line)):
            break
        shown += 1
    if page.full and not shown:
        page.force(visible(lines[offset - 1]))
        shown = 1
    left = len(lines) - (offset - 1 + shown)
    if left:
        page.marks.append(f"[... {left} more lines; go on with offset {offset + shown}]")
    return page.text()


def text_of(root: int, path: str) -> str:
    """A file as text; ``Refused`` for a binary one or another encoding than UTF-8."""
    parts = parts_of(path)
    if not parts:
        raise Refused("name a file")
    shown = visible("/".join(parts))
    with directory(root, parts[:-1]) as parent:
        data = read_file(parent, parts[-1], "/".join(parts))
    if b"\0" in data:
        raise Refused(f"{shown}: is a binary file of {len(data)} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        problem = f"the byte 0x{data[error.start]:02x} at {error.start} is not UTF-8"
        raise Refused(f"{shown}: is not UTF-8 text ({problem})") from None


def is_crlf(text: str) -> bool:
    """Whether every line ends with CR LF."""
    return "\n" in text and text.count("\n") == text.count("\r\n")


def list_entries(root: int, path: str, glob: str | None, stopped: Callable[[], bool]) -> str:
    """What is in a directory; with ``glob``, everything below it whose path fits."""
    pattern = None if glob is None else Glob(glob)
    parts = parts_of(path)
    walk = Walk(stopped)
    page = _Page()
    with (
        directory(root, parts) as here,
        told(path),
        closing(walk.below(here, (), deep=pattern is not None)) as entries,
    ):
        for count, entry in enumerate(e for e in entries if pattern is None or pattern.matches(e.parts)):
            if count == ENTRIES_MAX or not page.add(shown_path(entry)):
                page.marks.append("[... more entries; list a directory below, or use a narrower glob]")
                break
    return page.text(walk, none="[nothing here]" if pattern is None else "[nothing fits the glob]")


def search(
    root: int, needle: str, path: str, *, glob: str | None, ignore_case: bool, stopped: Callable[[], bool]
) -> str:
    """Lines that hold ``needle`` literally, as ``path:line: text``."""
    if not needle or "\n" in needle:
        raise Refused("text: give the text to find, within one line")
    pattern = None if glob is None else Glob(glob)
    parts = parts_of(path)
    finder = _Finder(needle=needle.lower() if ignore_case else needle, ignore_case=ignore_case)
    walk = Walk(stopped)
    with told(path), closing(_files(root, parts, walk)) as entries:
        for entry in entries:
            if (pattern is None or pattern.matches(entry.parts)) and not finder.look_into(entry):
                break
    if finder.skipped:
        finder.page.marks.append(f"[{finder.skipped} files were skipped: binary, too large or unreadable]")
    return finder.page.text(walk, none="[not found]")


def _files(root: int, parts: tuple[str, ...], walk: Walk) -> Generator[Entry, None, None]:
    """The file at ``parts``, or every file below it; ``parts`` of an entry count from the worktree's root."""
    with directory(root, parts[:-1]) as parent:
        found = look(parent, parts[-1]) if parts else None
        if parts and found is None:
            raise Refused(f"{visible('/'.join(parts))}: there is no such file or directory")
        one = Entry.of(parent, parts, found) if found is not None else None
        if one is not None and found is not None and one.kind != "directory":
            refuse_other(found, visible(one.path))
            yield one
            return
    with directory(root, parts) as here:
        yield from (e for e in walk.below(here, parts, deep=True) if e.kind == "file")


@dataclass(slots=True)
class _Page:
    """Lines for a model, bounded by what one call may return; ``marks`` say what is not there."""

    lines: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    full: bool = False
    _left: int = FILE_READ_BYTES_MAX

    def add(self, line: str) -> bool:
        """False, and nothing added, when the page is full."""
        size = len(line.encode()) + 1
        if self.full or size > self._left:
            self.full = True
            return False
        self._left -= size
        self.lines.append(line)
        return True

    def force(self, line: str) -> None:
        """The beginning of a line that is larger than a page."""
        kept = line.encode()[: self._left].decode(errors="ignore")
        self.lines.append(kept)
        self.marks.append(f"[this line was cut: {len(line) - len(kept)} more characters]")

    def text(self, walk: Walk | None = None, none: str = "") -> str:
        more = ["[... the walk was cut short: too many entries or levels]"] if walk is not None and walk.cut else []
        return "\n".join([*(self.lines or ([none] if none else [])), *self.marks, *more])


@dataclass(slots=True, kw_only=True)
class _Finder:
    needle: str
    ignore_case: bool
    page: _Page = field(default_factory=_Page)
    skipped: int = 0
    _matches: int = 0
    _searched: int = 0

    def look_into(self, entry: Entry) -> bool:
        """False when nothing more fits on the page or nothing more may be searched."""
        if self._searched + entry.size > SEARCHED_BYTES_MAX:
            self.page.marks.append("[... stopped: too much to search; name a directory or a glob]")
            return False
        try:
            data = read_file(entry.parent, entry.parts[-1], entry.path)
        except Refused:
            self.skipped += 1
            return True
        self._searched += len(data)
        if b"\0" in data:
            self.skipped += 1
            return True
        return self._lines(entry, data.decode(errors="backslashreplace"))

    def _lines(self, entry: Entry, text: str) -> bool:
        if self.needle not in (text.lower() if self.ignore_case else text):
            return True
        for number, line in enumerate(text.split("\n"), 1):
            if self.needle not in (line.lower() if self.ignore_case else line):
                continue
            shown = f"{excerpt(entry.path, 1_000)}:{number}: {excerpt(line.rstrip(chr(13)), LINE_CHARS_MAX)}"
            if self._matches == SEARCH_MATCHES_MAX or not self.page.add(shown):
                self.page.marks.append("[... more matches; search for something narrower]")
                return False
            self._matches += 1
        return True
