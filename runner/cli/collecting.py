"""What ``gc`` does: settled Deliveries go; what goes, what stays and why, and how much it takes."""

from runner.cli import config_lookup
from runner.cli.exit_codes import Exit
from runner.cli.inspecting import open_records
from runner.cli.terminal import Line, write_json, write_lines
from runner.contract.ids import delivery_id
from runner.contract.kept import Collection, Retention


def collect(
    lookup: config_lookup.Lookup, words: tuple[str, ...], policy: Retention, *, dry_run: bool, as_json: bool
) -> int:
    """The exit code: 1 when one that was named stayed."""
    named = tuple(delivery_id(word) for word in words)
    found = open_records(lookup).collect(policy, named, dry_run=dry_run)
    if as_json:
        write_json(
            {
                "dry_run": dry_run,
                "deliveries": [one.model_dump(mode="json") for one in found],
                "bytes": _bytes(found, "collected"),
            }
        )
    else:
        write_lines(lines(found, dry_run=dry_run))
    stayed = any(one.state == "kept" and one.delivery in named for one in found)
    return int(Exit.NOT_DONE if stayed else Exit.OK)


def lines(found: tuple[Collection, ...], *, dry_run: bool) -> list[Line]:
    """For people. Pure."""
    told: list[Line] = []
    for one in found:
        word = ("would go" if dry_run else "collected") if one.state == "collected" else "kept"
        told.append((f"{word:<9}  {size(one.bytes):>8}  {one.delivery}: {one.why}", "" if word == "kept" else "green"))
        told += [(f"           {note}", "yellow") for note in one.notes]
    gone = size(_bytes(found, "collected"))
    total = f"{gone} would be freed" if dry_run else f"{gone} freed"
    return [*told, f"{total}, {size(_bytes(found, 'kept'))} stay"]


def size(count: int) -> str:
    """Bytes as people read them: ``12 kB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count} {unit}"
        count //= 1000
    return f"{count} TB"


def _bytes(found: tuple[Collection, ...], state: str) -> int:
    return sum(one.bytes for one in found if one.state == state)
