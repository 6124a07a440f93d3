"""Lists the crash points in the code, and those that a run reached."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support.places import ROOT

_REACHED = re.compile(r'\breach\("([a-z0-9_]+)"\)')
FOLDERS = ("state", "actions", "agent")
OF_OTHER_TESTS = {
    "nested_proposed": "crash/test_python_kills.py",
    "nested_finished": "crash/test_python_kills.py",
    "trial_copied": "crash/trials/test_trial_kills.py",
    "trial_made": "crash/trials/test_trial_kills.py",
    "trial_set_aside": "crash/trials/test_trial_kills.py",
    "apply_planned": "crash/trials/test_apply_kills.py",
    "apply_begun": "crash/trials/test_apply_kills.py",
    "apply_before_file": "crash/trials/test_apply_kills.py",
    "apply_written": "crash/trials/test_apply_kills.py",
    "knowledge_before_commit": "databases/texts/test_knowledge_bases.py",
    "knowledge_committed": "databases/texts/test_knowledge_bases.py",
    "vectors_before_commit": "databases/texts/test_knowledge_vectors.py",
    "vectors_committed": "databases/texts/test_knowledge_vectors.py",
    "picture_described": "databases/texts/test_knowledge_pictures.py",
    "fact_change_planned": "databases/texts/test_fact_kills.py",
    "fact_change_committed": "databases/texts/test_fact_kills.py",
    "memory_before_change": "crash/agents/test_memory_kills.py",
    "memory_changed": "crash/agents/test_memory_kills.py",
    "extraction_answered": "crash/agents/test_extraction_kills.py",
    "extraction_fact_written": "crash/agents/test_extraction_kills.py",
    "extraction_marked": "crash/agents/test_extraction_kills.py",
    "worker_registered": "crash/fleet/test_worker_kills.py",
    "claim_before_commit": "crash/fleet/test_worker_kills.py",
    "claim_committed": "crash/fleet/test_worker_kills.py",
    "take_over_before_commit": "crash/fleet/test_worker_kills.py",
    "take_over_committed": "crash/fleet/test_worker_kills.py",
    "death_before_commit": "crash/fleet/test_parked_sessions.py",
    "death_committed": "crash/fleet/test_parked_sessions.py",
    "park_before_commit": "crash/fleet/test_parked_sessions.py",
    "parked": "crash/fleet/test_parked_sessions.py",
    "hand_back_before_commit": "crash/fleet/test_worker_kills.py",
    "handed_back": "crash/fleet/test_worker_kills.py",
    "stop_before_commit": "crash/fleet/test_stop_kills.py",
    "stop_committed": "crash/fleet/test_stop_kills.py",
    "stop_noticed": "crash/fleet/test_stop_kills.py",
    "messages_before_index": "databases/texts/test_message_search.py",
    "messages_indexed": "databases/texts/test_message_search.py",
    "migration_documents_sampled": "databases/test_migrations.py",
    "search_words_written": "databases/texts/test_session_search.py",
}
"""Points that no scenario of the matrix reaches -> the test that kills at them."""


def in_code() -> frozenset[str]:
    """Return every name that the code can reach, except those of `OF_OTHER_TESTS`."""
    return frozenset(_find_names()) - OF_OTHER_TESTS.keys()


def _find_names() -> Iterator[str]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            yield from _REACHED.findall(path.read_text())


def count_reached(trace: Path) -> Counter[str]:
    """Return how often each point was reached."""
    return Counter(trace.read_text().split()) if trace.exists() else Counter()
