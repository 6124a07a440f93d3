"""An exception of code of the user is a sentence that names its function; the log has the traceback."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Never

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, field_validator, model_validator

from sandbur import (
    Agent,
    Depends,
    Evaluator,
    Flow,
    KnowledgeBase,
    Metric,
    Middleware,
    ModelRequest,
    ModelRouter,
    Route,
    RunContext,
    Sequential,
    Suite,
    Task,
    ToolOutcome,
    ToolSpec,
    file_tools,
    tool,
)
from sandbur.actions.ports import ToolTraits
from sandbur.actions.turn.commands import parse_shell_command
from sandbur.actions.turn.user_code import UserCode, name_user_function
from sandbur.state.errors import SandburError, UserCodeError
from sandbur.testing import ScriptedModel, ToolCall, temporary_store


def slip(value: Any = None) -> Never:
    raise ArithmeticError("nothing is here")


@dataclass
class Point:
    x: int

    def __post_init__(self) -> None:
        slip()


class Checked(BaseModel):
    x: int

    @field_validator("x")
    @classmethod
    def check(cls, value: int) -> int:
        slip()

    @model_validator(mode="before")
    @classmethod
    def prepare(cls, value: Any) -> Any:
        return value


class OwnType:
    def __init__(self, text: str) -> None:
        slip()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())


class OwnTool:
    """A tool of the user, which implements the protocol by itself."""

    effect = "effect"
    traits = ToolTraits()
    spec = ToolSpec("own", "", {"type": "object", "properties": {}, "required": []})

    def parse(self, arguments: str) -> Any:
        slip()

    def effect_of(self, arguments: Any) -> str:
        return "effect"

    def subject(self, arguments: Any) -> str:
        return ""

    def paths(self, arguments: Any) -> Sequence[str]:
        return ()

    async def run(self, arguments: Any, context: Any) -> ToolOutcome:
        return ToolOutcome("ok", "")


class Broken:
    """Methods of several ports, which all fail."""

    name = "own/broken"
    context_window = 10_000
    dimensions = 3
    names = ("docs",)

    async def aclose(self) -> None: ...

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        slip()
        yield None

    async def count_tokens(self, request: ModelRequest) -> int:
        slip()

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        slip()

    async def find(self, *given: Any) -> Any:
        slip()

    async def search(self, *given: Any) -> Any:
        slip()

    async def files(self) -> Mapping[str, int]:
        slip()

    read = write = add = update = delete = search


def by_value(x: Annotated[int, BeforeValidator(slip)]) -> str:
    return ""


def by_value_after(x: Annotated[int, AfterValidator(slip)]) -> str:
    return ""


def by_dataclass(x: Point) -> str:
    return ""


def by_model(x: Checked) -> str:
    return ""


def by_own_type(x: OwnType) -> str:
    return ""


def injected(x: Annotated[int, Depends(slip)]) -> str:
    return ""


@tool
def failing() -> str:
    slip()


@tool(postprocess=slip)
def processed() -> str:
    return ""


IN_TOOLS: Sequence[tuple[Any, str, dict[str, Any]]] = [
    (by_value, "slip", {"x": 1}),
    (by_value_after, "slip", {"x": 1}),
    (by_dataclass, "Point.__post_init__", {"x": {"x": 1}}),
    (by_model, "Checked.check", {"x": {"x": 1}}),
    (by_own_type, "OwnType.__init__", {"x": "a"}),
    (injected, "slip", {}),
    (failing, "failing", {}),
    (processed, "processed", {}),
    (OwnTool(), "OwnTool.parse", {}),
    (file_tools(Broken())[0], "read_file", {"path": "/a"}),
]


@pytest.mark.parametrize(("made", "named", "given"), IN_TOOLS, ids=lambda one: getattr(one, "__name__", None))
async def test_an_exception_in_a_tool_or_its_arguments_is_a_result_that_the_model_reads(
    made: Any, named: str, given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sandbur")
    name = made.spec.name if hasattr(made, "spec") else made.__name__
    model = ScriptedModel([ToolCall(name, **given), "I see."])
    result = await Agent(model, tools=[made], mode="yolo", store="memory:").run("go")
    (read,) = (one for message in model.requests[-1].messages for one in message.tool_results)
    assert (result.status, result.output, read.outcome) == ("done", "I see.", "error")
    assert named in read.content
    assert "ArithmeticError: nothing is here" in read.content
    assert "in slip\n" in caplog.text
    assert "Traceback" in caplog.text


def agent(*replies: Any, **given: Any) -> Agent[Any]:
    return Agent(ScriptedModel(replies or ["ok"]), mode="yolo", store="memory:", **given)


async def run(made: Agent[Any], **given: Any) -> str:
    """Return the message of the error that ends a run."""
    result = await made.run("go", **given)
    assert result.error is not None
    assert result.status == "error"
    return result.error.message


def rules(context: RunContext[None]) -> str:
    slip()


def of_session(place: Any) -> str:
    slip()


async def hooked(moment: Any) -> str:
    made = agent()
    made.add_hook(moment, slip)
    return await run(made)


async def asked() -> str:
    made = Agent(ScriptedModel([ToolCall("failing"), "ok"]), tools=[failing], store="memory:")
    return await run(made, on_approval=slip)


async def indexed() -> str:
    base = KnowledgeBase("docs", store="memory:", embeddings=Broken())
    async with base:
        await base.add(text="words", name="a.md")
    return ""


async def searched(**given: Any) -> str:
    async with KnowledgeBase("docs", store="memory:", **given) as base:
        await base.add(text="words", name="a.md")
        await base.search("words")
    return ""


async def evaluated(check: Any, **given: Any) -> str:
    suite = Suite([Task("Do it.", check=check)], name="own")
    with temporary_store() as store:
        await Evaluator(suite, {"one": agent()}, store=store.url, env=store.env, **given).run()
    return ""


def of_middleware(name: str) -> Callable[[], Awaitable[str]]:
    made = type("Own", (Middleware,), {name: lambda *given: slip()})()
    return lambda: run(agent(middleware=[made]))


ENDING: Mapping[str, tuple[Callable[[], Awaitable[str]], str]] = {
    "instructions": (lambda: run(agent(instructions=slip)), "slip"),
    "instructions of a run": (lambda: run(agent(instructions=rules)), "rules"),
    "instructions of a session": (lambda: run(agent(instructions=of_session)), "of_session"),
    "output validator": (lambda: run(agent(output_validators=[slip])), "slip"),
    "output type": (lambda: run(agent('{"x": 1}', output=Checked)), "Checked.check"),
    "on_approval": (asked, "slip"),
    "token counter": (lambda: run(agent(token_counter=Broken())), "Broken.count_tokens"),
    "model": (lambda: run(Agent(Broken(), store="memory:", planning="off")), "Broken."),
    "function of a scripted model": (lambda: run(agent(slip)), "slip"),
    "hook before the reply": (lambda: hooked("pre_reply"), "slip"),
    "hook after the reply": (lambda: hooked("post_reply"), "slip"),
    "hook of reasoning": (lambda: hooked("pre_reasoning"), "slip"),
    "router": (lambda: run(agent(middleware=[ModelRouter(Route(slip, Broken()))])), "ModelRouter"),
    "middleware of messages": (of_middleware("rewrite_message"), "Own"),
    "middleware of models": (of_middleware("wrap_model_call"), "Own"),
    "workflow": (lambda: run(Sequential(agent(name="a", description="d"), slip, store="memory:")), "slip"),
    "embedder": (indexed, "own/broken"),
    "rewriting of a query": (lambda: searched(rewrite=slip), "slip"),
    "order of passages": (lambda: searched(rerank=lambda query, found: slip()), "lambda"),
    "metric": (lambda: evaluated(lambda solution: True, metrics=[Metric("lines", slip)]), "lines"),
    "check of a task": (lambda: evaluated(lambda solution: slip()), "check"),
}


@pytest.mark.parametrize("place", ENDING)
async def test_an_exception_elsewhere_is_one_sentence_that_names_the_function(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    work, named = ENDING[place]
    try:
        message = await work()
    except SandburError as error:
        message = error.message
    assert named in message
    assert "ArithmeticError: nothing is here" in message
    assert "Sandbur failed" not in message
    assert "\n" not in message
    assert "in slip\n" in caplog.text


async def test_a_trigger_that_fails_matches_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    result = await agent(flows=[Flow("own", match=slip, reply="x")]).run("go")
    assert result.output == "ok"
    assert "in slip\n" in caplog.text


@pytest.mark.parametrize("leaves", [KeyboardInterrupt, asyncio.CancelledError, SystemExit])
def test_what_ends_the_program_passes_the_guard(leaves: type[BaseException]) -> None:
    with pytest.raises(leaves), UserCode("A function"):
        raise leaves


def test_an_exception_of_sandbur_is_not_blamed_on_the_user() -> None:
    message = r"The user's function test_an_.* failed: ArithmeticError: nothing is here\."
    with pytest.raises(UserCodeError, match=message), UserCode():
        slip()
    with pytest.raises(AttributeError) as found, UserCode():
        parse_shell_command(None)  # type: ignore[arg-type]
    assert name_user_function(found.value) == ""


async def test_a_model_whose_stream_has_no_reply_is_named() -> None:
    class Silent(Broken):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            for piece in ():
                yield piece

        count_tokens = None  # type: ignore[assignment]

    message = await run(Agent(Silent(), store="memory:", planning="off"))
    assert message == "The stream of the model own/broken ended without a Reply."


def test_the_log_has_a_level_for_what_a_model_reads(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UserCodeError), UserCode("A check", level=logging.WARNING):
        slip()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_an_exception_whose_text_fails_is_a_result_that_the_model_reads() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            return slip()

    @tool(effect="read")
    def break_off() -> None:
        """Do nothing."""
        raise Mute

    model = ScriptedModel([ToolCall("break_off"), "Done."])
    result = await Agent(model, tools=[break_off], store="memory:", planning="off").run("go")
    assert (result.status, result.output) == ("done", "Done.")
    with pytest.raises(UserCodeError, match=r"^A check failed: Mute\."), UserCode("A check"):
        raise Mute
