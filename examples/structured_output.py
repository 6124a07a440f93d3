"""A structured answer: a value of a type, which is checked and requested again if it is invalid.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import os
from typing import Literal

from pydantic import BaseModel, Field, field_validator

from sandbur import Agent
from sandbur.testing import ScriptedModel

MAIL = "Hello, the anvil came broken, and Tuesday's delivery of order A-17 never arrived. Ada"


class Ticket(BaseModel):
    """What a mail is about."""

    topic: Literal["damage", "delivery", "other"]
    order: str | None = None
    urgency: int = Field(ge=1, le=5)

    @field_validator("order")
    @classmethod
    def _known(cls, order: str | None) -> str | None:
        # If an own check fails, the model reads this sentence and tries again.
        if order is not None and not order.startswith("A-"):
            raise ValueError("numbers of orders begin with A-")
        return order


def main() -> None:
    script = [
        {"value": [{"topic": "damage", "order": "17", "urgency": 9}]},
        {"value": [{"topic": "damage", "order": "A-17", "urgency": 4}]},
    ]
    model = os.environ.get("SANDBUR_MODEL") or ScriptedModel(script)
    agent = Agent(model, instructions="You sort the mail of a shop.", output=list[Ticket])
    result = agent.run_sync(MAIL).raise_for_status()
    assert result.output is not None
    for ticket in result.output:
        print(f"{ticket.topic} of {ticket.order}, urgency {ticket.urgency}")


if __name__ == "__main__":
    main()
