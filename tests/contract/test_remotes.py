"""Which addresses can be pushed to, and what a git process that talks to them knows of the user."""

import pytest
from pydantic import ValidationError

from runner.contract.activation import Target
from runner.contract.remotes import local_path, ref_in, remote_environment, remote_problem


@pytest.mark.parametrize(
    "url",
    [
        "/srv/a b.git",
        "file:///srv/a.git",
        "https://host.example/a.git",
        "https://me@host.example:8443/a.git",
        "http://127.0.0.1:1/a",
        "ssh://git@host.example:22/a.git",
        "git@host.example:a/b.git",
        "host:a",
        "git@[::1]:a",
    ],
)
def test_an_address_that_git_pushes_to_is_taken(url: str) -> None:
    """Also as part of an activation."""
    assert remote_problem(url) is None
    assert Target(ref="refs/heads/x", expected="absent", remote=url).remote == url


@pytest.mark.parametrize(
    "url",
    [
        "relative/a.git",
        "../a.git",
        "-oProxyCommand=x:a",
        "ssh://-oProxyCommand=x/a",
        "ext::sh -c x",
        "fd::3",
        "git://host/a",
        "https://me:secret@host/a",
        "https://host/a?token=x",
        "https:///a",
        "https://host:port/a",
        "file://host/a",
        "host:a\nb",
        " /a",
        "https://[bad/a",
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    """No program of a remote helper, no option in disguise, no secret, nothing that depends on where one stands."""
    assert remote_problem(url)
    with pytest.raises(ValidationError):
        Target(ref="refs/heads/x", expected="absent", remote=url)


def test_only_what_transport_needs_is_passed_on() -> None:
    """Nothing that git takes from its environment comes through, and nobody can be asked."""
    found = remote_environment(
        {"HOME": "/h", "SSH_AUTH_SOCK": "/s", "GIT_SSH_COMMAND": "evil", "GIT_DIR": "/d", "X": "1"}
    )
    assert (found["HOME"], found["SSH_AUTH_SOCK"]) == ("/h", "/s")
    assert "GIT_DIR" not in found and "X" not in found
    assert "BatchMode=yes" in found["GIT_SSH_COMMAND"] and found["GIT_TERMINAL_PROMPT"] == "0"


def test_what_lies_on_this_machine() -> None:
    """Paths with and without their scheme."""
    assert [local_path(u) for u in ("/a", "file:///a", "host:/a")] == ["/a", "/a", None]


def test_a_ref_is_found_by_its_whole_name() -> None:
    """Git also lists refs that only end like it."""
    listing = b"1\trefs/heads/a/refs/heads/x\n2\trefs/heads/x\n3\trefs/tags/x^{}\n"
    assert (ref_in(listing, "refs/heads/x"), ref_in(listing, "refs/tags/x")) == ("2", None)
