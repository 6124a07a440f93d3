"""How many planted facts `recall` finds after five compressions, and its cost in a long session."""

import random
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import tell

from sandbur import Agent, events, tool
from sandbur.actions.ports import ModelRequest
from sandbur.agent.history.recall import RecalledPassage, recall
from sandbur.state.conversation.messages import Message
from sandbur.state.store.recording import list_messages
from sandbur.state.store.sessions.family import list_descendants
from sandbur.state.store.sessions.message_search import flatten_message
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

LEAST_FOUND, MOST_SEEN, COMPRESSIONS = 0.95, 5, 5
SHOWN_CHARS = 700
WINDOW_TOKENS, SUMMARY_WORDS = 24_000, 600
WORDS: list[str] = []


class Theme(NamedTuple):
    """What the facts and the texts around them are about."""

    things: Sequence[str]
    owners: Sequence[str]
    ways: Sequence[tuple[str, str]]
    """Sentences of facts, each with a question that has some of its words in other forms, and others."""
    near: Sequence[str]
    """Sentences of the other texts that have words of facts and questions."""
    every: int
    """Of so many sentences, one is of `near`."""
    answer: str
    """The form of an answer: `letters` is random, `number` is that of the fact."""

    def pick_pair(self, chance: random.Random) -> dict[str, str]:
        return {"thing": chance.choice(self.things), "owner": chance.choice(self.owners)}


DEPOTS = Theme(
    ("pump", "valve", "boiler", "sensor", "filter", "motor", "battery", "antenna", "hinge", "fuse"),
    ("Lyon", "Porto", "Turin", "Bergen", "Krakow", "Ghent", "Malmo", "Seville", "Graz", "Tartu"),
    (
        (
            "The {thing} in {owner} was replaced by {it}.",
            "Which technician replaced {thing}s at the {owner} site?",
        ),
        (
            "{it} has to approve each {thing} that goes to {owner}.",
            "Whose approval does a {owner} {thing} need?",
        ),
        (
            "We agreed that {it} keeps the spare {thing} for {owner}.",
            "Find who is keeping spare {thing}s, {owner}",
        ),
    ),
    (
        "Nobody asked about a {thing} on day {day}.",
        "The site in {owner} needs no approval for {day} hours.",
        "A technician replaced nothing; spare {thing}s are on a shelf.",
    ),
    8,
    "Q{letters}{number}ver",
)
"""The theme on which the ranking was tuned."""
SERVICES = Theme(
    ("timeout", "retries", "queue", "cache", "batch", "quota", "replicas", "memory", "port", "region"),
    (
        "billing",
        "ledger",
        "checkout",
        "gateway",
        "search",
        "mailer",
        "catalog",
        "uploads",
        "reports",
        "login",
    ),
    (
        ("Settled: {owner} gets {it} as its {thing}.", "What did we settle on for the {thing} of {owner}?"),
        ("Since the outage {owner} runs with {thing} {it}.", "{owner} {thing} after the outage"),
        (
            "Leave the {thing} setting of {owner} at {it}, it measured best.",
            "best measured {thing}, {owner} service",
        ),
    ),
    (
        "The {thing} of most services is documented elsewhere, see page {day}.",
        "{owner} was deployed on day {day} without an outage.",
        "We measured nothing; {owner} keeps its settings.",
        "Somebody wants to discuss the {thing} of {owner}, but not before day {day}.",
    ),
    5,
    "{number}x{letters}",
)
"""A theme for which nothing was tuned; some of its other sentences name both words of a fact."""
PLACES = ("message", "result", "child")
ROUNDS = 5
LENGTHS = (10, 1)
"""The long session has as many messages as are asked for, the short one a tenth."""
MOST_GROWTH, FIRST_LIMIT_S = 3.0, 3.0


class Fact(NamedTuple):
    text: str
    question: str
    answer: str
    place: str


