"""Time of a search in many documents next to a plain FTS5 query, and the ranks of right answers."""

import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.figures import tell

from sandbur.state.databases.database import open_database
from sandbur.state.databases.sqlite.sqlite_database import SqliteDatabase
from sandbur.state.search.documents import DocumentIndex, IndexedText

COMMON = (
    *("the", "system", "error", "user", "file", "request", "server", "failed"),
    *("time", "data", "when", "from", "with", "login", "connection"),
)
QUERIES: dict[str, Callable[[random.Random], str]] = {
    "common words": lambda chance: " ".join(chance.sample(COMMON[1:], 3)),
    "many common words": lambda chance: " ".join(COMMON),
    "rare words": lambda chance: f"needle{chance.randrange(2000)} needle{chance.randrange(2000)}",
    "common and rare": lambda chance: f"{' '.join(chance.sample(COMMON, 4))} needle{chance.randrange(2000)}",
    "identifiers": lambda chance: chance.choice(["parse_config_file", "config_fi", "onfig", "nfi", "yste"]),
    "Chinese": lambda chance: chance.choice(["用户登录失败", "登录", "用户", "失"]),
    "a whole page": lambda chance: " ".join(chance.choices(COMMON, k=500) + [f"w{n}" for n in range(500)]),
}
"""Kind of query -> makes one."""
ROUNDS, LIMIT_MS = 60, 10.0
MOST_BASELINE_ROUNDS = 6
BASELINE_ROUNDS = {"a whole page": 1, "many common words": 2}
"""Of the baseline, which takes more than 10 s for a page in 100,000 documents."""
AT_ONCE = 1000
BFCL = Path(__file__).parents[2] / ".venv/schemas/bfcl_eval/data"
PLAIN = "SELECT id FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT 10"


def make_texts(count: int) -> Iterator[str]:
    """Yield texts of 40 words: common ones, rare ones, identifiers and Chinese."""
    chance = random.Random(1)
    for number in range(count):
        words = chance.choices(COMMON, k=18) + [
            f"w{int(chance.paretovariate(0.5)) % 30_000}" for _ in range(20)
        ]
        words.append(f"needle{chance.randrange(2000)}" if number % 10 == 0 else "word")
        words.append(
            "parse_config_file" if number % 10 == 1 else "用户登录失败" if number % 7 == 0 else "end"
        )
        yield " ".join(words)


def quote(query: str) -> str:
    return " OR ".join('"{}"'.format(word.replace('"', '""')) for word in query.split())


def measure(folder: Path, count: int) -> None:
    database = open_database(f"sqlite:///{folder}/documents.db", durability="normal")
    assert isinstance(database, SqliteDatabase)
    index = DocumentIndex(database)
    plain = "CREATE VIRTUAL TABLE plain USING fts5(id UNINDEXED, body)"
    database.commit([(plain, ())])
    statements: list[Any] = []
    for number, text in enumerate(make_texts(count)):
        statements += index.put("c", IndexedText(f"d{number}", text))
        statements.append(("INSERT INTO plain (id, body) VALUES (?, ?)", (f"d{number}", text)))
        if len(statements) > AT_ONCE:
            database.commit(statements)
            statements = []
    database.commit(statements)
    for kind, make in QUERIES.items():
        ours = times(make, lambda query: index.search(query, ["c"]), ROUNDS)
        rounds = BASELINE_ROUNDS.get(kind, MOST_BASELINE_ROUNDS)
        theirs = times(make, lambda query: database.query(PLAIN, (quote(query),)), rounds)
        print(
            f"{kind}: p50 {ours[0]:.1f} ms, p95 {ours[1]:.1f} ms;"
            f" FTS5 {theirs[0]:.1f} and {theirs[1]:.1f} ms, ratio of the p95 {ours[1] / theirs[1]:.3f}"
        )
        tell(f"{kind} in {count} documents, p95", ours[1], LIMIT_MS, " ms", f"FTS5 OR {theirs[1]:.1f} ms")
    database.close()


