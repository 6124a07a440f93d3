"""`sandbur sessions`: list, show, delete and export what the store holds."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ui.arguments import Arguments
from ui.jsonlines import encoded, pending_objects, plan_objects, usage_object
from ui.opening import open_store
from ui.results import plan_lines, usage_text
from ui.sanitize import one_line, plain
from ui.terminal import glyphs_for, say

if TYPE_CHECKING:
    from state.messages import Block, Message
    from state.session import SessionSummary, SessionView
    from state.store import Store


def list_sessions(arguments: Arguments) -> int:
    with open_store(arguments) as store:
        sessions = store.sessions()
    if arguments.json:
        print(json.dumps([asdict(session) for session in sessions], indent=1))
    elif not sessions:
        say("There is no session yet. Start one: sandbur")
    elif sys.stdout.isatty():
        _print_table(sessions)
    else:
        for session in sessions:
            print("\t".join(_cells(session, short=False)))
    return 0


def show_session(arguments: Arguments) -> int:
    with open_store(arguments) as store:
        view = store.show(store.find(arguments.session))
        if arguments.json:
            print(json.dumps(_view_object(view), indent=1))
        else:
            print("\n".join(_view_lines(view)))
    return 0


def delete_session(arguments: Arguments) -> int:
    with open_store(arguments) as store:
        session_id = store.find(arguments.session)
        store.delete(session_id)
    say(f"Deleted session {session_id}.")
    return 0


def export_session(arguments: Arguments) -> int:
    with open_store(arguments) as store:
        for record in store.export(store.find(arguments.session)):
            print(encoded(record))
    return 0


def fork_session(arguments: Arguments) -> int:
    from ui.opening import open_runtime

    runtime = open_runtime(arguments)
    forked = runtime.fork(runtime.store.find(arguments.session), arguments.at)
    print(forked)
    say(f"Go on with it: sandbur -r {forked}")
    return 0
