"""Makes the demo's recordings: runs its workflow with the ``openai`` provider against the scripted conversation.

    python -m tests.tools.record_demo            # writes runner/cli/demo_data/recordings
    python -m tests.tools.record_demo --check    # only says whether they are what a new run would write

Run it after a change to the demo's package, repository or script, or to what models see of tools and prompts.
"""

import json
import sys
import tempfile
from pathlib import Path

from runner.cli import demo
from runner.cli.config_lookup import Lookup
from runner.cli.executing import Manner, run_wish
from runner.contract.recording import line_bytes, read
from tests.servers.scripted_openai import ScriptedOpenAi, script_of

SCRIPT = Path(__file__).with_name("demo_script.json")
RECORDINGS = Path(demo.__file__).parent / "demo_data" / "recordings"


def record(root: Path) -> dict[str, bytes]:
    """One run below ``root``: file name -> content, without what differs from run to run."""
    with ScriptedOpenAi(script_of(json.loads(SCRIPT.read_text()))) as server:
        config = root / "runner.toml"
        settings = f"[providers.openai.settings]\nbase_url = {json.dumps(server.base_url)}\n"
        config.write_text(demo.config_text(root, settings))
        wish = demo.lay_out(root, "openai:scripted")
        lookup = Lookup(path=config, why="it is the recording's own", places=())
        code = run_wish(wish, lookup, Manner(record=root / "made", named_config=config))
    if code != 0:
        raise SystemExit(f"the workflow ended with {code}: nothing was recorded")
    return {path.name: _steady(path) for path in sorted((root / "made").glob("*/*.jsonl"))}


def _steady(path: Path) -> bytes:
    """The recording without the times that a scripted endpoint happened to take."""
    recording = read(path.read_bytes(), path.name)
    turns = [turn.line.model_copy(update={"duration_s": 0.0}) for _, turn in sorted(recording.turns.items())]
    return b"".join(map(line_bytes, (recording.header, *turns)))


def shipped() -> dict[str, bytes]:
    """What is in the tree now."""
    return {path.name: path.read_bytes() for path in sorted(RECORDINGS.glob("*.jsonl"))}


def main(words: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="record-demo-") as directory:
        made = record(Path(directory).resolve())
    if words == ["--check"]:
        return 0 if made == shipped() else 1
    RECORDINGS.mkdir(exist_ok=True)
    for name in shipped().keys() - made.keys():
        (RECORDINGS / name).unlink()
    for name, data in made.items():
        (RECORDINGS / name).write_bytes(data)
    print(f"wrote {len(made)} recordings to {RECORDINGS}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
