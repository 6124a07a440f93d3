"""Puts documents into samples of their collection, and repeats their terms for each sample.

A document is in the sample of level n with the probability 1 / `SAMPLE_BASE` ** n, by its id, so that every
database has the same samples. Here, because the migrations of all databases need it as well as the search.
"""

import hashlib

SAMPLE_BASE, TOP_LEVEL = 8, 4
SPACE_CHARS = 4
"""The letters and digits at the start of each term, which name its collection."""
ANY_WORD = "w"
"""The rest of the term that each document of a sample above level 0 has."""


def find_level(id: str) -> int:
    """Return the highest level whose sample a document is in."""
    number = int.from_bytes(hashlib.blake2b(id.encode("utf-8", "replace"), digest_size=8).digest())
    level = 0
    while level < TOP_LEVEL and number % SAMPLE_BASE == 0:
        number //= SAMPLE_BASE
        level += 1
    return level


def make_sampled_term(space: str, rest: str, level: int) -> str:
    """Return a term as the sample of a level has it. `rest` begins with a letter, the level is a digit."""
    return f"{space}{level or ''}{rest}"


def add_samples(id: str, terms: str) -> str:
    """Return the terms of a document, repeated for each level above 0 whose sample the document is in.

    Levels that are there already are replaced, so a second call changes nothing.
    """
    level = find_level(id)
    own = [term for term in terms.split() if not term[SPACE_CHARS : SPACE_CHARS + 1].isdigit()]
    if not level or not own:
        return terms
    space = own[0][:SPACE_CHARS]
    sampled = dict.fromkeys(own)
    for number in range(1, level + 1):
        sampled[make_sampled_term(space, ANY_WORD, number)] = None
        for term in own:
            sampled[make_sampled_term(term[:SPACE_CHARS], term[SPACE_CHARS:], number)] = None
    return " ".join(sampled)
