"""What the demo has to know of a language: how requests are worded in it, and how the demo answers them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ....state.conversation.messages import Outcome

Ability = Literal["run", "write", "edit", "search", "read", "list"]
Topic = Literal["load", "web", "disk", "folders"]


@dataclass(frozen=True, slots=True)
class Understood:
    """Patterns, all of them regardless of case; those of every language are tried on every text."""

    word: str
    """A word, or a letter where words are not written apart: what is counted to find a text's language."""
    foreign: str
    """Letters that this language does not have although `word` fits beside them; empty: there are none."""
    polite: str
    """What may stand before a request."""
    requests: tuple[tuple[Ability, str], ...]
    """What is said for it; the named groups are the arguments of the call. The first match wins."""
    greeting: str
    help: str
    """Asks what the demo can do; empty: every other text is answered like this."""
    trouble: str
    """Speaks of something that takes a plan with measurements."""
    web: str
    disk: str
    has_own_script: bool = False
    """No text in ASCII alone has a word or a request of it."""


@dataclass(frozen=True, slots=True)
class Phrases:
    """Sentences and templates (`str.format`) of one language."""

    understood: Understood

    # About the demo itself.
    hello: str
    cannot: str
    """Goes before the list of abilities where a request is none of them."""
    how_to_get_a_model: str
    abilities: str
    plan_first: str
    tool_missing: str
    nothing_to_summarize: str

    # Results of single calls.
    no_result: str
    silent: str
    more_lines: str
    outcomes: Mapping[Outcome, str]

    # Steps of a plan.
    topics: Mapping[Topic, str]
    titles: Mapping[Topic, str]
    """Descriptions of the steps; none begins like another one, of any language."""
    no_program: str
    this_step: str
    """Stands for the title of a step that has none."""
    run_again: str
    troubles: Mapping[str, str]
    """Outcome -> what went wrong with a command, for the summary of its step."""

    # What was measured, and what of it is a problem.
    load: str
    overloaded: str
    memory: str
    little_memory: str
    process: str
    busiest: str
    busy_core: str
    fullest: str
    full: str
    folder: str
    largest: str
    folder_size: str
    ports: str
    no_ports: str
    no_listener: str
    not_timed: str
    nothing_answered: str
    no_answer_anywhere: str
    no_answer: str
    answered: str
    fails: str
    slow_lookup: str
    slow_first_byte: str

    # How summaries and the report are put together.
    comma: str
    semicolon: str
    colon: str
    """Between a summary's topic, or a step's description, and what follows."""
    measured: str
    problem_mark: str
    """Separates the facts of a summary from its problems, so that the report finds them again."""
    problems: str
    not_measured: str
    unreadable: str
    likely: str
    also: str
    unexplained: str
    unmeasured: str
    failed_mark: str

    def counts_in(self, text: str) -> int:
        """Return how many words of this language the text has."""
        if self.understood.foreign and re.search(self.understood.foreign, text):
            return 0
        return len(re.findall(self.understood.word, text))
