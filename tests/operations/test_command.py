"""Real processes: how they end, what is journaled, what is kept of their output."""

import os
from pathlib import Path

import pytest

from runner.contract.activation import EffectClass
from runner.contract.canonical import thaw
from runner.contract.errors import Code, EnvironmentFault
from runner.contract.events import ToolCalled, ToolFailed, ToolSucceeded
from runner.contract.records import Record
from tests.operations.conftest import Bench
from tests.operations.fakes import MemoryLedger


async def test_exit_status_and_streams(bench: Bench) -> None:
    """A non-zero exit is a result: recorded as succeeded, with the streams apart."""
    result = await bench.sh("echo out; echo err >&2; exit 3")
    assert (result.end, result.status, result.stdout, result.stderr) == ("exit", 3, "out\n", "err\n")
    assert bench.ledger.kinds == ["tool.called", "process.started", "tool.succeeded"]
    event = bench.ledger.records[-1].event
    assert isinstance(event, ToolSucceeded)
    assert thaw(bench.ledger.artifacts.get(event.value)) == {
        "end": "exit", "status": 3, "stdout": "out\n", "stderr": "err\n", "truncated": False, "message": ""
    }  # fmt: skip


async def test_intent_is_durable_before_the_process(bench: Bench) -> None:
    """When the intent is recorded the process has had no effect yet; it names argv, cwd and variables, not values."""
    witness = bench.worktree / "ran"
    seen: list[bool] = []
    bench.ledger.on_append = lambda record: seen.append(witness.exists())
    bench.secrets = ("s3cret",)
    await bench.sh("touch ran", env={"TOKEN": "s3cret"})
    assert seen == [False, False, True]
    called = bench.ledger.records[0].event
    assert isinstance(called, ToolCalled)
    assert (called.tool, called.caller, called.effect, called.call) == (
        "command",
        "workflow",
        "workspace",
        "tests@1/1/t1",
    )
    assert thaw(called.input.inline) == {"argv": ["/bin/sh", "-c", "touch ran"], "cwd": ".", "env": ["TOKEN"]}


@pytest.mark.parametrize("effect", ["read", "idempotent", "workspace", "external"])
async def test_a_result_is_durable_with_its_files_and_an_external_one_at_once(
    bench: Bench, effect: EffectClass
) -> None:
    """A crash between a result and the savepoint of its files would leave one without the other; the world outside has no
    savepoint, so what happened there is never staged."""
    await bench.sh("touch ran", effect=effect)
    kinds = [record.event.KIND for record in bench.ledger.staged]
    assert kinds == ([] if effect == "external" else ["tool.succeeded"])


async def test_no_start_without_its_record(bench: Bench) -> None:
    """A ledger that cannot be written means that nothing ran."""
    bench.ledger = MemoryLedger(full_after=0)
    with pytest.raises(EnvironmentFault) as caught:
        await bench.sh("touch ran")
    assert caught.value.code is Code.DISK_FULL
    assert not (bench.worktree / "ran").exists()


async def test_signal_is_told_apart_from_exit(bench: Bench) -> None:
    """Death by a signal is not an exit status."""
    result = await bench.sh("kill -SEGV $$")
    assert (result.end, result.status) == ("signal", 11)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("no-such-program",), "'no-such-program' was not found"),
        (("./plain",), "'./plain' is not executable"),
        (("./no-interpreter",), "first line names"),
        (("./empty",), "neither a program nor a script"),
        (("true", "a\x00b"), "NUL byte"),
        (("true", "x" * 3_000_000), "larger than the system accepts"),
    ],
)
async def test_not_started(bench: Bench, argv: tuple[str, ...], expected: str) -> None:
    """What cannot be executed says why, and is a recorded failure."""
    for name, text, mode in (
        ("plain", "x", 0o644),
        ("no-interpreter", "#!/no/such\n", 0o755),
        ("empty", "\x01", 0o755),
    ):
        (bench.worktree / name).write_text(text)
        (bench.worktree / name).chmod(mode)
    result = await bench.runner().command(bench.request(*argv))
    assert (result.end, result.status) == ("not-started", -1)
    assert expected in result.message
    event = bench.ledger.records[-1].event
    assert isinstance(event, ToolFailed)
    assert event.message == result.message


