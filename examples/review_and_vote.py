"""Three agents review a change at the same time; then three judges vote on it.

The models are scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import os
from dataclasses import dataclass
from typing import Any

from sandbur import Agent, Parallel, Sequential, Vote
from sandbur.testing import ScriptedModel

CHANGE = "def price(cents): return cents / 100"


@dataclass
class Review:
    topic: str
    remarks: list[str]


@dataclass
class Verdict:
    merge: bool
    reason: str


def reviewer(topic: str, *remarks: str) -> Agent[Review]:
    return Agent(
        os.environ.get("SANDBUR_MODEL")
        or ScriptedModel(lambda request: {"topic": topic, "remarks": remarks}),
        name=topic,
        instructions=f"You review the {topic} of a change, and nothing else.",
        output=Review,
    )


def judge(name: str, merge: bool, reason: str) -> Agent[Verdict]:
    return Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(lambda request: {"merge": merge, "reason": reason}),
        name=name,
        instructions="You get the reviews of a change. Decide whether it is merged.",
        output=Verdict,
    )


reviews = Parallel(
    reviewer("security"),
    reviewer("style", "name the unit in the result"),
    reviewer("tests", "no test"),
    name="reviews",
    on_failure="ignore",
)
verdict = Vote(
    judge("ada", False, "It has no test."),
    judge("bob", True, "It is a small change."),
    judge("cleo", False, "It needs a test."),
    name="verdict",
    key=lambda given: given.merge,
    quorum=2,
)


def only_with_remarks(given: list[Any]) -> list[Any]:
    """Leave out reviewers that failed, and those that found nothing."""
    return [review for review in given if review is not None and review.remarks]


if __name__ == "__main__":
    result = Sequential(reviews, only_with_remarks, verdict).run_sync(CHANGE).raise_for_status()
    print(result.output)
    for child in result.children:
        print(child.name, child.status, child.text)
