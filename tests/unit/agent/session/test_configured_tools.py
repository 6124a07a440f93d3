"""Sessions with HTTP tools of the configuration: who is asked, what is on disk, and what a kill leaves."""

import asyncio
import json
import os
import uuid
from asyncio.subprocess import DEVNULL
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.models.server import ModelServer, call, say
from support.network.web_site import Seen, WebSite, page, silence

import sandbur
from sandbur.agent.config.trust import trust
from sandbur.agent.config.trust_summary import summarize_settings
from sandbur.testing import ScriptedModel, ToolCall

SECRET = "kX9vQ2mL8pR4tZ7wB3nF6hJ1"
TOOLS = """
[http_tools.find_order]
description = "Find an order."
url = "SITE/orders/{id}?region={var.region}"
headers = { X-Plain = "${OUTER_THING}" }
parameters = { id = { type = "string" } }

[http_tools.pay_order]
description = "Pay an order."
method = "POST"
url = "SITE/orders/{id}/payments?k=${OUTER_THING}"
body = { cents = "{cents}", session = "{context.session_id}" }
parameters = { id = {}, cents = { type = "integer" } }

[http_tools.set_note]
description = "Set the note of an order."
method = "PUT"
url = "SITE/orders/{id}/note"
body = "{text}"
parameters = { id = {}, text = {} }
"""


def configure(command: Command, text: str) -> None:
    path = command.folder / ".config/sandbur/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def key(server: ModelServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{server.base_url}/v1", "OUTER_THING": SECRET}


async def run(command: Command, server: ModelServer, *words: str, **env: str) -> Ended:
    asked = ("-m", "openai-chat/scripted", "--output-format", "json", *words)
    return await asyncio.to_thread(lambda: command.run(*asked, **(key(server) | env)))


async def decide(command: Command, server: ModelServer, *words: str) -> Ended:
    return await asyncio.to_thread(lambda: command.run(*words, "--output-format", "json", **key(server)))


def shown(server: ModelServer) -> str:
    """Return the last tool result that the model was sent."""
    messages = server.requests[-1].body["messages"]
    return [message for message in messages if message["role"] == "tool"][-1]["content"]


def holders(folder: Path, secret: str) -> list[Path]:
    """Return the files below a folder that hold a secret in any spelling of it."""
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


