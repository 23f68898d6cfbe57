import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from archives.llm_call import CallOutcome, Message
from evaluator.processes import worker_environment
from operators.llm.client import LitellmClient, Question, Response
from operators.llm.keys import REDACTED, is_secret_name, keys_withheld, load_keys
from operators.llm.prices import Prices
from problems.errors import ConfigError
from tests.scripted_llm import Reply, Request, ScriptedServer, refusal

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if is_secret_name(name)]:
        monkeypatch.delenv(name)


def tell_the_key(request: Request) -> Reply:
    """A provider that quotes the key, as some do."""
    return refusal(401, f"no such key: {request.headers['authorization']}")


def ask(folder: Path, server: ScriptedServer) -> Response:
    keys = load_keys(folder)

    async def asking() -> Response:
        client = LitellmClient(keys=keys, prices=Prices(), api_base=server.url)
        try:
            asked = Question(model="openai/scripted", messages=(Message(role="user", text="hi"),))
            return await client.ask(asked)
        finally:
            await client.close()

    with keys.lent():
        return asyncio.run(asking())


def test_an_exported_key_is_sent_and_never_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ScriptedServer(tell_the_key) as server:
        response = ask(tmp_path, server)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert response.outcome is CallOutcome.AUTHENTICATION
    assert response.log.startswith("no such key")
    assert KEY not in repr(response)
    assert KEY not in caplog.text


def test_a_key_of_the_file_is_used_while_it_is_lent(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"# mine\nexport OPENAI_API_KEY='{KEY}'\n")
    with ScriptedServer(tell_the_key) as server:
        response = ask(tmp_path, server)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(response)
    assert "OPENAI_API_KEY" not in os.environ


def test_an_exported_key_comes_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-of-the-file-000\n")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    keys = load_keys(tmp_path)
    with keys.lent():
        assert os.environ["OPENAI_API_KEY"] == KEY
    assert os.environ["OPENAI_API_KEY"] == KEY
    both = keys.redact(f"{KEY} sk-of-the-file-000")
    assert both == f"{REDACTED} {REDACTED}"


def test_a_reply_that_quotes_a_key_loses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ScriptedServer(lambda _: Reply(text=f"x = 1  # {KEY}")) as server:
        assert ask(tmp_path, server).text == f"x = 1  # {REDACTED}"


def test_redaction_knows_addresses_and_longer_keys_and_leaves_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE_API_KEY", "abcdefgh")
    monkeypatch.setenv("TWO_TOKEN", "abcdefgh+12/34")
    monkeypatch.setenv("THREE_KEY", "short")
    monkeypatch.setenv("MAX_TOKENS", "100000000")
    keys = load_keys(tmp_path)
    assert keys.redact("abcdefgh+12/34") == REDACTED, "not only its first half"
    assert keys.redact("?key=abcdefgh%2B12%2F34&x") == f"?key={REDACTED}&x"
    assert keys.redact("short 100000000") == "short 100000000"
    assert "abcdefgh" not in repr(keys)


def test_what_starts_while_keys_are_withheld_inherits_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of-ray-itself")
    (tmp_path / ".env").write_text(f"GROQ_API_KEY={KEY}\n")
    load_keys(tmp_path)
    code = "import os; print(sorted(os.environ.items()))"
    with keys_withheld():
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert KEY not in shown.stdout
    assert "of-ray-itself" in shown.stdout
    assert os.environ["OPENAI_API_KEY"] == KEY
    assert KEY not in str(worker_environment())


def test_importing_litellm_puts_no_file_into_the_environment(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    code = (
        "import os\n"
        "from operators.llm.loading import load_litellm\n"
        "load_litellm()\n"
        "assert 'OPENAI_API_KEY' not in os.environ, 'it was read'\n"
    )
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


def test_a_missing_key_is_said_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = load_keys(tmp_path)
    sentence = keys.missing_key("openai/gpt-4o")
    assert "'openai/gpt-4o' has no key: expected OPENAI_API_KEY" in sentence
    assert str(tmp_path / ".env") in sentence
    assert "'openai/my-model'" in keys.missing_key("my-model")
    assert keys.missing_key("openai/gpt-4o", api_base="http://127.0.0.1:1/v1") == ""
    assert keys.missing_key("ollama/llama3") == ""
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    assert load_keys(tmp_path).missing_key("openai/gpt-4o") == ""
    assert "OPENAI_API_KEY" not in os.environ
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert keys.missing_key("openai/gpt-4o") == ""


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"OPENAI_API_KEY=\xff\xfe\n")
    with pytest.raises(ConfigError, match=r"\.env cannot be read"):
        load_keys(tmp_path)