def times(
    make: Callable[[random.Random], str], search: Callable[[str], object], rounds: int
) -> tuple[float, float]:
    """Return the median and the 95th percentile of the CPU time of searches, in milliseconds."""
    chance = random.Random(2)
    taken: list[float] = []
    for _ in range(rounds):
        query = make(chance)
        began = time.process_time()
        search(query)
        taken.append((time.process_time() - began) * 1000)
    taken.sort()
    return taken[len(taken) // 2], taken[min(len(taken) - 1, int(len(taken) * 0.95))]


def load_questions(count: int) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Return questions of BFCL with the name of the right function, and all functions with what they do."""
    if not BFCL.exists():
        sys.exit(f"There are no questions in {BFCL}: pip install --no-deps --target .venv/schemas bfcl-eval")
    name = "BFCL_v4_live_multiple.json"
    questions = [json.loads(line) for line in (BFCL / name).open()]
    answers = [json.loads(line) for line in (BFCL / "possible_answer" / name).open()]
    functions = {one["name"]: one["description"] for question in questions for one in question["function"]}
    step = max(len(questions) // count, 1)
    asked: list[tuple[str, str]] = []
    for question, answer in list(zip(questions, answers, strict=True))[::step][:count]:
        text = " ".join(one["content"] for one in question["question"][0] if one["role"] == "user")
        asked.append((text, next(iter(answer["ground_truth"][0]))))
    return asked, functions


def measure_ranks(folder: Path, count: int) -> None:
    """Print nDCG@10 of the right function for questions of BFCL."""
    if not BFCL.exists():
        sys.exit(f"There are no questions in {BFCL}: pip install --no-deps --target .venv/schemas bfcl-eval")
    name = "BFCL_v4_live_multiple.json"
    questions = [json.loads(line) for line in (BFCL / name).open()]
    answers = [json.loads(line) for line in (BFCL / "possible_answer" / name).open()]
    functions = {one["name"]: one for question in questions for one in question["function"]}
    names = list(functions)
    database = open_database("memory:bfcl")
    index = DocumentIndex(database)
    plain = "CREATE VIRTUAL TABLE plain USING fts5(id UNINDEXED, body, tokenize = 'porter unicode61')"
    statements: list[Any] = [(plain, ())]
    for number, one in enumerate(functions.values()):
        brief = one["description"]
        inputs = one["parameters"].get("properties", {}).items()
        told = " ".join(f"{key} {value.get('description', '')}" for key, value in inputs)
        statements += index.put("brief", IndexedText(f"b{number}", brief, one["name"]))
        statements += index.put("whole", IndexedText(f"w{number}", f"{brief} {told}", one["name"]))
        statements.append(
            ("INSERT INTO plain (id, body) VALUES (?, ?)", (f"p{number}", f"{one['name']} {brief}"))
        )
    database.commit(statements)
    step = max(len(questions) // count, 1)
    gains: dict[str, list[float]] = {"plain": [], "brief": [], "whole": []}
    for question, answer in list(zip(questions, answers, strict=True))[::step][:count]:
        text = " ".join(one["content"] for one in question["question"][0] if one["role"] == "user")
        right = next(iter(answer["ground_truth"][0]))
        words = quote("".join(letter if letter.isalnum() else " " for letter in text))
        found = {
            "plain": [row[0] for row in database.query(PLAIN, (words,))],
            **{way: [hit.id for hit in index.search(text, [way])] for way in ("brief", "whole")},
        }
        for way, ids in found.items():
            places = [names[int(id[1:])] for id in ids]
            gains[way].append(1 / math.log2(places.index(right) + 2) if right in places else 0.0)
    means = {way: sum(values) / len(values) for way, values in gains.items()}
    print(f"nDCG@10: FTS5 {means['plain']:.3f}, names and descriptions {means['brief']:.3f}")
    tell("nDCG@10 lacks, with parameters", 1 - means["whole"], 0.25, against=f"FTS5 {1 - means['plain']:.2f}")
    database.close()
