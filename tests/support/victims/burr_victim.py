"""An application that prints each step it has saved, until it is killed. Usage: burr_victim.py URL"""

import sys
from typing import Any

from burr.core import ApplicationBuilder, State, action

from sandbur.state.burr.persister import SandburPersister


@action(reads=["history"], writes=["history"])
def say(state: State[Any]) -> State[Any]:
    return state.append(history={"n": len(state["history"]), "text": "x" * 300})


with SandburPersister.from_url(sys.argv[1]) as persister:
    persister.initialize()
    app = (
        ApplicationBuilder()
        .with_actions(say)
        .with_transitions(("say", "say"))
        .initialize_from(
            persister, resume_at_next_action=True, default_state={"history": []}, default_entrypoint="say"
        )
        .with_state_persister(persister)
        .with_identifiers(app_id="victim")
        .build()
    )
    while True:
        app.step()
        print(app.sequence_id, flush=True)
