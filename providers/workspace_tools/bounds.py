"""What one tool call may cost. ``runner.contract.limits`` says what it may return or write."""

from typing import Final

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A larger file is neither read, searched nor edited."""
ENTRIES_MAX: Final = 1_000
"""Paths one list shows."""
WALKED_MAX: Final = 50_000
"""Directory entries one list or search looks at."""
NAMES_MAX: Final = 200_000
"""Names of one directory that are looked at; custody captures no more files either."""
DEPTH_MAX: Final = 64
"""Directories below each other that are walked; each holds one file descriptor open."""
SEARCHED_BYTES_MAX: Final = 256 * 1024 * 1024
LINE_CHARS_MAX: Final = 300
"""Of a line that a search shows."""
PATH_BYTES_MAX: Final = 4_096
NAME_BYTES_MAX: Final = 255
