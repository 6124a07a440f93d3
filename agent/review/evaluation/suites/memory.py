"""The suite `memory`: a person mentions facts among other talk, and a question needs them later."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .....state.conversation.messages import Message
from .....state.errors import UsageError
from .....state.lazy_dataclass import dataclass
from .task import EarlierSession, Solution, Task

COMPRESS = "/compact"
_MEMORY = "memory"
_PROJECT = {".git/HEAD": "ref: refs/heads/main\n"}
"""A file that makes the workspace a separate project, even inside a repository, with separate facts."""
_TALK_SENTENCES = 6
_TURNS_OF_TALK = 3
"""How many messages of other talk come before and after a message with a fact."""


@dataclass(frozen=True, slots=True)
class PlantedFact:
    """A fact that a person mentions in passing, and a question that only it answers."""

    name: str
    mention: str
    question: str
    answer: str
    """A part of every right answer."""
    correction: str = ""
    """What the person says when the fact has changed."""


FACTS = (
    PlantedFact(
        "staging-port",
        "By the way, since the move our staging database listens on port 6543.",
        "On which port does our staging database listen? Answer with the number.",
        "6543",
    ),
    PlantedFact(
        "release-day",
        "We agreed in the meeting that releases go out on Wednesdays from now on.",
        "On which day of the week do our releases go out?",
        "wednesday",
    ),
    PlantedFact(
        "approver",
        "Remember that Ilka Sorensen has to approve every change of the invoice templates.",
        "Who has to approve a change of the invoice templates?",
        "sorensen",
    ),
    PlantedFact(
        "customer-name",
        "The customer in Porto is called Quintal & Filhos, and they want their name spelled like that.",
        "How is our customer in Porto called?",
        "quintal",
    ),
    PlantedFact(
        "retry-limit",
        "After the outage we settled on 7 retries for the billing service, not more.",
        "How many retries did we settle on for the billing service? Answer with the number.",
        "7",
    ),
    PlantedFact(
        "test-command",
        "Our tests run with `just verify`; the old make target is gone.",
        "With which command do our tests run?",
        "just verify",
    ),
)
CORRECTED = (
    PlantedFact(
        "meeting-room",
        "Our weekly review is in the room Larch.",
        "In which room is our weekly review?",
        "birch",
        "The weekly review has moved: it is in the room Birch from now on, no longer in Larch.",
    ),
    PlantedFact(
        "log-days",
        "We keep the access logs for 30 days.",
        "For how many days do we keep the access logs? Answer with the number.",
        "45",
        "The rule about access logs has changed: we keep them for 45 days now.",
    ),
)
"""Facts that change in a later session."""
_TOPICS = ("the gallery page", "the import of old orders", "the icons", "the newsletter", "the stock list")
_REMARKS = (
    "{topic} looks fine to me as it is.",
    "Somebody asked about {topic} again, and I said that we wait.",
    "I read through {topic} yesterday and found nothing that is urgent.",
    "For {topic} a sketch is enough at the moment.",
    "Nothing to do about {topic} today.",
    "{topic} can stay where it is until the others are back.",
)


def list_memory_tasks(part: str) -> list[Task]:
    """Return the tasks; raises `UsageError` if a part is named."""
    if part:
        raise UsageError(
            f"The suite memory has no part {part[:60]!r}.", "`--task session` selects tasks by their names."
        )
    return [
        *(make(fact) for make in (_ask_after_compression, _ask_in_another_session) for fact in FACTS),
        *(_ask_after_correction(fact) for fact in CORRECTED),
    ]


def _ask_after_compression(fact: PlantedFact) -> Task:
    """Return a task in which the question comes after two compressions of the same session."""
    talk = list(_list_talk(fact.name))
    turns = (fact.mention, *talk[:_TURNS_OF_TALK], COMPRESS, *talk[_TURNS_OF_TALK:], COMPRESS)
    noted = ["Noted."] * (len(turns) - turns.count(COMPRESS))
    return Task(
        fact.question,
        _PROJECT,
        name=f"session/{fact.name}",
        turns=turns,
        check=RightAnswer(fact.answer),
        script=[*noted, _recall(fact.question), fact.answer],
    )


def _ask_in_another_session(fact: PlantedFact) -> Task:
    """Return a task in which the question comes in the second session of the same project."""
    return Task(
        fact.question,
        _PROJECT,
        name=f"project/{fact.name}",
        earlier=(_mention(fact, fact.mention),),
        check=RightAnswer(fact.answer),
        script=[_recall(fact.question), fact.answer],
    )


def _ask_after_correction(fact: PlantedFact) -> Task:
    """Return a task in which a second session corrects the fact, and a third one asks for it."""
    correct = {
        "command": "str_replace",
        "path": _path_of(fact),
        "old_str": fact.mention,
        "new_str": fact.correction,
    }
    return Task(
        fact.question,
        _PROJECT,
        name=f"corrected/{fact.name}",
        earlier=(
            _mention(fact, fact.mention),
            _talk_about(fact.correction, _call_memory(**correct), f"{fact.name} again"),
        ),
        check=RightAnswer(fact.answer),
        script=[_recall(fact.question), fact.answer],
    )


def _mention(fact: PlantedFact, text: str) -> EarlierSession:
    keep = _call_memory(command="create", path=_path_of(fact), file_text=text)
    return _talk_about(text, keep, fact.name)


def _talk_about(text: str, call: dict[str, Any], seed: str) -> EarlierSession:
    """Return a session in which a person mentions something among other talk."""
    talk = list(_list_talk(seed))
    before, after = talk[:_TURNS_OF_TALK], talk[_TURNS_OF_TALK:]
    script = [*["Noted."] * len(before), call, "Noted.", *["Noted."] * len(after)]
    return EarlierSession((*before, text, *after), script)


def _list_talk(seed: str) -> Iterator[str]:
    """Yield messages that have nothing to do with the fact, always the same for a seed."""
    start = sum(seed.encode())
    for turn in range(2 * _TURNS_OF_TALK):
        sentences = [
            _REMARKS[(start + turn + number) % len(_REMARKS)].format(
                topic=_TOPICS[(start + turn * 2 + number) % len(_TOPICS)]
            )
            for number in range(_TALK_SENTENCES)
        ]
        yield " ".join(one[0].upper() + one[1:] for one in sentences)


def _path_of(fact: PlantedFact) -> str:
    return f"/memories/project/{fact.name}.md"


def _recall(question: str) -> dict[str, Any]:
    return _call_memory(command="recall", query=question)


def _call_memory(**arguments: str) -> dict[str, Any]:
    return {"calls": [{"tool": _MEMORY, "arguments": arguments}]}


@dataclass(frozen=True, slots=True)
class RightAnswer:
    """Checks the last answer, and measures whether the fact was saved and found."""

    answer: str

    def __call__(self, solution: Solution) -> dict[str, float]:
        every = [*(message for one in solution.earlier for message in one), *solution.history]
        return {
            "reward": float(self._is_in(solution.result)),
            "saved": float(any(self._is_in(text) for text in _list_calls(every))),
            "found": float(any(self._is_in(text) for text in _list_results(solution.history))),
        }

    def _is_in(self, text: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(self.answer)}(?!\d)", text, re.IGNORECASE) is not None


def _list_calls(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the arguments of the calls of memory."""
    for message in messages:
        yield from (one.arguments for one in message.tool_uses if one.tool == _MEMORY)


def _list_results(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the results of the calls of memory."""
    calls = {one.call_id for message in messages for one in message.tool_uses if one.tool == _MEMORY}
    for message in messages:
        yield from (one.content for one in message.tool_results if one.call_id in calls)
