"""The parts of the extension in a session: a tool and an observer."""

from collections.abc import Sequence

from sandbur import ExtensionRuntime, Observer, SessionAdditions, events, tool


class GreeterRuntime(ExtensionRuntime):
    def tool_sources(self, session, definition, needs_model):
        return (GreeterTools(self.process.settings.of("greeting")),)

    def open_session(self, context):
        return SessionAdditions(observers=(CallCounter(),))


class GreeterTools:
    """A tool source: an object with a name and the methods `tools`, `notices` and `aclose`."""

    name = "greeter"

    def __init__(self, greeting: str) -> None:
        @tool(effect="read")
        def greet(name: str) -> str:
            """Greet somebody.

            Args:
                name: The person's name.
            """
            return f"{greeting}, {name}!"

        self._tools = [greet]

    async def tools(self):
        return self._tools

    def notices(self) -> Sequence[str]:
        return ()

    async def aclose(self) -> None: ...


class CallCounter(Observer):
    """An observer that sends a notice with the number of calls of a run."""

    def __init__(self) -> None:
        self._calls = 0

    async def before_event(self, event) -> None:
        if isinstance(event, events.ToolFinished):
            self._calls += 1
        elif isinstance(event, events.RunFinished):
            self.notify(f"The run made {self._calls} calls.")
            self._calls = 0
