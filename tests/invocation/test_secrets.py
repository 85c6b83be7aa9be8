"""A secret is read when it is needed, from where the config says, and is never shown, stored or sent to a model."""

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.contract.canonical import canonical, freeze
from runner.contract.config import CredentialSource
from runner.contract.errors import CallerError, Code
from runner.contract.ports import Completed, Failed
from runner.contract.provider import Completion, Failure, OutputDelta, ToolRequest, TurnEnded
from runner.contract.redaction import REDACTED, Redactor
from runner.invocation.credentials import SourceCredentials
from tests.invocation.conftest import Make
from tests.invocation.fakes import SECRET, completes, response

ODD = 'sk-"ü/\\+ &=x9' + "y" * 20


def leased(source: CredentialSource, environment: dict[str, str] | None = None) -> str:
    with SourceCredentials(source, Redactor(), environment or {}).lease() as secret:
        return secret


def refused(source: CredentialSource, environment: dict[str, str] | None = None) -> CallerError:
    with pytest.raises(CallerError) as caught:
        leased(source, environment)
    assert caught.value.code is Code.SECRET_UNREADABLE
    assert SECRET not in caught.value.message + caught.value.remedy
    return caught.value


def write(path: Path, text: str = SECRET, mode: int = 0o600) -> CredentialSource:
    path.write_text(text)
    path.chmod(mode)
    return CredentialSource(file=str(path))


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_private_file_holds_a_secret(tmp_path: Path, mode: int) -> None:
    """Read-only or not, owner only; surrounding white space is not part of it."""
    assert leased(write(tmp_path / "key", f"{SECRET}\n", mode)) == SECRET


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o700, 0o660, 0o4600, 0o000])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    """Any bit beyond the owner's read and write."""
    error = refused(write(tmp_path / "key", mode=mode))
    assert str(tmp_path / "key") in error.message


def test_what_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    """A link, a FIFO (without waiting for it), a directory, nothing."""
    write(tmp_path / "key")
    (tmp_path / "link").symlink_to(tmp_path / "key")
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "pipe", "none", "."):
        refused(CredentialSource(file=str(tmp_path / name)))
    refused(CredentialSource(file=f"{tmp_path}/nul\x00"))


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    """Whoever owns it could have written it. Root can give a file away; for anybody else, root's files are such."""
    source = write(tmp_path / "key") if os.geteuid() == 0 else CredentialSource(file="/etc/passwd")
    if source.file != "/etc/passwd":
        os.chown(tmp_path / "key", 12_345, -1)
    assert "belongs to user" in refused(source).message


@pytest.mark.parametrize("text", ["", " \n", "short", f"{SECRET}\n{SECRET}", "tab\there-and-more", "x" * 70_000])
def test_what_is_no_secret_is_refused(tmp_path: Path, text: str) -> None:
    """Empty, too short to be kept out of texts, several lines, far too long."""
    refused(write(tmp_path / "key", text))


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    """Without showing them."""
    (tmp_path / "key").write_bytes(b"\xff" * 20)
    (tmp_path / "key").chmod(0o600)
    assert "UTF-8" in refused(CredentialSource(file=str(tmp_path / "key"))).message


def test_an_environment_variable_holds_a_secret() -> None:
    """A missing one is named."""
    assert leased(CredentialSource(env="K"), {"K": SECRET}) == SECRET
    assert "environment variable K" in refused(CredentialSource(env="K")).message
    refused(CredentialSource(env="K"), {"K": ""})


@pytest.mark.parametrize("secret", [SECRET, ODD])
def test_every_printed_form_is_redacted(secret: str) -> None:
    """As it is, in JSON, in a URL, in hex, and in base64 whatever stands around it."""
    redactor = Redactor()
    redactor.remember(secret)
    raw = secret.encode()
    forms = [secret, canonical(secret).decode()[1:-1], quote(secret, safe=""), raw.hex(), raw.hex().upper()]
    assert redactor.text(" ".join(forms)) == " ".join([REDACTED] * len(forms))
    for before in range(4):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = redactor.text(encode(b"u" * before + raw + b":after").decode())
            assert REDACTED in text
            assert len(text) < 40


