"""Words of the command line that are refused."""

import os

from tests.cli.bad import Bad, Ground
from tests.cli.world import CONFIG, ROLES

FILES = {"roles.yaml": ROLES, "o.toml": CONFIG}
BOUND = "run roles.yaml --repo REPO --bind coder=recorded:rec"
WHOLE = "--config o.toml run roles.yaml --repo REPO --input task=x --input n=1"
ADMIT = "admit touch.yaml --repo REPO -o o.json"
LONG = "x" * 300
UMLAUT = "zw\N{LATIN SMALL LETTER O WITH DIAERESIS}"


def given(word: str, place: str) -> Bad:
    """An input."""
    return Bad(words=f"{BOUND} --input {word}", code="input-invalid", place=place, files=FILES, prepare=_odd_files)


def bound(words: str, place: str, code: str = "binding-invalid") -> Bad:
    return Bad(words=f"{WHOLE} {words}", code=code, place=place, files=FILES)


def target(name: str, place: str, *, process: bool = False) -> Bad:
    return Bad(words=f"{ADMIT} --target='{name}'", code="target-invalid", place=place, process=process)


def named(name: str) -> Bad:
    """A Delivery's id."""
    return Bad(words=f"{ADMIT} --id='{name}'", code="delivery-id-invalid", place="cannot name a Delivery")


def written_to(name: str, place: str) -> Bad:
    words = f"admit touch.yaml --repo REPO -o {name}"
    return Bad(words=words, code="usage", place=place, files={"file": ""})


def _odd_files(ground: Ground) -> None:
    (ground.here / "huge").write_bytes(b"x" * 5_000_000)
    (ground.here / "latin").write_bytes(b"\xe9")
    (ground.here / "deep.json").write_bytes(b"[" * 100_000)
    (ground.here / "list.json").write_text("[]")
    os.mkfifo(ground.here / "pipe")


def _admitted(ground: Ground) -> None:
    ground.run("admit", "touch.yaml", "--repo", str(ground.repo), "--id", "d1", "-o", "d1.json")


def _accepted(ground: Ground) -> None:
    """``d1`` has settled, and ``other.json`` is another activation of the same id."""
    _admitted(ground)
    ground.run("admit", "touch.yaml", "--repo", str(ground.repo), "--id", "d2", "-o", "d2.json", "--target", "two")
    ground.run("execute", "d1.json")
    text = (ground.here / "d2.json").read_text()
    (ground.here / "other.json").write_text(resealed(text.replace('"delivery":"d2"', '"delivery":"d1"')))


def resealed(text: str) -> str:
    """An activation that was changed, with the identity of what it says now."""
    from runner.contract.activation import identity_of
    from runner.contract.canonical import canonical, parse

    document = parse(text)
    assert isinstance(document, dict) or hasattr(document, "items")
    return canonical({**document, "binding_identity": identity_of(document)}).decode()


WORDS = {
    "no value": given("task", "'task' is not of the form NAME=VALUE"),
    "no name": given("=x", "'=x' is not of the form"),
    "not JSON": given("n:=x", "n:=x"),
    "half a character": given("'task:=\"\\ud800\"'", "lone surrogate"),
    "a number too large": given("n=99999999999999999999", "'n'"),
    "a value of another type": given("task:=1", "input.task"),
    "an unknown input": given("nope=1", "'nope' was unexpected"),
    "an input twice": given("task=a --input task=b", "'task' is given twice"),
    "a missing file": given("task=@nope", "'nope'"),
    "a directory as input": given("task=@..", "'..'"),
    "a pipe as input": given("task=@pipe", "'pipe'"),
    "a file too large": given("task=@huge", "'huge'"),
    "a file that is not UTF-8": given("task=@latin", "latin"),
    "endless JSON": given("@deep.json", "deep.json"),
    "JSON that is no object": given("@list.json", "list.json"),
    "a role not bound": bound("", "bind coder"),
    "no binding": bound("--bind coder", "'coder' is not a binding"),
    "a binding without a model": bound("--bind coder=openai:", "'coder=openai:'"),
    "a role bound twice": bound("--bind coder=openai:a --bind coder=openai:b", "'coder' is bound twice"),
    "an unknown role": bound("--bind coder=openai:m --bind nobody=openai:m", "bind nobody"),
    "an unknown provider": bound("--bind coder=gemini:m", "'gemini' is not configured", "provider-unknown"),
    "a missing secret": bound("--bind coder=openai:m", "NO_SUCH_KEY", "secret-unreadable"),
    "missing recordings": bound("--bind coder=recorded:nope", "nope", "recording-invalid"),
    "the branch that is checked out": target("main", "'refs/heads/main' is checked out", process=True),
    "below a branch": target("main/sub", "cannot exist beside 'refs/heads/main'"),
    "HEAD as target": target("HEAD", "'refs/heads/HEAD'"),
    "an option as target": target("-f", "'refs/heads/-f'"),
    "a range as target": target("a..b", "'refs/heads/a..b'"),
    "a path as target": target("../x", "'refs/heads/../x'"),
    "a space in a target": target("a b", "'refs/heads/a b'"),
    "no target": target("", "'refs/heads/'"),
    "a target of 300": target(LONG, "'refs/heads/xxx"),
    "a ref that is no branch": target("refs/stash", "'refs/stash'"),
    "a ref of our own": target("refs/runner/d1/result", "'refs/runner/d1/result'"),
    "no id": named(""),
    "dots as id": named(".."),
    "a path as id": named("../x"),
    "a space in an id": named("a b"),
    "an id of 300": named(LONG),
    "an id that is not ASCII": named(UMLAUT),
    "an option as id": named("-x"),
    "an id that is taken": Bad(words=f"{ADMIT} --id d1", code="usage", place="Delivery d1", prepare=_admitted),
    "an unknown commit": Bad(words=f"{ADMIT} --base nope", code="repository-invalid", place="'nope'"),
    "an option as commit": Bad(words=f"{ADMIT} --base=--all", code="repository-invalid", place="'--all'"),
    "no commit": Bad(words=f"{ADMIT} --base=", code="repository-invalid", place="''"),
    "onto a file": written_to("file", "file exists already"),
    "onto a directory": written_to("..", ".. exists already"),
    "below a file": written_to("file/x", "file is not a directory"),
    "to a name of 300": written_to(LONG, "File name too long"),
    "inspect nobody": Bad(words="inspect nobody", code="delivery-unknown", place="nobody"),
    "inspect a path": Bad(words="inspect ../x", code="delivery-id-invalid", place="'../x'"),
    "cancel nobody": Bad(words="cancel nobody", code="delivery-unknown", place="nobody", process=True),
    "cancel 300": Bad(words=f"cancel {LONG}", code="delivery-id-invalid", place="'xxx"),
    "execute nobody": Bad(words="execute nobody", code="delivery-unknown", place="nobody"),
    "execute 300": Bad(words=f"execute {LONG}", code="activation-invalid", place="File name too long"),
    "execute a directory": Bad(words="execute ..", code="activation-invalid", place=".. cannot be read"),
    "execute another under the same id": Bad(
        words="execute other.json", code="correlation-mismatch", place="d1", prepare=_accepted
    ),
}
