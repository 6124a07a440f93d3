"""Searches the messages of a session, and may die meanwhile. Usage: recall_victim.py URL SESSION QUERY"""

import sys

from sandbur.agent.history.recall import recall
from sandbur.state.store.store import Store


def main(url: str, session_id: str, query: str) -> None:
    store = Store.open(url)
    for passage in recall(store, session_id, query):
        print(passage.text)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
