"""Which repositories elsewhere may be pushed to, and with what of the user's a git process may reach them. Pure.

Admission looks at the target and custody moves it, so both use the same rules: of the user's git configuration nothing counts.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

SCHEMES: Final = ("file", "http", "https", "ssh")
ANSWER_S: Final = 60.0
"""How long a repository elsewhere may say nothing."""
VARIABLES: Final = (
    *("HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("https_proxy", "HTTPS_PROXY", "http_proxy", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"),
)
"""What transport needs: ssh's own files, agent and user, ``.netrc``, certificates, the way out."""
_SSH: Final = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4"
_HOST: Final = re.compile(
    r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9._-]*:[^:].*|(?:[A-Za-z0-9._-]+@)?\[[0-9a-fA-F:.]+\]:.+"
)
"""``user@host:path``."""


def remote_problem(url: str) -> str | None:
    """Why ``url`` cannot be pushed to, or None: an absolute path, ``file:``, ``http:``, ``https:``, ``ssh:``, or
    ``user@host:path``, without a secret in it."""
    if not url.isprintable() or url != url.strip():
        return "holds characters that no address has"
    if "://" not in url:
        good = url.startswith("/") or _HOST.fullmatch(url) is not None
        return None if good else "is neither an absolute path nor an address that git pushes to"
    try:
        parts = urlsplit(url)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        return "is not an address"
    if parts.scheme not in SCHEMES:
        return f"is not {', '.join(SCHEMES)} or user@host:path"
    if parts.password is not None:
        return "holds a password, which would be kept with the Delivery"
    if parts.query or parts.fragment:
        return "holds a query, which may be a secret that would be kept with the Delivery"
    host = parts.hostname or ""
    if parts.scheme == "file":
        return None if not host and parts.path.startswith("/") else "names no absolute path"
    return None if host and not host.startswith("-") and port_is_good else "names no host"


def local_path(url: str) -> str | None:
    """The path of a repository on this machine; None for any other."""
    if url.startswith("/"):
        return url
    return url.removeprefix("file://") if url.startswith("file:///") else None


def remote_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a git process that talks to a repository elsewhere gets beyond its usual variables. It can ask nobody anything and
    reads no configuration of the user's or the system's."""
    kept = {name: environment[name] for name in VARIABLES if name in environment}
    return {
        **kept,
        "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES),
        "GIT_SSH_COMMAND": _SSH,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "XDG_CONFIG_HOME": "/nonexistent",
    }


REMOTE_CONFIG: Final[Mapping[str, str]] = {
    "credential.helper": "",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": f"{ANSWER_S:.0f}",
    "http.followRedirects": "initial",
    "push.followTags": "false",
    "push.recurseSubmodules": "no",
    "push.gpgSign": "false",
}
"""Git settings of such a process."""


def ref_in(listing: bytes, ref: str) -> str | None:
    """The object id of exactly ``ref`` in what ``git ls-remote`` answered; None when it is not there."""
    for line in listing.decode("utf-8", "surrogateescape").splitlines():
        oid, _, name = line.partition("\t")
        if name == ref:
            return oid
    return None
