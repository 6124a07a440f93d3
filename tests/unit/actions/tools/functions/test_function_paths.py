"""What names a file in the arguments of a function is judged, and found, like a path of any tool."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel
from support.tools.tool_calls import context

from sandbur import tool
from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules.rules import parse_rules


async def test_paths_are_below_the_workspace_and_told_to_the_gate(tmp_path: Path):
    @tool(effect="read")
    def sizes(file: Path, others: list[Path] | None = None) -> list[str]:
        return [str(file), *map(str, others or [])]

    given = sizes.parse('{"file": "a.txt", "others": ["b", "/etc/c"]}')
    assert sizes.paths(given) == ("a.txt", "b", "/etc/c")
    outcome = await sizes.run(given, context(folder=tmp_path))
    assert outcome.content == f'["{tmp_path}/a.txt","{tmp_path}/b","/etc/c"]'


class Input(BaseModel):
    file: Path
    label: str = "x"
    more: "list[Input] | None" = None


@dataclass(frozen=True, slots=True)
class Output:
    place: Path | str
    by_name: dict[str, Path]


class Pair(NamedTuple):
    first: Path
    name: str


async def test_paths_deep_inside_of_arguments_are_like_those_at_the_top(tmp_path: Path):
    @tool(effect="verifiable", check=lambda job: seen.append(job) or "not_done")
    def convert(job: Input, out: Output, pairs: tuple[Pair, ...] = ()) -> str:
        assert job.more is not None
        paths = (job.file, job.more[0].file, out.place, *out.by_name.values(), *(one.first for one in pairs))
        return " ".join(str(path) for path in paths)

    seen: list[Input] = []
    text = json.dumps(
        {
            "job": {"file": "a", "label": "secrets/no", "more": [{"file": "/etc/b"}]},
            "out": {"place": "secrets/c", "by_name": {"d": "e"}},
            "pairs": [["f", "g"]],
        }
    )
    given = convert.parse(text)
    assert convert.traits.shows == "content"
    assert set(convert.paths(given)) == {"a", "/etc/b", "secrets/c", "e", "f"}
    outcome = await convert.run(given, context(folder=tmp_path))
    assert outcome.content == f"{tmp_path}/a /etc/b secrets/c {tmp_path}/e {tmp_path}/f"
    await convert.recover(given, context(folder=tmp_path))
    assert [job.file for job in seen] == [tmp_path / "a"]
    policy = Policy((), parse_rules(["read_file(secrets/**)"], ["convert"]), tmp_path)
    assert policy.judge(convert, given, "interactive").decision == "deny"


def test_a_deep_union_of_paths_is_looked_through_at_once():
    class Tree(BaseModel):
        left: "Tree | Path | None" = None
        right: "Path | Tree | None" = None

    @tool
    def plant(tree: Tree) -> None: ...

    tree: Any = "leaf"
    for _ in range(60):
        tree = {"left": tree, "right": "leaf"}
    assert plant.paths(plant.parse(json.dumps({"tree": tree}))) == ("leaf",)


def test_rules_about_files_hold_for_a_function_that_is_given_one(tmp_path: Path):
    @tool(effect="read")
    def head(file: Path) -> str:
        return str(file)

    @tool(effect="read")
    def tell(text: str) -> str:
        return text

    policy = Policy((), parse_rules(["read_file(secrets/**)"], ["read_file"]), tmp_path)

    def verdict(made: Any, argument: str) -> str:
        return policy.judge(made, made.parse(argument), "interactive").decision

    assert verdict(head, '{"file": "notes.txt"}') == "allow"
    assert verdict(head, '{"file": "secrets/key"}') == "deny"
    assert verdict(head, '{"file": "../other.txt"}') == "ask"
    assert verdict(head, '{"file": ".env"}') == "ask"
    assert verdict(tell, '{"text": "secrets/key"}') == "allow"
