"""Models in clouds: where requests go, how they are signed, what streams back, and what is said otherwise."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from support.commands.command import Command
from support.models.clouds import CloudServer, chunk_frame, frame
from support.models.talk import QUICK, Talk, ask_model, results, talk
from support.models.turns import Raw, ToolCall, Turn, cut, say

from sandbur.agent.models.connect import connect
from sandbur.agent.models.model import WireModel
from sandbur.agent.models.transport.aws_events import AwsEventParser
from sandbur.state.conversation.messages import person_message
from sandbur.state.errors import ConfigError, ContextFull, CredentialsError, Overloaded

AWS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1"}


def azure_env(url: str) -> dict[str, str]:
    return {"AZURE_OPENAI_ENDPOINT": url, "AZURE_OPENAI_API_KEY": "azure-key"}


def bedrock_env(url: str) -> dict[str, str]:
    return {**AWS, "ANTHROPIC_BEDROCK_BASE_URL": url}


def vertex_env(url: str, folder: Path) -> dict[str, str]:
    """Return the environment of a service account whose tokens the server gives out."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account", "client_email": "me@example.com", "private_key": pem.decode(),
        "token_uri": f"{url}/token", "project_id": "own-project",
    }  # fmt: skip
    file = folder / "account.json"
    file.write_text(json.dumps(account))
    where = {"CLOUD_ML_REGION": "europe-west1", "ANTHROPIC_VERTEX_BASE_URL": f"{url}/v1"}
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(file), **where}


@asynccontextmanager
async def cloud(name: str, env: dict[str, str], **more: Any) -> AsyncIterator[WireModel]:
    model = connect(name, env=env, retry=QUICK, **more)
    try:
        yield model
    finally:
        await model.aclose()


async def told(name: str, env: dict[str, str]) -> Talk:
    async with cloud(name, env) as model:
        return await talk(model)


def environment(kind: str, url: str, folder: Path) -> dict[str, str]:
    return {"azure": azure_env(url), "bedrock": bedrock_env(url), "vertex": vertex_env(url, folder)}[kind]


NAMES = {
    "azure": "azure/gpt-own",
    "azure-responses": "azure-responses/gpt-own",
    "bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "vertex": "vertex/claude-sonnet-4-5@20250929",
}
# The library of Google leaves the connection open over which it signed in.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
every_cloud = pytest.mark.parametrize("kind", NAMES)


@every_cloud
async def test_a_turn_with_a_tool_goes_through_every_cloud(kind: str, tmp_path: Path) -> None:
    script = [Turn("I look.", (ToolCall("run_shell_command", '{"command": "ls"}'),)), say("Done.")]
    with CloudServer(script) as server:
        async with cloud(NAMES[kind], environment(kind.partition("-")[0], server.url, tmp_path)) as model:
            first = await talk(model)
            said = person_message("hello"), first.reply.message, *results(first.reply)
            last = await talk(model, ask_model(*said))
    assert first.answer == "I look."
    assert json.loads(first.reply.message.tool_uses[0].arguments) == {"command": "ls"}
    assert (last.reply.message.text, last.reply.finish) == ("Done.", "stop")
    assert last.reply.usage.input_tokens
    assert len(server.requests) == 2


async def test_azure_addresses_the_deployment_and_sends_the_key_as_it_wants_it() -> None:
    with CloudServer([say("a"), say("b"), say("c")]) as server:
        env = azure_env(server.url)
        for name in ("azure/gpt-own", "azure-responses/gpt-own"):
            await told(name, env)
        del env["AZURE_OPENAI_API_KEY"]
        env |= {"AZURE_OPENAI_AD_TOKEN": "ad", "OPENAI_API_VERSION": "2024-10-21"}
        await told("azure/x", env)
    chat, responses, token = server.requests
    assert chat.path == "/openai/deployments/gpt-own/chat/completions?api-version=2025-04-01-preview"
    assert chat.headers["api-key"] == "azure-key"
    assert "authorization" not in chat.headers
    assert responses.path == "/openai/responses?api-version=2025-04-01-preview"
    assert responses.body["model"] == "gpt-own"
    assert token.path == "/openai/deployments/x/chat/completions?api-version=2024-10-21"
    assert token.headers["authorization"] == "Bearer ad"


