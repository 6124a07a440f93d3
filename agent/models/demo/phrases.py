"""The patterns and sentences of the demo in one language."""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from ....state.conversation.messages import Outcome

Ability = Literal["run", "write", "edit", "search", "read", "list"]
Topic = Literal["load", "web", "disk", "folders"]


class Understood(NamedTuple):
    """Patterns for user messages. They ignore case; each message is matched in all languages."""

    word: str
    """A pattern for one word, or for one letter in languages without blanks. Its matches are counted to
    detect the language."""
    foreign: str
    """Letters that exclude this language although `word` matches them. Empty: no letters do."""
    polite: str
    """Words that may precede a request."""
    requests: tuple[tuple[Ability, str], ...]
    """Each tool with a pattern for requests of it; the named groups are the arguments. The first match
    wins."""
    greeting: str
    help: str
    """A pattern for questions about what the demo can do. Empty: any text that matches nothing else is
    one."""
    trouble: str
    """A pattern for a problem that needs a plan with measurements."""
    web: str
    disk: str
    has_own_script: bool = False
    """Whether text in ASCII letters alone cannot be in this language."""


class Phrases(NamedTuple):
    """The sentences and templates (for `str.format`) in one language."""

    understood: Understood

    # Sentences about the demo itself.
    hello: str
    cannot: str
    """The sentence before the list of abilities, if the demo cannot do a request."""
    how_to_get_a_model: str
    abilities: str
    plan_first: str
    tool_missing: str
    nothing_to_summarize: str

    # Sentences about the results of single calls.
    no_result: str
    silent: str
    more_lines: str
    outcomes: Mapping[Outcome, str]

    # Sentences about the steps of a plan.
    topics: Mapping[Topic, str]
    titles: Mapping[Topic, str]
    """Descriptions of the steps. No description begins with another one, in any language."""
    no_program: str
    this_step: str
    """The text in place of a step's missing title."""
    run_again: str
    troubles: Mapping[str, str]
    """Outcome of a command -> the problem to name in the summary of its step."""

    # The findings, and the problems that they show.
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

    # The parts that join summaries and the report.
    comma: str
    semicolon: str
    colon: str
    """The text between a topic, or a step's description, and the words after it."""
    measured: str
    problem_mark: str
    """The mark between the facts and the problems of a summary, by which the report separates them."""
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