async def mirror(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(
        page(json.dumps({"target": seen.target, "headers": seen.headers, "body": seen.body.decode()}))
    )


async def test_what_reads_runs_and_what_sends_asks_and_no_secret_is_on_disk(command: Command) -> None:
    async with WebSite({"/orders/7": mirror, "/orders/7/payments": mirror}) as site:
        configure(command, TOOLS.replace("SITE", site.url))
        echo = call("run_shell_command", command=f"echo {SECRET}")
        turns = [call("find_order", id="7"), call("pay_order", id="7", cents=100), echo, say("done")]
        async with ModelServer(turns) as server:
            asked = await run(
                command, server, "-p", "go", "--var", "region=eu", "--allow", "run_shell_command"
            )
            assert (asked.code, asked.result["status"]) == (3, "needs_approval"), asked.err
            assert (site.seen[0].target, site.seen[0].headers["x-plain"]) == ("/orders/7?region=eu", SECRET)
            assert "HTTP 200" in shown(server)
            (pending,) = asked.result["pending"]
            assert pending["tool"] == "pay_order"
            assert "it sends POST" in pending["reason"]
            session = asked.result["session_id"]
            ended = await decide(command, server, "approve", session, "--all")
            assert (ended.code, ended.result["status"]) == (0, "done"), ended.err
            assert "[masked value of OUTER_THING" in shown(server)
            assert all(
                SECRET not in json.dumps(request.body["messages"][:-2]) for request in server.requests[:3]
            )
    (_, paid) = site.seen
    assert (paid.method, paid.target) == ("POST", f"/orders/7/payments?k={SECRET}")
    assert json.loads(paid.body) == {"cents": 100, "session": session}
    assert holders(command.folder / "data", SECRET) == []
    exported = command.run("sessions", "export", session)
    assert SECRET not in exported.out
    replayed = command.run("replay", session)
    assert replayed.code == 0, replayed.out + replayed.err
    assert len(site.seen) == 2


@pytest.mark.parametrize("rule", ["pay_order", "pay_order(POST SITE/orders/7/*)", "pay_*"])
async def test_a_rule_lets_a_call_pass(command: Command, rule: str) -> None:
    async with WebSite({"/orders/7/payments": mirror}) as site:
        configure(command, TOOLS.replace("SITE", site.url))
        async with ModelServer([call("pay_order", id="7", cents=1), say("done")]) as server:
            ended = await run(command, server, "-p", "go", "--allow", rule.replace("SITE", site.url))
    assert (ended.code, len(site.seen)) == (0, 1), ended.err


async def killed_while_it_asks(command: Command, server: ModelServer, site: WebSite, session: str) -> None:
    """Start a run, and kill it when the site has its request and says nothing."""
    words = ("-m", "openai-chat/scripted", "--session-id", session, "-p", "go", "--allow", "*_*")
    process = await asyncio.create_subprocess_exec(
        *command.line(*words), cwd=command.folder, env=command.env | key(server),
        stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL,
    )  # fmt: skip
    async with asyncio.timeout(100):
        await site.was_asked.wait()
    process.kill()
    await process.wait()


@pytest.mark.slow
async def test_a_kill_in_the_middle_of_a_post_leaves_a_question(command: Command) -> None:
    session = str(uuid.uuid4())
    async with WebSite({"/orders/7/payments": silence}) as site:
        configure(command, TOOLS.replace("SITE", site.url))
        async with ModelServer([call("pay_order", id="7", cents=1), say("done")]) as server:
            await killed_while_it_asks(command, server, site, session)
            ended = await run(command, server, "-p", "-r", session)
            assert (ended.code, ended.result["status"]) == (3, "needs_decision"), ended.err
            (pending,) = ended.result["pending"]
            assert (pending["tool"], pending["kind"]) == ("pay_order", "outcome_unknown")
            assert len(site.seen) == 1
            settled = await decide(command, server, "settle", session, pending["call_id"], "--as", "done")
            assert (settled.code, settled.result["status"]) == (0, "done"), settled.err
    assert len(site.seen) == 1
    assert holders(command.folder / "data", SECRET) == []


@pytest.mark.slow
async def test_a_kill_in_the_middle_of_a_put_sends_it_again_under_the_same_key(command: Command) -> None:
    session = str(uuid.uuid4())
    async with WebSite({"/orders/7/note": silence}) as site:
        configure(command, TOOLS.replace("SITE", site.url))
        async with ModelServer([call("set_note", id="7", text="x"), say("done")]) as server:
            await killed_while_it_asks(command, server, site, session)
            site.pages["/orders/7/note"] = page("noted")
            ended = await run(command, server, "-p", "-r", session)
            assert (ended.code, shown(server)) == (0, "HTTP 200\nnoted"), ended.err
    first, second = site.seen
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.headers["idempotency-key"].startswith(session)
    assert first.body == second.body == b'"x"'


@pytest.mark.slow
@pytest.mark.parametrize(("point", "sent"), [("http_tool_call", 0), ("tool_ran", 1)])
async def test_a_kill_around_a_call_leaves_at_most_one_effect(
    point: str, sent: int, command: Command
) -> None:
    session = str(uuid.uuid4())
    async with WebSite({"/orders/7/payments": mirror}) as site:
        configure(command, TOOLS.replace("SITE", site.url))
        async with ModelServer([call("pay_order", id="7", cents=1), say("done")]) as server:
            words = ("-p", "go", "--allow", "pay_order", "--session-id", session)
            killed = await run(command, server, *words, SANDBUR_CRASH_AT=point)
            assert (killed.code, len(site.seen)) == (-9, sent)
            resumed = await run(command, server, "-p", "-r", session)
            assert resumed.result["status"] == "needs_decision", resumed.err
    assert len(site.seen) == sent


async def test_a_missing_variable_is_told_at_start_and_at_the_call(command: Command) -> None:
    configure(command, TOOLS.replace("SITE", "https://api.example"))
    async with ModelServer([call("find_order", id="7"), say("done")]) as server:
        env = {"SANDBUR_HOME": command.env["SANDBUR_HOME"]}
        words = ("-m", "openai-chat/scripted", "--output-format", "json", "-p", "go", "--var", "region=eu")
        given = {name: value for name, value in key(server).items() if name != "OUTER_THING"}
        ended = await asyncio.to_thread(lambda: command.run(*words, **(given | env)))
        assert "The tool find_order needs the variable OUTER_THING, which is not set." in ended.err
        assert shown(server).startswith("Nothing was sent: find_order needs the variable OUTER_THING")


@pytest.mark.parametrize(("text", "sentence"), [
    ("[http_tools.a]\nurl = 1\n", "`http_tools.a` does not fit"),
    ("[http_tools.a]\ndescription = 'x'\nurl = 'https://{h}.example/'\n",
     "the tool a has a placeholder in the host"),
    ("[http_tools.read_file]\ndescription = 'x'\nurl = 'https://x.example/'\n",
     "There are two tools called read_file"),
    ("[openapi.a]\nfile = 'nowhere.json'\noperations = ['x']\n", "nowhere.json cannot be read"),
    ("variables = ['customer']\n", "`variables.0` does not fit"),
])  # fmt: skip
def test_a_configuration_that_does_not_fit_ends_the_command_at_once(
    command: Command, text: str, sentence: str
) -> None:
    configure(command, text)
    ended = command.run("-p", "go", "-m", "demo")
    assert (ended.code, len(ended.err.strip().splitlines())) == (52, 1), ended.err
    assert sentence in ended.err


async def test_a_projects_tools_count_only_as_they_were_trusted(command: Command) -> None:
    text = TOOLS.replace("SITE", "https://api.example") + (
        "\n[openapi.pets]\nfile = 'pets.json'\noperations = ['listPets']\nbase_url = 'https://pets.example'\n"
    )
    path = command.folder / ".sandbur/config.toml"
    path.parent.mkdir()
    path.write_text(text)
    pets = {"openapi": "3.1.0", "paths": {"/pets": {"get": {"operationId": "listPets", "responses": {}}}}}
    (command.folder / "pets.json").write_text(json.dumps(pets))

    async def offered() -> list[str]:
        async with ModelServer([say("done")]) as server:
            ended = await run(command, server, "-p", "go")
            assert ended.code == 0, ended.err
            return [tool["function"]["name"] for tool in server.requests[0].body["tools"]]

    assert "find_order" not in await offered()
    told = " ".join(summarize_settings(path.read_bytes(), path).dangerous)
    assert "lets the model send POST https://api.example/orders/{id}/payments" in told
    assert "with the values of OUTER_THING" in told
    assert "requests to https://pets.example: listPets of pets.json" in told
    trust(command.folder, command.env, path.read_bytes())
    assert {"find_order", "pay_order", "set_note", "listPets"} <= set(await offered())
    path.write_text(text.replace("base_url = 'https://pets.example'\n", ""))
    trust(command.folder, command.env, path.read_bytes())
    ended = command.run("-p", "go", "-m", "demo")
    assert (ended.code, "`openapi.pets` has no `base_url`" in ended.err) == (52, True)


async def test_an_agent_of_a_program_has_them_too(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    async with WebSite({"/orders/7/payments": mirror}) as site:
        (tmp_path / "tools.toml").write_text(TOOLS.replace("SITE", site.url))
        tools = sandbur.http_tools(tmp_path / "tools.toml", env={"OUTER_THING": SECRET})
        model = ScriptedModel([ToolCall("pay_order", id="7", cents=5), "Paid."])
        agent = sandbur.Agent(model, tools=[*tools], allow=["pay_order"], env=env)
        result: Any = await agent.run("Pay it")
    assert (result.status, result.output) == ("done", "Paid.")
    assert site.seen[0].target == f"/orders/7/payments?k={SECRET}"
    assert holders(tmp_path / "data", SECRET) == []


async def test_sessions_of_one_agent_have_variables_of_their_own(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    async with WebSite({"/orders/1": page("found")}) as site:
        (tmp_path / "tools.toml").write_text(TOOLS.replace("SITE", site.url))
        tools = sandbur.http_tools(tmp_path / "tools.toml", env={"OUTER_THING": SECRET})
        model = ScriptedModel([ToolCall("find_order", id="1"), "Yes."] * 3)
        async with sandbur.Agent(model, tools=[*tools], env=env) as agent:
            for region in ("eu", "us"):
                async with agent.session(region, variables={"region": region}) as session:
                    await session.run("Find it")
            async with agent.session("eu") as session:
                await session.run("Again")
    assert [seen.target.partition("?")[2] for seen in site.seen] == ["region=eu", "region=us", "region=eu"]