def test_json_is_redacted_in_values_and_keys() -> None:
    """At any depth; no entry is lost when two keys become equal."""
    redactor = Redactor()
    redactor.remember(SECRET)
    value = freeze({SECRET: [{"a": f"x{SECRET}y"}], REDACTED: 1, "n": None})
    redacted = redactor.json(value)
    assert SECRET not in canonical(redacted).decode()
    assert isinstance(redacted, Mapping)
    assert len(redacted) == 3


@given(st.lists(st.text("abc" + SECRET[0], max_size=3), max_size=12), st.integers(1, 30))
def test_a_stream_is_redacted_like_the_whole(noise: list[str], size: int) -> None:
    """However the pieces fall."""
    redactor = Redactor()
    redactor.remember(SECRET)
    text = SECRET.join(noise)
    stream = redactor.stream()
    shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.rest()
    assert shown == redactor.text(text)


def test_nothing_shows_a_secret_by_itself() -> None:
    """Neither a redactor nor a credential in a traceback or a log."""
    redactor = Redactor()
    redactor.remember(SECRET)
    credentials = SourceCredentials(CredentialSource(env="K"), redactor, {"K": SECRET})
    assert SECRET not in f"{redactor!r}{credentials!r}{redactor.stream()!r}"


async def test_a_secret_reaches_no_file_and_no_model(make: Make, tmp_path: Path) -> None:
    """Whoever leaks it - the prompt, a file, the endpoint's answer, its errors, a result - it is gone from the ledger, the
    artifacts, the recording, the progress and everything the model is told."""
    delivery = make(record=True)
    encoded = base64.b64encode(f"user:{SECRET}".encode()).decode()
    (delivery.worktree / "leak").write_text(f"key={SECRET}\n{encoded}\n" + "x" * 5_000)
    delivery.script.turns = [
        [Failure(exception="", http_status=500, error_code=None, message=f"bad key {SECRET}")],
        [
            OutputDelta(text=SECRET[:9]),
            OutputDelta(text=SECRET[9:]),
            response(f"the key is {SECRET}"),
            ToolRequest(id="c1", name="read", arguments=freeze({"path": "leak"})),
            ToolRequest(id="c2", name="read", arguments=freeze({"path": SECRET})),
            ToolRequest(id="c3", name=SECRET, arguments=freeze({SECRET: SECRET})),
            TurnEnded(finish="tool_calls"),
        ],
        [response(), Completion(value=freeze({"verdict": SECRET})), TurnEnded(finish="stop")],
        completes(),
    ]
    dispatch = delivery.dispatch(prompt=f"Use {SECRET} and {quote(SECRET)}.")
    assert isinstance(await delivery.invocation.invoke(dispatch), Completed)
    delivery.ledger.close()
    told = repr(delivery.script.heard) + repr(delivery.script.opened) + repr(delivery.shown.texts)
    hidden = [SECRET, encoded[8:-4], SECRET.encode().hex()]
    assert REDACTED in told
    files = [p for p in tmp_path.rglob("*") if p.is_file() and p != delivery.worktree / "leak"]
    assert {"ledger.sqlite", "code.1.jsonl"} <= {p.name for p in files}
    assert any("artifacts" in str(p) for p in files)
    for form in hidden:
        assert form not in told
        assert not [p for p in files if form.encode() in p.read_bytes()]


async def test_a_failed_step_names_no_secret(make: Make) -> None:
    """The last failure's message goes to people."""
    delivery = make()
    delivery.script.turns = [
        [Failure(exception=SECRET, http_status=400, error_code=SECRET, message=f"{SECRET}\x1b[2J")]
    ]
    disposition = await delivery.invocation.invoke(delivery.dispatch())
    assert isinstance(disposition, Failed)
    assert SECRET not in disposition.message
    assert "\x1b" not in disposition.message