async def test_missing_directory(bench: Bench) -> None:
    """A working directory that is not there is named as such, not as a missing program."""
    result = await bench.sh("true", cwd=str(bench.worktree / "gone"))
    assert result.end == "not-started"
    assert "working directory" in result.message and "No such file" in result.message


async def test_directory_outside_the_worktree(bench: Bench, tmp_path: Path) -> None:
    """A directory that an earlier step replaced by a link out of the worktree is refused before anything runs."""
    (bench.worktree / "src").symlink_to(tmp_path)
    result = await bench.sh("touch ran", cwd=str(bench.worktree / "src"))
    assert (result.end, result.message) == ("not-started", "the working directory leads out of the worktree")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A": "\x00"}])
async def test_impossible_environment(bench: Bench, env: dict[str, str]) -> None:
    """Names and values that no process can be given are refused by name."""
    assert (await bench.sh("true", env=env)).message.startswith("env:")


async def test_clean_environment(bench: Bench) -> None:
    """Only PATH, HOME, LANG, LC_*, TMPDIR and what the step declared; no input; its own session."""
    os.environ["RUNNER_TEST_AMBIENT"] = "leak"
    try:
        result = await bench.runner().command(bench.request("env", env={"MINE": "1", "HOME": "/elsewhere"}))
    finally:
        del os.environ["RUNNER_TEST_AMBIENT"]
    names = dict(line.split("=", 1) for line in result.stdout.splitlines())
    assert {"PATH", "MINE"} <= set(names)
    assert all(n in ("PATH", "HOME", "LANG", "TMPDIR", "MINE") or n.startswith("LC_") for n in names)
    assert names["HOME"] == "/elsewhere"
    assert (await bench.sh("cat; ls /proc/self/fd")).stdout.split() == ["0", "1", "2", "3"]
    assert (await bench.sh("ps -o sid= -p $$ | tr -d ' '; echo $$")).stdout.split()[0] != str(os.getsid(0))


async def test_argv_is_never_a_shell_string(bench: Bench) -> None:
    """Shell words in an argument are just text."""
    result = await bench.runner().command(bench.request("echo", "$(touch ran); `id`"))
    assert result.stdout == "$(touch ran); `id`\n"
    assert not (bench.worktree / "ran").exists()


async def test_flood_is_bounded(bench: Bench) -> None:
    """Ten megabytes leave head, tail and a count; one endless line is no exception."""
    result = await bench.sh(
        "echo begin; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo end; head -c 9999 /dev/zero >&2"
    )
    assert result.truncated
    assert result.stdout.startswith("begin\nxxx") and result.stdout.endswith("xxx\nend\n")
    assert f"[... {10_000_011 - 4096} bytes cut here ...]" in result.stdout
    assert len(result.stderr) < 4200


async def test_hostile_bytes(bench: Bench) -> None:
    """Bytes that are no text, and text that a terminal would obey, arrive visible."""
    result = await bench.sh(r"printf '\377\033[2J\000ok\303'")
    assert result.stdout == "\\xff\\x1b[2J\\x00ok\\xc3"


async def test_secrets_are_redacted_everywhere(bench: Bench) -> None:
    """Output, progress, journal and messages: the secret stands in none of them."""
    records: list[Record] = bench.ledger.records
    bench.secrets = ("s3cret",)
    result = await bench.sh("printf 'a s3'; printf 'cret b\n'; echo s3cret >&2")
    other = await bench.runner().command(bench.request("s3cret-tool"))
    assert result.stdout == "a [redacted] b\n" and result.stderr == "[redacted]\n"
    assert other.end == "not-started"
    everything = repr((result, other, [r.event for r in records], bench.shown.lines))
    assert "s3cret" not in everything
