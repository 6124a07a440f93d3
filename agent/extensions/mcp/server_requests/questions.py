"""Requests that servers may send: the session's folders, questions to the person, and model calls."""

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import mcp_types as types

from .....actions.ports.user_input import UserInput, UserQuestion
from ....runtime.tool_servers import Elicitation, OnElicitation
from ..configuration.servers import McpServer
from ..text import one_line, plain
from ..transport.oauth import ShowAddress

_MOST_QUESTION_CHARS = 2000
MOST_SAMPLES = 20
"""Limit of model calls of one server per connection."""


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    action: str
    """`accept`, `decline` or `cancel`."""
    content: Mapping[str, Any] | None = None


class AsksPerson(Protocol):
    """Puts a question to the person, and waits."""

    async def __call__(self, question: Elicitation) -> ElicitationAnswer: ...


def ask_program(answers: OnElicitation | None) -> AsksPerson | None:
    """Return what puts questions to a function of a program; None if there is none."""
    if answers is None:
        return None

    async def ask(question: Elicitation) -> ElicitationAnswer:
        content = await answers(question)
        return ElicitationAnswer("decline" if content is None else "accept", content)

    return ask


def ask_user(user_input: UserInput | None) -> AsksPerson | None:
    """Return what puts questions to the person by the port of the agent; None if there is none."""
    if user_input is None:
        return None

    async def ask(question: Elicitation) -> ElicitationAnswer:
        answer = await user_input.ask(
            UserQuestion(question.message, schema=question.schema, url=question.url, asked_by=question.server)
        )
        return ElicitationAnswer(answer.action, answer.content)

    return ask


Samples = Callable[[str, str, int], Awaitable[tuple[str, str]]]
"""Asks the session's model: system prompt, text, most tokens -> its name and its answer."""


class CallClock(Protocol):
    """The time limit of a running call."""

    def pause(self) -> None: ...
    def restart(self) -> None: ...


class Host:
    """Answers the requests of servers; questions that no person can answer are declined."""

    def __init__(
        self,
        roots: Sequence[Path] = (),
        asks_person: AsksPerson | None = None,
        samples: Samples | None = None,
        tell: Callable[[str], None] | None = None,
        show_sign_in: ShowAddress | None = None,
    ) -> None:
        """`tell` is called with a sentence about each question that was declined.

        `show_sign_in` begins a new sign-in at servers that want one; None: nobody can sign in now.
        """
        self.show_sign_in = show_sign_in
        self._roots = tuple(roots)
        self._asks_person = asks_person
        self._samples = samples
        self._tell = tell or _unheard
        self._clocks: dict[str, set[CallClock]] = defaultdict(set)
        """The clocks of the running calls, by server."""

    @property
    def has_person(self) -> bool:
        """Whether a person can answer now."""
        return self._asks_person is not None

    @contextmanager
    def pause_at_questions(self, server: str, clock: CallClock) -> Generator[None]:
        """Pause the clock of a call of a server while the person is asked: an answer may take its time."""
        self._clocks[server].add(clock)
        try:
            yield
        finally:
            self._clocks[server].discard(clock)

    def roots_of(self, server: McpServer) -> Any:
        """Return the callback that gives a server the folders of the session."""

        async def list_roots(context: Any) -> types.ListRootsResult:
            return types.ListRootsResult.model_validate(
                {"roots": [{"uri": folder.as_uri(), "name": folder.name} for folder in self._roots]}
            )

        return list_roots

    def elicitation_of(self, server: McpServer) -> Any:
        """Return what puts questions of a server to the person; without one they are declined."""

        async def elicit(context: Any, params: Any) -> types.ElicitResult:
            question = _question(server.name, params)
            if self._asks_person is None:
                self._tell(
                    f"The tool server {server.name} asked something, which was declined, since nobody is"
                    f" there to answer: {one_line(question.message)}"
                )
                return types.ElicitResult(action="decline")
            clocks = [*self._clocks[server.name]]
            for clock in clocks:
                clock.pause()
            try:
                answer = await self._asks_person(question)
            finally:
                for clock in clocks:
                    clock.restart()
            return types.ElicitResult.model_validate(
                {"action": answer.action, "content": None if answer.content is None else dict(answer.content)}
            )

        return elicit

    def sampling_of(self, server: McpServer) -> Any:
        """Return the callback that lets a server call the model; None: sampling is not allowed."""
        if not server.table.sampling or self._samples is None:
            return None
        samples, left = self._samples, [MOST_SAMPLES]

        async def sample(context: Any, params: Any) -> types.CreateMessageResult | types.ErrorData:
            if not left[0]:
                return types.ErrorData(code=-1, message=f"No more than {MOST_SAMPLES} questions to the model")
            left[0] -= 1
            text = "\n\n".join(f"{one.role}: {_text_of(one)}" for one in params.messages)
            model, answer = await samples(params.system_prompt or "", text, params.max_tokens)
            return types.CreateMessageResult(
                role="assistant", content=types.TextContent(type="text", text=answer), model=model
            )

        return sample


def _unheard(sentence: str) -> None:
    pass


def _question(server: str, params: Any) -> Elicitation:
    schema = getattr(params, "requested_schema", None)
    url = str(getattr(params, "url", "") or "")
    shape: dict[str, Any] = json.loads(json.dumps(schema, default=str)) if isinstance(schema, dict) else {}
    return Elicitation(server, plain(params.message, _MOST_QUESTION_CHARS), shape, one_line(url))


def _text_of(message: Any) -> str:
    payload: Any = message.content
    content = cast("list[Any]", payload) if isinstance(payload, list) else [payload]
    return "\n".join(block.text for block in content if isinstance(block, types.TextContent))
