"""Answers the requests of tool servers: for the session's folders, a person's answer, or a model call."""

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import mcp_types as types

from .....actions.ports.user_input import UserInput, UserQuestion
from .....actions.turn.user_code import UserCode
from .....state.errors import UserCodeError
from .....state.lazy_dataclass import dataclass
from ....runtime.tool_servers import Elicitation, OnElicitation
from ..configuration.servers import McpServer
from ..text import one_line, plain
from ..transport.oauth import ShowAddress

_MOST_QUESTION_CHARS = 2000
MOST_SAMPLES = 20
"""The most model calls of one server over one connection."""


@dataclass(frozen=True, slots=True)
class ElicitationAnswer:
    action: str
    """`accept`, `decline` or `cancel`."""
    content: Mapping[str, Any] | None = None


class AsksPerson(Protocol):
    """Asks the person a question and waits for the answer."""

    async def __call__(self, question: Elicitation) -> ElicitationAnswer: ...


def ask_program(answers: OnElicitation | None) -> AsksPerson | None:
    """Return a port that asks questions by calling a function of the program; None without a function."""
    if answers is None:
        return None

    async def ask(question: Elicitation) -> ElicitationAnswer:
        content = await answers(question)
        return ElicitationAnswer("decline" if content is None else "accept", content)

    return ask


def ask_user(user_input: UserInput | None) -> AsksPerson | None:
    """Return a function that passes a server's question to the person through `user_input`; None if it is
    None."""
    if user_input is None:
        return None

    async def ask(question: Elicitation) -> ElicitationAnswer:
        answer = await user_input.ask(
            UserQuestion(question.message, schema=question.schema, url=question.url, asked_by=question.server)
        )
        return ElicitationAnswer(answer.action, answer.content)

    return ask


Samples = Callable[[str, str, int], Awaitable[tuple[str, str]]]
"""Asks the session's model: (system prompt, text, most tokens) -> (name of the model, answer)."""


class CallClock(Protocol):
    """The time limit of a running call."""

    def pause(self) -> None: ...
    def restart(self) -> None: ...


class Host:
    """The client side of requests from servers. Questions that no person can answer are declined."""

    def __init__(
        self,
        roots: Sequence[Path] = (),
        asks_person: AsksPerson | None = None,
        samples: Samples | None = None,
        tell: Callable[[str], None] | None = None,
        show_sign_in: ShowAddress | None = None,
    ) -> None:
        """`tell` is called with a sentence about each question that was declined.

        `show_sign_in` begins a new sign-in at a server that requires one. None: no person can sign in now.
        """
        self.show_sign_in = show_sign_in
        self._roots = tuple(roots)
        self._asks_person = asks_person
        self._samples = samples
        self._tell = tell or _discard
        self._clocks: dict[str, set[CallClock]] = defaultdict(set)
        """The clocks of the running calls, by server."""

    @property
    def has_person(self) -> bool:
        """Return whether a person can answer now."""
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
        """Return the callback that returns the folders of the session to a server."""

        async def list_roots(context: Any) -> types.ListRootsResult:
            return types.ListRootsResult.model_validate(
                {"roots": [{"uri": folder.as_uri(), "name": folder.name} for folder in self._roots]}
            )

        return list_roots

    def elicitation_of(self, server: McpServer) -> Any:
        """Return the callback that asks the person a server's questions. Without a person it declines
        them."""

        async def elicit(context: Any, params: Any) -> types.ElicitResult:
            question = _question(server.name, params)
            if self._asks_person is None:
                self._tell(
                    f"The tool server {server.name} asked a question, which was declined, because nobody"
                    f" is there to answer: {one_line(question.message)}"
                )
                return types.ElicitResult(action="decline")
            clocks = [*self._clocks[server.name]]
            for clock in clocks:
                clock.pause()
            try:
                with UserCode(f"What answers the questions of {server.name}"):
                    answer = await self._asks_person(question)
            except UserCodeError as failed:
                self._tell(f"{failed.message} The question was declined.")
                return types.ElicitResult(action="decline")
            finally:
                for clock in clocks:
                    clock.restart()
            return types.ElicitResult.model_validate(
                {"action": answer.action, "content": None if answer.content is None else dict(answer.content)}
            )

        return elicit

    def sampling_of(self, server: McpServer) -> Any:
        """Return the callback for model calls of a server, or None if its configuration does not allow
        them."""
        if not server.table.sampling or self._samples is None:
            return None
        samples, left = self._samples, [MOST_SAMPLES]

        async def sample(context: Any, params: Any) -> types.CreateMessageResult | types.ErrorData:
            if not left[0]:
                return types.ErrorData(code=-1, message=f"The limit of {MOST_SAMPLES} model calls is reached")
            left[0] -= 1
            text = "\n\n".join(f"{one.role}: {_text_of(one)}" for one in params.messages)
            model, answer = await samples(params.system_prompt or "", text, params.max_tokens)
            return types.CreateMessageResult(
                role="assistant", content=types.TextContent(type="text", text=answer), model=model
            )

        return sample


def _discard(sentence: str) -> None:
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