async def test_bedrock_signs_each_request_for_its_region() -> None:
    with CloudServer([say("a"), say("b")]) as server:
        await told(NAMES["bedrock"], {**bedrock_env(server.url), "AWS_SESSION_TOKEN": "session"})
        env = {"AWS_REGION": "eu-west-1", "AWS_BEARER_TOKEN_BEDROCK": "bearer"}
        await told(NAMES["bedrock"], {**env, "ANTHROPIC_BEDROCK_BASE_URL": server.url})
    signed, bearer = server.requests
    path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke-with-response-stream"
    assert signed.path == path
    assert signed.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/")
    assert "/eu-west-1/bedrock/aws4_request" in signed.headers["authorization"]
    assert signed.headers["x-amz-security-token"] == "session"
    assert signed.headers["x-amz-date"]
    assert signed.body["anthropic_version"]
    assert not {"model", "stream"} & set(signed.body)
    assert signed.body["max_tokens"] == 32_000
    assert bearer.headers["authorization"] == "Bearer bearer"


async def test_vertex_signs_in_once_and_names_project_and_region(tmp_path: Path) -> None:
    with CloudServer([say("a"), say("b"), say("c")]) as server:
        env = vertex_env(server.url, tmp_path)
        async with cloud(NAMES["vertex"], env) as model:
            await talk(model)
            await talk(model)
        await told(NAMES["vertex"], {**env, "ANTHROPIC_VERTEX_PROJECT_ID": "other"})
    first, second, third = server.requests
    models = "locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict"
    assert first.path.replace("%40", "@") == f"/v1/projects/own-project/{models}"
    assert third.path.replace("%40", "@") == f"/v1/projects/other/{models}"
    assert first.headers["authorization"] == second.headers["authorization"] == "Bearer token-1"
    assert len(server.sign_ins) == 2
    assert first.body["anthropic_version"]
    assert "model" not in first.body


async def test_effort_and_windows_are_those_of_the_model_behind_the_clouds_name() -> None:
    name = "bedrock/us.anthropic.claude-opus-5-20260101-v1:0"
    with CloudServer([say("a")]) as server:
        async with cloud(name, bedrock_env(server.url), effort="low") as model:
            await talk(model)
    assert model.context_window == 1_000_000
    assert server.requests[0].body["output_config"] == {"effort": "low"}


