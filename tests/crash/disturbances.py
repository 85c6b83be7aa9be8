"""What is done to a run, each at one place, and what must hold after it."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.crash.arena import Arena
from tests.crash.driver import Order, Run
from tests.crash.faults import Fault, FaultName
from tests.crash.power import Cut, Part, cut, forget
from tests.crash.proof import Place, Proof

CHECKPOINTS: Final = "checkpoints.sqlite*"
CANCELLED: Final = "cancelled/cancel-requested"
STEP_FAILED: Final = "failed/step-failed"
ABANDONED: Final = "failed/abandoned"
CODES: Final = frozenset("012345")
"""Exit codes with a meaning, for a script; see runner/cli/exit_codes.py."""


def _nothing() -> None:
    """Nobody does anything meanwhile."""


def kill(proof: Proof, place: Place, name: FaultName = "kill", then: Callable[[], None] = _nothing) -> None:
    """Killed there; ``then`` happens while nobody drives."""
    done = proof.strike(name, place)
    proof.died()
    then()
    proof.finish(f"{name} at {place}", [done], git_died=name == "torn")


def pair(proof: Proof, place: Place, second: FaultName, number: int) -> None:
    """Killed there, and something again at the ``number``-th boundary of the recovery, should it come to that."""
    first = proof.strike("kill", place)
    proof.died()
    again = proof.run(Order(fault=Fault(name=second, at=number)))
    proof.report.struck[f"kill, then {second} at {again.struck or 'no boundary'}"] += 1
    proof.died()
    where = f"kill at {place}, then {second} at boundary {number} ({again.struck or 'not reached'})"
    if not _in_own_words(again, second):
        proof.wrong(where, [str(again)])
    _finish_failed(proof, where, [first, again])


def fail(proof: Proof, place: Place, name: FaultName) -> None:
    """One operation fails; the driver says so in its own words or copes, and the next execute goes on."""
    done = proof.strike(name, place)
    if not _in_own_words(done, name):
        proof.wrong(f"{name} at {place}", [str(done)])
    proof.died()
    _finish_failed(proof, f"{name} at {place}", [done])


def _finish_failed(proof: Proof, where: str, runs: list[Run]) -> None:
    """As undisturbed; unless it was a tool that failed, of which the model was told, or the adapter that broke, which fails
    the step: then the story is another, but it ends."""
    at = runs[-1].struck
    if at.endswith(" worktree") or at == "connect":
        proof.ended(where, runs, (STEP_FAILED,))
    else:
        proof.finish(where, runs)


def _in_own_words(done: Run, name: FaultName) -> bool:
    """What nobody expects travels as itself to whoever called ``execute``; it must not end the Delivery."""
    surprised = name == "error" and done.detail.startswith("Surprise:")
    died = done.end == "killed" and name not in ("kill", "torn")
    return surprised or not (done.end in ("traceback", "hung") or died)


def surprise(proof: Proof, place: Place) -> None:
    """The same through the command line: a coded error and an exit code with a meaning, never a traceback."""
    done = proof.strike("error", place, Order(action="command-line"), called="error in the command line")
    where = f"error in the command line at {place}"
    if done.end != "exited" or done.detail not in CODES or "Traceback" in done.said:
        proof.wrong(where, [f"{done}: {done.said}"])
    proof.died()
    proof.finish(where, [done])


def without_checkpoints(proof: Proof, place: Place) -> None:
    """All checkpoints are deleted: they only save time."""
    kill(proof, place, then=lambda: _delete_checkpoints(proof.arena))


def power(proof: Proof, place: Place, how: Cut, part: Part = "all") -> None:
    """The power fails there; ``part`` is how much is lost of what no fsync confirmed."""
    first = proof.strike("kill", place)
    proof.died()
    proof.arena.processes(0.0)
    if how == "unsynced":
        what = forget(proof.arena, proof.before, proof.synced, part, proof.rng)
    else:
        what = cut(proof.arena, how, proof.rng)
    proof.report.struck[f"power cut ({how}) at {place.kind}"] += 1
    where = f"power cut ({how}) at {place}: {what or 'nothing to lose'}"
    if how == "torn" or not what:
        proof.finish(where, [first])
        return
    done, story = proof.settle([first])
    wrong = [] if how == "lost" else proof.miscounted(rarely=done.end == "settled")
    if done.end == "settled":
        if done.result != proof.undisturbed.run.result:
            wrong.append(f"another result {done.result}")
        if proof.arena.traces().ref != proof.undisturbed.traces.ref:
            wrong.append("the published ref is not what the settlement says")
    elif done.end not in ("intervention", "error") or done.family == "caller":
        wrong.append("neither settled nor refused")
    proof.wrong(where, wrong, story)


def backwards(proof: Proof) -> None:
    """The clock is set back again and again."""
    proof.begin()
    proof.finish("clock backwards", [proof.run(Order(backwards=True))])


def second_driver(proof: Proof, place: Place) -> None:
    """While the driver stands still there, alive, another one is kept out, or has done everything before it."""
    others: list[Run] = []
    order, called = Order(commits=False), "second driver"
    done = proof.strike("ask", place, order, lambda: others.append(proof.run()), called)
    where = f"second driver at {place}"
    proof.wrong(where, [str(other) for other in others if other.end not in ("busy", "settled")])
    proof.finish(where, [done])


def cancel(proof: Proof, place: Place, *, killed: bool = False) -> None:
    """Somebody cancels there, and perhaps the driver is killed at once. Then nothing more may begin, and it settles, as
    cancelled or as it would have."""
    acks: list[Run] = []
    name: FaultName = "ask-kill" if killed else "ask"
    said = "cancel, then kill" if killed else "cancel"
    order = Order(action="cancel")
    done = proof.strike(name, place, Order(commits=False), lambda: acks.append(proof.run(order)), said)
    proof.ended(f"{said} at {place}", [*acks, done], (CANCELLED,))


def abandon(proof: Proof, place: Place) -> None:
    """Killed there; whoever is asked what happened gives up: it fails, nothing more begins, and it stays so."""
    done = proof.strike("kill", place)
    proof.died()
    proof.person.gives_up = True
    proof.ended(f"kill at {place}, given up", [done], (ABANDONED,))


def checkpoint_ahead(proof: Proof) -> None:
    """Checkpoints from later than the ledger: stop, never guess."""
    proof.strike("kill", Place("remove checkpoints", 1))
    kept = {path.name: path.read_bytes() for path in proof.arena.layout.root.glob(CHECKPOINTS)}
    proof.strike("kill", Place("start supervisor", 1))
    _delete_checkpoints(proof.arena)
    for name, data in kept.items():
        Path(proof.arena.layout.root / name).write_bytes(data)
    done = proof.run()
    if (done.end, done.family) != ("error", "integrity"):
        proof.wrong("a checkpoint ahead of the ledger", [str(done)])


def _delete_checkpoints(arena: Arena) -> None:
    for path in arena.layout.root.glob(CHECKPOINTS):
        path.unlink()
