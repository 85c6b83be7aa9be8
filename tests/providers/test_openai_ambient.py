"""What the environment says reaches neither the endpoint nor anybody else."""

import os
import subprocess
import sys
from pathlib import Path

from tests.providers.sessions import SECRET
from tests.servers.chunks import Result
from tests.servers.scripted_openai import ScriptedOpenAi, in_order

ROOT = Path(__file__).parents[2]


def traps(trap: str) -> dict[str, str]:
    """Every variable by which the SDKs, the HTTP client or the tracer could be led elsewhere."""
    host = trap.removesuffix("/v1")
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), host)
    return {
        **proxies,
        **{name.lower(): value for name, value in proxies.items()},
        "OPENAI_API_KEY": "sk-ambient-key",
        "OPENAI_ADMIN_KEY": "sk-ambient-admin",
        "OPENAI_BASE_URL": trap,
        "OPENAI_API_BASE": trap,
        "OPENAI_ORG_ID": "ambient-org",
        "OPENAI_ORGANIZATION": "ambient-org",
        "OPENAI_PROJECT_ID": "ambient-project",
        "OPENAI_PROXY": host,
        "OPENAI_CUSTOM_HEADERS": "X-Ambient: yes\nAuthorization: Bearer ambient\nX-Team: red",
        "OPENAI_API_TYPE": "azure",
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_TRACING_V2": "true",
        "LANGCHAIN_TRACING_V2": "true",
        "LANGSMITH_ENDPOINT": host,
        "LANGCHAIN_ENDPOINT": host,
        "LANGSMITH_API_KEY": "lsv2_ambient",
        "LANGCHAIN_API_KEY": "lsv2_ambient",
        "LANGSMITH_GATEWAY": host,
        "LANGSMITH_GATEWAY_API_KEY": "lsv2_ambient",
        "LANGCHAIN_OPENAI_STREAM_CHUNK_TIMEOUT_S": "0.000001",
        "LC_OUTPUT_VERSION": "responses/v1",
        "SSL_CERT_FILE": "/nonexistent/ca.pem",
        "SSL_CERT_DIR": "/nonexistent",
    }


def test_a_hostile_environment_changes_nothing(tmp_path: Path) -> None:
    """With every known variable set, the declared endpoint gets exactly the declared headers, and nobody else anything."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login ambient password ambient\n")
    (tmp_path / ".netrc").chmod(0o600)
    replies = [Result({"answer": "x"}), Result({"answer": "x"})]
    with ScriptedOpenAi(in_order(*replies)) as server, ScriptedOpenAi(in_order()) as trap:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "NETRC": str(tmp_path / ".netrc"),
            "PYTHONPATH": str(ROOT),
            **traps(trap.base_url),
        }
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "tests.providers.hostile_environment", server.base_url],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert trap.requests == []
    authorized, anonymous = (dict(request.headers) for request in server.requests)
    assert authorized.pop("authorization") == f"Bearer {SECRET}"
    for headers in (authorized, anonymous):
        headers.pop("content-length")
        assert headers == {
            "host": server.base_url.removeprefix("http://").removesuffix("/v1"),
            "accept": "application/json",
            "accept-encoding": "gzip, deflate",
            "connection": "keep-alive",
            "content-type": "application/json",
            "user-agent": "m02-runner",
            "x-team": "blue",
        }


def test_knowing_all_providers_imports_no_sdk() -> None:
    """`runner --help`, admission and replays stay fast: the catalogue costs no SDK, no tracer, no engine."""
    program = (
        "import sys; from providers.catalogue import factories; [f.descriptor.digest for f in factories()]; "
        "heavy = {'openai', 'langchain_openai', 'langchain_core', 'langsmith', 'httpx', 'httpx2'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"
