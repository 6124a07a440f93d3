"""Changes facts and may die at a crash point. Usage: fact_victim.py URL OPERATION

OPERATION is `fill`, `crowd` (changes that several processes make at once), or a method of the fact store that
is called with the id of the fact `root`.
"""

import sys
from contextlib import suppress

from sandbur.state.errors import UsageError
from sandbur.state.memory.fact_changes import Author
from sandbur.state.memory.fact_store import FactStore, NewFact
from sandbur.state.memory.facts import FactScope
from sandbur.state.store.store import Store

URL, OPERATION = sys.argv[1:]
SCOPE = FactScope(kind="project", key="/srv/shop")
store = Store.open(URL)
facts = FactStore(store.database)
author = Author("victim", OPERATION)
if OPERATION == "fill":
    root = facts.add(NewFact("The root is 8080", SCOPE, path="/memories/root")).fact
    leaf = facts.add(NewFact("The leaf is 8080", SCOPE, derived_from=(root.id,))).fact
    facts.add(NewFact("The end is 8080", SCOPE, derived_from=(leaf.id,)))
elif OPERATION == "crowd":
    for turn in range(8):
        facts.add(NewFact(f"note {turn}", SCOPE))
        with suppress(UsageError):  # another process has corrected it
            draft = facts.add(NewFact(f"draft {turn}", SCOPE)).fact
            facts.correct(draft.id, f"final {turn}")
else:
    everything = facts.list_facts([SCOPE], ("valid", "superseded", "forgotten"))
    (root,) = (fact for fact in everything if fact.text == "The root is 8080")
    if OPERATION == "correct":
        facts.correct(root.id, "The root is 9090", author)
    elif OPERATION == "forget":
        facts.forget(root.id, author)
    else:
        facts.restore(root.id, author)
store.close()
