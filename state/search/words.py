"""Takes texts apart into words, stems and fragments, and encodes them for every full-text index alike."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

from ..databases.sampling import ANY_WORD, make_sampled_term

_MOST_WORD_CHARS = 60
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+)")
"""Characters of scripts that do not separate words: Chinese and Japanese."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ACCENTS = re.compile("[\u0300-\u036f]+")


def list_words(text: str, *, with_single: bool = False) -> Iterator[str]:
    """Yield the words of a text without their case; of Chinese and Japanese, pairs of characters.

    `with_single`: also the single characters, so that they can be searched for.
    """
    if text.isascii():
        yield from _WORD.findall(text.lower())
        return
    for found in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        for part in filter(None, _UNSPACED.split(found)):
            if not _UNSPACED.match(part):
                yield part
                continue
            if with_single or len(part) == 1:
                yield from part
            yield from (first + second for first, second in zip(part, islice(part, 1, None), strict=False))


def list_parts(text: str, *, with_single: bool = False) -> Iterator[str]:
    """Yield words as `list_words` does, without accents, and the parts of identifiers such as `readFile`."""
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return list_words(_HUMP.sub(" ", text), with_single=with_single)


def encode_word(word: str) -> str:
    """Return a word as a token that every database indexes as it is: a few ASCII letters and digits.

    The prefix keeps words from being left out because they are short or common.
    """
    return f"zq{_encode(word)}"


def _encode(word: str) -> str:
    if not word.isascii():
        word = f"u{word.encode('utf-8', 'replace').hex()}"
    if len(word) > _MOST_WORD_CHARS:
        word = f"h{hashlib.sha256(word.encode()).hexdigest()[:40]}"
    return word


def digest_text(text: str) -> str:
    """Return a digest of a text, as it is stored with its vector."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:40]


_SUFFIXES = (
    *("ations", "ation", "ition", "ments", "ment", "ions", "ion", "ance", "ence", "able"),
    *("ity", "ive", "ers", "ors", "er", "or", "ly", "al"),
)
_LEAST_STEM_CHARS = 4


@lru_cache(maxsize=50_000)
def find_stem(word: str) -> str:
    """Return a word without its English endings, so that `updates`, `updated` and `update` are one."""
    if len(word) < _LEAST_STEM_CHARS or not word.isascii() or not word.isalpha():
        return word
    word = _drop_plural(word)
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and not {*"aeiouy"}.isdisjoint(rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
            break
    for ending in _SUFFIXES:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM_CHARS:
            word = word.removesuffix(ending)
            break
    return word[:-1] if len(word) > _LEAST_STEM_CHARS and word[-1] in "ey" else word


def _drop_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > _LEAST_STEM_CHARS:
        return f"{word[:-3]}y"
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


_LEAST_FRAGMENT_CHARS = 3
_MOST_SUFFIX_CHARS = 24


def make_space(collection: str) -> str:
    """Return the start of all terms of a collection: four letters and digits.

    Each collection has terms of its own, so that a large one makes no word of a small one common. Two
    collections may share a start: hits are compared with their collection.
    """
    number = int.from_bytes(hashlib.blake2b(collection.encode(), digest_size=4).digest()) % 36**3
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return f"k{digits[number // 36**2]}{digits[number // 36 % 36]}{digits[number % 36]}"


def make_stem_term(space: str, word: str, level: int = 0) -> str:
    """Return the term of the words with the same stem, in the sample of a level.

    Each document of a sample above level 0 has the empty word.
    """
    return make_sampled_term(space, f"{ANY_WORD}{_encode(find_stem(word))}", level)


def make_fragment_term(space: str, fragment: str, level: int = 0) -> str:
    """Return the term that words with a fragment start with, in one of their suffixes."""
    return make_sampled_term(space, f"p{_encode(fragment)}", level)


def make_terms(space: str, words: Iterable[str], *, with_ends: bool = True) -> str:
    """Return the terms of a document: the stems of its words, the words, and the ends of the words.

    A search for a fragment inside of a word is then a search for the start of a term. Without the ends, it
    finds only the start of a word.
    """
    terms: dict[str, None] = {}
    split = _list_ends if with_ends else _keep_whole
    for word in dict.fromkeys(words):
        for part, is_word in split(word):
            if is_word:
                terms[make_stem_term(space, part)] = None
            terms[make_fragment_term(space, part)] = None
    return " ".join(terms)


def _list_ends(word: str) -> Iterator[tuple[str, bool]]:
    """Yield a word and its ends, each with whether it is the word."""
    yield word, True
    if len(word) <= _MOST_SUFFIX_CHARS:
        for start in range(1, len(word) - _LEAST_FRAGMENT_CHARS + 1):
            yield word[start:], False


def _keep_whole(word: str) -> Iterator[tuple[str, bool]]:
    yield word, True


def measure_bytes(word: str) -> int:
    """Return the bytes of a word. One of two Chinese characters is as long as one of six letters."""
    return len(word.encode("utf-8", "replace"))