async def test_a_cloud_that_caches_marked_blocks_only_is_sent_those() -> None:
    text = "cache_control: Extra inputs are not permitted"
    refusal = Raw(json.dumps({"message": text}).encode(), 400)
    with CloudServer([refusal, say("a"), say("b")]) as server:
        async with cloud(NAMES["bedrock"], bedrock_env(server.url)) as model:
            await talk(model)
            await talk(model)
    first, *others = (request.body for request in server.requests)
    assert "cache_control" in first
    for body in others:
        assert "cache_control" not in body
        assert body["system"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize("kind", ["azure", "bedrock", "vertex"])
async def test_a_cut_answer_is_asked_for_again(kind: str, tmp_path: Path) -> None:
    with CloudServer([cut(say("Half a long answer")), say("Whole.")]) as server:
        heard = await told(NAMES[kind], environment(kind, server.url, tmp_path))
    assert heard.reply.message.text == "Whole."
    assert any("was cut off" in notice for notice in heard.notices)


async def test_what_bedrock_throws_in_the_middle_of_a_stream_is_understood() -> None:
    def failing(kind: str, text: str) -> Raw:
        body = frame({":message-type": "exception", ":exception-type": kind}, {"message": text})
        return Raw(body, content_type="application/vnd.amazon.eventstream")

    busy = [failing("throttlingException", "Too many requests")] * 3
    full = failing("validationException", "Input is too long for requested model.")
    with CloudServer([*busy, full]) as server:
        with pytest.raises(Overloaded, match="Rate limited by bedrock"):
            await told(NAMES["bedrock"], bedrock_env(server.url))
        with pytest.raises(ContextFull):
            await told(NAMES["bedrock"], bedrock_env(server.url))


async def test_a_damaged_frame_is_a_damaged_answer() -> None:
    body = bytearray(chunk_frame(b'data: {"type": "ping"}\n\n'))
    body[20] ^= 0xFF
    broken = Raw(bytes(body), content_type="application/vnd.amazon.eventstream")
    with CloudServer([broken, say("Whole.")]) as server:
        heard = await told(NAMES["bedrock"], bedrock_env(server.url))
    assert heard.reply.message.text == "Whole."
    assert any("sent a damaged answer" in notice for notice in heard.notices)


def test_frames_may_be_cut_anywhere() -> None:
    whole = chunk_frame(b'data: {"n": 1}\n\n') + chunk_frame(b'data: {"n": 2}\n\n')
    for size in (1, 7, len(whole)):
        parser = AwsEventParser()
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        found = [event.data for piece in pieces for event in parser.feed(piece)]
        assert found == ['{"n": 1}', '{"n": 2}']


@pytest.mark.parametrize("kind", ["azure", "bedrock", "vertex"])
async def test_a_key_that_is_refused_is_told(kind: str, tmp_path: Path) -> None:
    refused = Raw(json.dumps({"message": "The security token is invalid"}).encode(), 403)
    with CloudServer([refused]) as server, pytest.raises(CredentialsError) as failed:
        await told(NAMES[kind], environment(kind, server.url, tmp_path))
    assert f"{kind} refuses this key (403): " in str(failed.value)
    assert "token is invalid" in str(failed.value)
    hint = "Set AZURE_OPENAI_API_KEY to a valid key." if kind == "azure" else "Sign in again, and check"
    assert hint in str(failed.value)


async def test_a_token_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    env = vertex_env("http://127.0.0.1:9", tmp_path)
    file = Path(env["GOOGLE_APPLICATION_CREDENTIALS"])
    with CloudServer([]) as server:
        gone = json.loads(file.read_text()) | {"token_uri": f"{server.url}/token"}
        file.write_text(json.dumps({**gone, "private_key": "no key"}))
        with pytest.raises(CredentialsError, match="No credentials for vertex"):
            await told(NAMES["vertex"], env)


def test_azure_without_key_or_address_says_which_variable_is_missing() -> None:
    with pytest.raises(CredentialsError, match="No key for azure: AZURE_OPENAI_API_KEY is not set"):
        connect("azure/x", env={})
    with pytest.raises(ConfigError, match="No address for azure: AZURE_OPENAI_ENDPOINT is not set"):
        connect("azure/x", env={"AZURE_OPENAI_API_KEY": "k"})


async def test_a_missing_region_or_project_says_which_variable_to_set(tmp_path: Path) -> None:
    keys = {name: value for name, value in AWS.items() if name != "AWS_REGION"}
    with pytest.raises(ConfigError, match="No region for bedrock: AWS_REGION is not set"):
        await told(NAMES["bedrock"], keys)
    env = vertex_env("http://127.0.0.1:9", tmp_path)
    del env["CLOUD_ML_REGION"]
    with pytest.raises(ConfigError, match="No region for vertex: CLOUD_ML_REGION is not set"):
        await told(NAMES["vertex"], env)


def bare(command: Command) -> dict[str, str]:
    """Return what keeps the libraries from asking this machine's network who it is."""
    return {"AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "true", "HOME": str(command.folder)}


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("azure/x", "No key for azure: AZURE_OPENAI_API_KEY is not set."),
        ("bedrock/anthropic.claude-x", "No credentials for bedrock: AWS knows none here."),
        ("vertex/claude-x", "No credentials for vertex: Your default credentials were not found."),
    ],
)
def test_without_credentials_the_command_ends_with_41(command: Command, model: str, sentence: str) -> None:
    ended = command.run("-p", "hello", "-m", model, **bare(command))
    assert ended.code == 41, ended.err
    assert sentence in " ".join(ended.err.split())


@pytest.mark.parametrize(("model", "package"), [("bedrock/x", "boto3"), ("vertex/x", "google.auth")])
def test_a_package_that_is_missing_is_told_with_the_command_that_installs_it(
    command: Command, model: str, package: str
) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; from sandbur.ui.cli.main import main;"
        f"sys.exit(main(['-p', 'hello', '-m', {model!r}]))"
    )
    words = [sys.executable, "-c", code]
    ended = subprocess.run(
        words, cwd=command.folder, env=command.env, capture_output=True, text=True, check=False
    )
    said = " ".join(ended.stderr.split())
    extra = model.partition("/")[0]
    assert ended.returncode == 52, said
    assert f"{extra} needs packages that are not installed ({package.partition('.')[0]})." in said
    assert f"[{extra}]" in said


async def test_many_first_calls_at_once_share_one_client() -> None:
    with CloudServer([say("a")] * 8) as server:
        async with cloud(NAMES["bedrock"], bedrock_env(server.url)) as model:
            heard = await asyncio.gather(*(talk(model) for _ in range(8)))
    assert {one.reply.message.text for one in heard} == {"a"}
