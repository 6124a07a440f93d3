"""CPU time of indexing 10,000 files, of an update and of searches, and the ranks with and without MiniLM."""

import asyncio
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.documents import load_questions
from bench.figures import tell

from sandbur.agent.knowledge.retrieval.embedding.embedder import Embedder, connect_embedder
from sandbur.agent.knowledge.retrieval.library import Library
from sandbur.agent.session.secrets import masker_for
from sandbur.state.errors import UsageError
from sandbur.state.store.store import Store

FILES = 10_000
LIMIT_S, UPDATE_LIMIT_S = 60.0, 3.0
LEAST_GAIN = 0.79
QUERIES = ("needle77", "how are secrets masked", "def test return", "the store of a session")
ROUNDS = 20
WORDS = ("the", "store", "session", "secret", "masked", "test", "return", "file", "how", "are", "config")


def write_files(folder: Path, count: int) -> None:
    """Write Markdown and Python of about 2.5 KB each, in 100 folders."""
    chance = random.Random(1)
    for number in range(count):
        path = folder / f"d{number % 100}" / f"f{number}{'.py' if number % 2 else '.md'}"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(make_lines(chance, number)))


def make_lines(chance: random.Random, number: int) -> Iterator[str]:
    for part in range(4):
        yield f"def part{part}_{chance.randrange(9999)}():" if number % 2 else f"## Part {part}"
        for _ in range(12):
            words = " ".join(chance.choices(WORDS, k=6)) + f" w{chance.randrange(20_000)}"
            yield f"    # {words}" if number % 2 else words
        yield f"    return needle{number}\n\n" if number % 2 else f"needle{number}\n"


def measure(folder: Path, count: int) -> None:
    """Print the CPU time of indexing, of an update without changes, and of searches."""
    folder = folder.resolve()
    (folder / "files").mkdir()
    write_files(folder / "files", count)
    asyncio.run(_measure(folder, count))


async def _measure(folder: Path, count: int) -> None:
    store = Store.open(f"sqlite:///{folder}/knowledge.db")
    library = Library(store.database, "", masker_for({}, folder))
    base = await library.open_base("project", str(folder))
    began = time.process_time()
    report = await library.add(base, folder / "files")
    indexing_s = time.process_time() - began
    share = count / FILES
    assert report.added == count
    tell(f"CPU to index {count:,} files, {report.chunks:,} passages", indexing_s, LIMIT_S * share, " s")
    began = time.process_time()
    await library.update(base)
    update_s = time.process_time() - began
    tell("CPU of an update without changes", update_s, UPDATE_LIMIT_S * share, " s", f"{indexing_s:.1f} s")
    (base,) = await library.list_bases()
    for query in QUERIES:
        began = time.process_time()
        for _ in range(ROUNDS):
            await library.search(query, [base])
        tell(f"CPU of a search for {query!r}", (time.process_time() - began) / ROUNDS * 1000, 60, " ms")
    store.close()


def measure_ranks(folder: Path, count: int) -> None:
    """Print nDCG@10 of the right function for questions of BFCL, by words and by MiniLM."""
    try:
        embedder = connect_embedder("minilm", {}, {})
    except UsageError as missing:
        sys.exit(f"{missing.message} {missing.hint}")
    questions, functions = load_questions(count)
    gains = asyncio.run(_rank(folder, embedder, questions, functions))
    by_words = sum(gains["words"]) / len(questions)
    fused = sum(gains["fused"]) / len(questions)
    print(f"nDCG@10: words {by_words:.3f}, words and MiniLM {fused:.3f}")
    tell("nDCG@10 lacks, with MiniLM", 1 - fused, 1 - LEAST_GAIN, against=f"words {1 - by_words:.2f}")


async def _rank(
    folder: Path, embedder: Embedder, questions: Sequence[tuple[str, str]], functions: Mapping[str, str]
) -> dict[str, list[float]]:
    store = Store.open("memory:knowledge-ranks")
    masker = masker_for({}, folder)
    by_words = Library(store.database, "", masker)
    fused = Library(store.database, "", masker, embedder=embedder)
    base = await by_words.open_base("functions", "")
    refused = 0
    for name, about in functions.items():
        words = name.replace("_", " ").replace(".", " ")
        try:
            await by_words.add_text(base, f"{words}: {about}", name)
        except UsageError:  # its name is that of a file of secrets; questions about it are not answered
            refused += 1
    print(f"{refused} of {len(functions)} functions are refused for their names")
    await fused.embed(base)
    (base,) = await by_words.list_bases()
    gains: dict[str, list[float]] = {"words": [], "fused": []}
    for text, right in questions:
        for way, library in (("words", by_words), ("fused", fused)):
            found = await library.search(text, [base], 10)
            places = [one.path.removeprefix("text:") for one in found]
            gains[way].append(1 / math.log2(places.index(right) + 2) if right in places else 0.0)
    store.close()
    return gains
