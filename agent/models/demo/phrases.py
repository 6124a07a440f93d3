"""The patterns and sentences that the demo needs for one language."""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from ....state.conversation.messages import Outcome

Ability = Literal["run", "write", "edit", "search", "read", "list"]
Topic = Literal["load", "web", "disk", "folders"]


class Understood(NamedTuple):
    """Patterns for user messages, case-insensitive; each text is tried in all languages."""

    word: str
    """A word, or a letter in languages without blanks: counted to detect the language."""
    foreign: str
    """Letters that exclude this language although `word` matches them; empty: there are none."""
    polite: str
    """Optional words before a request."""
    requests: tuple[tuple[Ability, str], ...]
    """Tool -> pattern of its requests; the named groups are the arguments. The first match wins."""
    greeting: str
    help: str
    """Pattern of a question about what the demo can do; empty: any text that matches nothing else is one."""
    trouble: str
    """Matches a problem that needs a plan with measurements."""
    web: str
    disk: str
    has_own_script: bool = False
    """True if no ASCII text can be in this language."""


class Phrases(NamedTuple):
    """Sentences and templates (`str.format`) of one language."""

    understood: Understood

    # About the demo itself.
    hello: str
    cannot: str
    """Comes before the list of abilities if a request is not one of them."""
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
    """Descriptions of the steps; none is the beginning of another one, in any language."""
    no_program: str
    this_step: str
    """Replaces a missing title of a step."""
    run_again: str
    troubles: Mapping[str, str]
    """Outcome -> the problem of a command, for the summary of its step."""

    # Findings, and the problems among them.
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
        """Return the number of words of this language in the text."""
        if self.understood.foreign and re.search(self.understood.foreign, text):
            return 0
        return len(re.findall(self.understood.word, text))
