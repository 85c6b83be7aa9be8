"""The graph's state as LangGraph holds it (plain data, merging reducers), and the host's live position.

The position is the fold of the ledger so far; the graph state is a snapshot of it that nodes bring up to date whenever one
of them returns. ``sq`` in the state is the ledger sequence it stands for: state = fold of the ledger up to ``sq``, exactly.
No outputs, no texts, no objects: references are step keys, and what a step said is looked up in the ledger.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict

from hosts.langgraph.readiness import Closing, Delta, Mark, Snapshot, Topology
from runner.contract import plan as words
from runner.contract.errors import Code, IntegrityError
from runner.contract.ids import SiteId

RANKS: Final[Mapping[str, int]] = {words.SUPERSEDED: 0, words.SKIPPED: 1}
"""Which mark of one visit wins, should two ever meet: one that ran over a skip over a superseded one."""
_RAN: Final = 2
_KINDS: Final = ("back", "end", "environment")


def merge_marks(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """By (visit, rank of the outcome): the order in which nodes of one superstep report does not matter."""
    return _merge(old, new, lambda mark: (mark[0], RANKS.get(mark[1], _RAN)))


def merge_counts(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    """The larger count."""
    return _merge(old, new, lambda count: count)


def merge_closings(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """By (visit, kind)."""
    return _merge(old, new, lambda closing: (closing[0], _KINDS.index(closing[2])))


def later(old: int, new: int) -> int:
    """The later ledger sequence."""
    return max(old, new)


def _merge(old: Mapping[str, Any], new: Mapping[str, Any], rank: Any) -> dict[str, Any]:
    merged = dict(old)
    for key, value in new.items():
        if key not in merged or rank(value) > rank(merged[key]):
            merged[key] = value
    return merged


class GraphState(TypedDict):
    """``st[site] = [visit, outcome, last visit that ran]``, ``ep[site]`` = times re-opened, ``us[site]`` = visits before the
    last re-opening that count for the budget, ``cl[site]`` = [visit, ledger sequence, kind] of a closing, ``sq`` = the ledger
    sequence that all of it stands for."""

    st: Annotated[dict[str, Any], merge_marks]
    ep: Annotated[dict[str, int], merge_counts]
    us: Annotated[dict[str, int], merge_counts]
    cl: Annotated[dict[str, Any], merge_closings]
    sq: Annotated[int, later]


class Position:
    """Where the graph is now. Changed only by ``apply``, in ledger order, on the event loop's thread."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._st = dict(snapshot.st)
        self._ep = dict(snapshot.ep)
        self._us = dict(snapshot.us)
        self._cl = dict(snapshot.cl)
        self._sq = snapshot.sq
        self._news: dict[str, dict[str, Any]] = _no_news()
        self._woken: dict[SiteId, None] = {}

    @property
    def now(self) -> Snapshot:
        """The snapshot as of the last ``apply``: a view without a copy, so do not keep it across an await."""
        return Snapshot(st=self._st, ep=self._ep, us=self._us, cl=self._cl, sq=self._sq)

    def apply(self, delta: Delta) -> None:
        """Takes over ``delta`` and remembers it for the next ``flush``."""
        self._st.update(delta.st)
        self._ep.update(delta.ep)
        self._us.update(delta.us)
        self._cl.update(delta.cl)
        self._sq = max(self._sq, delta.sq)
        self._news["st"].update({s: list(m) for s, m in delta.st.items()})
        self._news["ep"].update(dict(delta.ep.items()))
        self._news["us"].update(dict(delta.us.items()))
        self._news["cl"].update({s: list(c) for s, c in delta.cl.items()})
        self._woken.update(dict.fromkeys(delta.woken))

    def flush(self) -> tuple[dict[str, Any], tuple[SiteId, ...]]:
        """What changed since the last flush as an update of the graph state, and the nodes to go to. Whoever takes it
        must return it to LangGraph."""
        update = {**self._news, "sq": self._sq} if any(self._news.values()) else {}
        woken = tuple(self._woken)
        self._news = _no_news()
        self._woken = {}
        return update, woken


def _no_news() -> dict[str, dict[str, Any]]:
    return {"st": {}, "ep": {}, "us": {}, "cl": {}}


def read_state(values: Mapping[str, Any], topology: Topology) -> Snapshot:
    """A stored graph state as a snapshot; ``IntegrityError`` (checkpoint-corrupt) for anything but exactly its shape."""
    try:
        return Snapshot(
            st={_site(k, topology): _mark(v) for k, v in values.get("st", {}).items()},
            ep={_site(k, topology): _count(v) for k, v in values.get("ep", {}).items()},
            us={_site(k, topology): _count(v) for k, v in values.get("us", {}).items()},
            cl={_site(k, topology): _closing(v) for k, v in values.get("cl", {}).items()},
            sq=_count(values.get("sq", 0)),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise IntegrityError(
            Code.CHECKPOINT_CORRUPT,
            f"the checkpoint's graph state does not hold: {error}",
            remedy="delete the Delivery's checkpoints.sqlite*: they only save time, the ledger has everything",
        ) from None


def _site(key: object, topology: Topology) -> SiteId:
    if not isinstance(key, str) or key not in topology.sites:
        raise ValueError(f"{str(key)[:80]!r} is no step of the plan")
    return SiteId(key)


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("a count is not a number")
    return value


def _mark(value: object) -> Mark:
    visit, outcome, ran = _three(value)
    if not isinstance(outcome, str):
        raise ValueError("an outcome is not text")
    return Mark(_count(visit), outcome, _count(ran))


def _closing(value: object) -> Closing:
    visit, seq, kind = _three(value)
    for known in ("back", "end", "environment"):
        if kind == known:
            return Closing(_count(visit), _count(seq), known)
    raise ValueError("a closing is of no known kind")


def _three(value: object) -> tuple[object, object, object]:
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise ValueError("an entry has not three parts")
    return value[0], value[1], value[2]