def make_facts(theme: Theme, count: int) -> list[Fact]:
    """Return facts about different things and owners; their answers stand nowhere else."""
    chance = random.Random(7)
    pairs = chance.sample([(thing, owner) for thing in theme.things for owner in theme.owners], count)
    facts: list[Fact] = []
    for number, (thing, owner) in enumerate(pairs):
        letters = f"{chance.choice('aeiou')}{chance.choice('lmnrst')}"
        it = theme.answer.format(letters=letters, number=number)
        way = theme.ways[number // len(PLACES) % len(theme.ways)]
        text, question = (one.format(thing=thing, owner=owner, it=it) for one in way)
        facts.append(Fact(text, question, it, PLACES[number % len(PLACES)]))
    return facts


def make_words() -> list[str]:
    """Return 3,000 words of two to four syllables."""
    chance = random.Random(2)
    syllables = [first + second for first in "bdfgklmnprstv" for second in "aeiou"]
    return ["".join(chance.choices(syllables, k=chance.randrange(2, 5))) for _ in range(3000)]


def make_filler(theme: Theme, chance: random.Random, sentences: int) -> str:
    """Return sentences of common and rare words, some with words of facts."""
    made: list[str] = []
    for _ in range(sentences):
        ranks = (int(chance.paretovariate(0.6)) % len(WORDS) for _ in range(9))
        other = f"{' '.join(WORDS[n] for n in ranks)}."
        near = chance.choice(theme.near).format(**theme.pick_pair(chance), day=chance.randrange(900))
        made.append(other if chance.randrange(theme.every) else near)
    return " ".join(made)


WORDS += make_words()


class Storyteller:
    """Sends the facts to an agent with real tools, sub-agents and compressions."""

    def __init__(self, folder: Path, theme: Theme, count: int) -> None:
        self.theme, self.chance = theme, random.Random(3)
        self.facts = make_facts(theme, count)
        self.compressions = 0
        self.store = f"sqlite:///{folder}/recall.db"
        self.env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
        self.folder = folder
        self.results: list[str] = []
        self.next_calls: list[ToolCall] = []

    def answer(self, request: ModelRequest) -> str | ToolCall:
        """Answer a request of the agent: call a tool if one is planned, or write a summary."""
        if request.purpose == "summary":
            words = next(iter(request.messages)).text.split()
            return " ".join(words[-SUMMARY_WORDS:])
        return self.next_calls.pop(0) if self.next_calls else make_filler(self.theme, self.chance, 12)

    def answer_as_child(self, request: ModelRequest) -> str | ToolCall:
        if any(message.tool_results for message in request.messages):
            return "The log is read."
        return ToolCall("read_log", name="part")

    def surround(self, text: str) -> str:
        return f"{make_filler(self.theme, self.chance, 40)} {text} {make_filler(self.theme, self.chance, 40)}"

    async def tell(self) -> tuple[str, str]:
        """Plant the facts and go on until there were five compressions. Return the session and its view."""
        model = ScriptedModel(self.answer, context_window=WINDOW_TOKENS)

        @tool(effect="read")
        def read_log(name: str) -> str:
            """Read a log."""
            return self.results.pop(0)

        child = Agent(
            ScriptedModel(self.answer_as_child), name="reader", description="Reads logs.", tools=[read_log]
        )
        agent = Agent(
            model, memory="agent", tools=[read_log], agents=[child], store=self.store, env=self.env,
            cwd=self.folder,
        )  # fmt: skip
        async with agent, agent.session() as session:
            for fact in self.facts:
                await self._send(session, fact)
            while self.compressions < COMPRESSIONS:
                await self._follow(session, make_filler(self.theme, self.chance, 80))
            view = "\n".join(message.text for message in model.requests[-1].messages)
            view += "\n".join(flatten_message(message) for message in model.requests[-1].messages)
            return session.id, view

    async def _send(self, session: Any, fact: Fact) -> None:
        if fact.place == "message":
            await self._follow(session, self.surround(fact.text))
            return
        self.results.append(self.surround(fact.text))
        call = ToolCall("read_log", name="part")
        if fact.place == "child":
            call = ToolCall("task", description="read", prompt="Read the log.", agent="reader")
        self.next_calls.append(call)
        await self._follow(session, make_filler(self.theme, self.chance, 30))

    async def _follow(self, session: Any, text: str) -> None:
        async for event in session.stream(text):
            if isinstance(event, events.Compacted):
                self.compressions += 1


async def measure(folder: Path, count: int) -> None:
    await measure_theme(folder, DEPOTS, count)


async def measure_held_out(folder: Path, count: int) -> None:
    await measure_theme(folder, SERVICES, count)


async def measure_theme(folder: Path, theme: Theme, count: int) -> None:
    """Print the share of facts that are found among the first five passages, and that of the baselines."""
    story = Storyteller(folder, theme, count)
    session_id, view = await story.tell()
    store = Store.open(story.store)
    texts = [*_list_texts(store, session_id)]
    by_place = {place: [fact for fact in story.facts if fact.place == place] for place in PLACES}
    in_view = sum(fact.answer in view for fact in story.facts) / count
    plain = sum(_find_plain(texts, fact) for fact in story.facts) / count
    hits = {fact: _is_found(recall(store, session_id, fact.question), fact) for fact in story.facts}
    print(f"{len(texts):,} messages of {len(list_descendants(store.database, session_id)) + 1} sessions,"
          f" {story.compressions} compressions, {count} facts")  # fmt: skip
    print(f"The request after the last compression still has {in_view:.0%} of the facts.")
    print(f"A search for substrings, by how many words match and the newest first: {plain:.0%} in five.")
    for place, facts in by_place.items():
        print(f"recall, facts in a {place}: {sum(map(hits.__getitem__, facts)) / len(facts):.0%} in five")
    missed = 1 - sum(hits.values()) / count
    tell(
        "facts that recall misses after five compressions",
        missed,
        1 - LEAST_FOUND,
        against=f"{1 - plain:.2f}",
    )
    store.close()


def _is_found(passages: Sequence[RecalledPassage], fact: Fact) -> bool:
    return any(fact.answer in one.text for one in passages[:MOST_SEEN])


def _list_texts(store: Store, session_id: str) -> Iterator[str]:
    for owner in (session_id, *list_descendants(store.database, session_id)):
        for recorded in list_messages(store.database, owner):
            if text := flatten_message(recorded.message):
                yield text


def _find_plain(texts: Sequence[str], fact: Fact) -> bool:
    """Return whether the answer is near the words of the question in one of the first five texts."""
    words = re.findall(r"\w{4,}", fact.question.lower())
    ranked = sorted(
        enumerate(texts),
        key=lambda one: (sum(word in one[1].lower() for word in words), one[0]),
        reverse=True,
    )
    for _, text in ranked[:MOST_SEEN]:
        places = [place for word in words if (place := text.lower().find(word)) >= 0]
        middle = sorted(places)[len(places) // 2] if places else 0
        if fact.answer in text[max(middle - SHOWN_CHARS // 2, 0) : middle + SHOWN_CHARS // 2]:
            return True
    return False


async def measure_lengths(folder: Path, count: int) -> None:
    """Print the CPU time of one search in a session of `count` messages and in one of a tenth."""
    store_url, taken = f"sqlite:///{folder}/lengths.db", {}
    chance = random.Random(5)
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
    model = ScriptedModel(lambda request: "ok", context_window=10**9)
    agent = Agent(model, memory="off", store=store_url, env=env, cwd=folder)
    async with agent:
        for share in LENGTHS:
            length = count // share
            past = [
                Message.user(make_filler(DEPOTS, chance, 3))
                if number % 2 == 0
                else Message.assistant(f"ok {number}")
                for number in range(length)
            ]
            async with agent.session(f"s{length}") as session:
                await session.run("Go on.", message_history=past)
                taken[length] = await _measure_session(store_url, session, length)
    short, long = sorted(taken)
    ratio = taken[long] / taken[short]
    tell(
        f"CPU of recall, {long:,} messages over {short:,}", ratio, MOST_GROWTH, "x", f"{taken[short]:.1f} ms"
    )


async def _measure_session(store_url: str, session: Any, length: int) -> float:
    """Return the milliseconds of a search after each turn of a session; the first one indexes it."""
    store = Store.open(store_url)
    began = time.process_time()
    recall(store, session.id, "spare pump Lyon")
    first_s = time.process_time() - began
    behind: list[str] = [""]
    while behind:  # the next searches index the rest
        behind.clear()
        recall(store, session.id, "spare pump Lyon", tell=behind.append)
    spent = 0.0
    for number in range(ROUNDS):
        await session.run(f"Turn {number}.")
        began = time.process_time()
        recall(
            store, session.id, f"who replaced the {DEPOTS.things[number % 10]} in {DEPOTS.owners[number % 7]}"
        )
        spent += time.process_time() - began
    print(f"{length:,} messages: then {spent / ROUNDS * 1000:.1f} ms")
    tell(f"the first search in {length:,} messages, CPU", first_s, FIRST_LIMIT_S, " s")
    store.close()
    return spent / ROUNDS * 1000
