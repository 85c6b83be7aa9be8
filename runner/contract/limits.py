"""Bounds on everything that outside input can grow. Each names its source; a package may ask for less, never for more."""

from typing import Final

INLINE_BYTES_MAX: Final = 2_048
"""A step output up to this size lives in the ledger itself; a larger one is an artifact file (two fsyncs)."""

PACKAGE_BYTES_MAX: Final = 4 * 1024 * 1024
ACTIVATION_BYTES_MAX: Final = 32 * 1024 * 1024
STEPS_MAX: Final = 2_000
EXPRESSION_CHARS_MAX: Final = 2_000
EXPRESSION_MACROS_MAX: Final = 2
"""Comprehensions nested in one expression; a million-element product of six took 4.6 s when measured."""
TEMPLATE_CHARS_MAX: Final = 262_144

VISITS_MAX: Final = 10_000
ATTEMPTS_MAX: Final = 10
RENEWALS_DEFAULT: Final = 3
RENEWALS_MAX: Final = 1_000
"""How often one approval may be opened again after it expired."""
TURNS_MAX: Final = 200
TURNS_DEFAULT: Final = 50
"""Model calls one agent episode may make."""

OUTPUT_BYTES_DEFAULT: Final = 65_536
"""What a command's output keeps, half head and half tail."""
OUTPUT_BYTES_MAX: Final = 8 * 1024 * 1024
COMMAND_TIMEOUT_S_DEFAULT: Final = 600.0
TERM_GRACE_S: Final = 5.0
"""Between TERM and KILL; also what an in-flight model call gets after a cancel (durability.md)."""
INBOX_POLL_S: Final = 0.2
"""How soon a driver notices a cancel, an answer or a resolution from another process (durability.md)."""

FILE_READ_BYTES_MAX: Final = 262_144
"""What one file tool call returns or writes."""
SEARCH_MATCHES_MAX: Final = 200
TOOL_RESULT_BYTES_MAX: Final = 2 * FILE_READ_BYTES_MAX
"""What is kept of one tool result, head and tail; file tools stay below it."""
TOOL_CALL_TIMEOUT_S: Final = 300.0
"""How long a tool server may take for one call."""

CAPTURE_FILES_MAX: Final = 200_000
CAPTURE_BYTES_MAX: Final = 2 * 1024**3
CAPTURE_FILE_BYTES_MAX: Final = 100 * 1024**2
"""A larger file is reported as not captured; restore leaves it alone (custody case 4)."""

CHECKPOINT_EVERY_SUPERSTEPS: Final = 64
"""Sparse checkpoints: they only save time, the ledger is the truth (lowering.md)."""
