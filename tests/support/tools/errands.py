"""A tool that makes calls of other tools, as the tests tell it, and an agent that has it."""

from collections.abc import Sequence
from pathlib import Path

from sandbur import Agent, tool
from sandbur.actions.ports import NestedCallsDiffer, NestedCallWaits, ToolContext, ToolOutcome, ToolTraits
from sandbur.actions.tools.builtin import BuiltinTool
from sandbur.actions.tools.schema import ToolArguments
from sandbur.state.calls import Effect
from sandbur.testing import ScriptedModel

Step = tuple[str, str]


class NoArguments(ToolArguments):
    """The tool has its calls from the test."""


class Errands(BuiltinTool[NoArguments]):
    """A tool that makes the calls of `steps`, which a test changes between two runs."""

    effect: Effect = "idempotent"
    traits = ToolTraits(asks="never")

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__("errands", "Run some errands.", NoArguments)
        self.steps = steps

    def subject(self, arguments: NoArguments) -> str:
        return ""

    async def run(self, arguments: NoArguments, context: ToolContext) -> ToolOutcome:
        assert context.calls is not None
        await context.calls.begin()
        try:
            for name, given in self.steps:
                await context.calls.request(name, given)
            context.calls.finish()
        except NestedCallWaits as waits:
            return ToolOutcome("error", "", waits_for=(waits.call,))
        except NestedCallsDiffer as differ:
            return ToolOutcome("error", str(differ))
        return ToolOutcome("ok", context.calls.describe())


class Town:
    def __init__(self, folder: Path, *steps: Step) -> None:
        self.done: list[str] = []
        self.errands = Errands(steps)
        self._folder = folder

    @tool(effect="read")
    def ask(self, whom: str) -> str:
        self.done.append(f"ask {whom}")
        return "yes"

    @tool
    def send(self, what: str) -> str:
        self.done.append(f"send {what}")
        return "sent"

    def agent(self, *turns: object) -> Agent:
        env = {"HOME": str(self._folder), "SANDBUR_HOME": str(self._folder / "home")}
        tools = [self.errands, self.ask, self.send]
        store = f"sqlite:///{self._folder}/runs.db"
        return Agent(ScriptedModel(list(turns)), tools=tools, store=store, cwd=self._folder, env=env)


ASK, SEND, SEND_MORE = ("ask", '{"whom": "Ann"}'), ("send", '{"what": "a"}'), ("send", '{"what": "b"}')
