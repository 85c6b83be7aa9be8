"""Which environment a command sees. Pure."""

import os
from collections.abc import Mapping
from typing import Final

PASSED: Final = ("PATH", "HOME", "LANG", "TMPDIR")
PASSED_PREFIX: Final = "LC_"


def clean_environment(
    ours: Mapping[str, str], declared: Mapping[str, str], *, instead: Mapping[str, str] | None = None
) -> dict[str, str]:
    """PATH, HOME, LANG, LC_* and TMPDIR of ``ours``, or what stands ``instead`` of them inside a boundary, then what the
    step declared. PATH is never absent."""
    kept = {k: v for k, v in ours.items() if k in PASSED or k.startswith(PASSED_PREFIX)}
    return {"PATH": os.defpath, **kept, **(instead or {}), **declared}


def environment_problem(declared: Mapping[str, str]) -> str | None:
    """What no process can be given, or None."""
    for name, value in declared.items():
        if not name or "=" in name or "\x00" in name:
            return f"env: {name!r} cannot name an environment variable"
        if "\x00" in value:
            return f"env: the value of {name} holds a NUL byte"
    return None
