"""The file tools do the same over every back end, which a dictionary tells as well."""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.stores.databases import DATABASES, empty_url

from sandbur import Composite, FileBackend, SessionMemory, StoreFiles, WorkspaceFolder, file_tools
from sandbur.actions.ports import Prepared, Tool, ToolContext, ToolOutcome, Verifiable, Verified
from sandbur.actions.tools.files.disk import DISK
from sandbur.actions.tools.files.edit_file import EditFile
from sandbur.actions.tools.files.file_system import Access, FileSystem, FileView
from sandbur.actions.tools.files.file_tool import ReadingFileTool
from sandbur.actions.tools.files.glob import Glob
from sandbur.actions.tools.files.grep import Grep
from sandbur.actions.tools.files.list_directory import ListDirectory
from sandbur.actions.tools.files.read_file import ReadFile, ReadFileArguments
from sandbur.actions.tools.files.write_file import WriteFile
from sandbur.actions.tools.registry import builtin_tools
from sandbur.actions.workspace.backends.backend import MAX_FILE_BYTES, MAX_FILES, KeptFiles
from sandbur.actions.workspace.safe_open import PathScope
from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules.rules import parse_rules
from sandbur.state.application import ExecutionMode
from sandbur.state.calls import FileChange
from sandbur.state.errors import UsageError
from sandbur.state.store.store import Store


class DictFiles:
    """A back end as somebody else would write it."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def files(self) -> Mapping[str, int]:
        return {path: len(content) for path, content in self.kept.items()}

    async def read(self, path: str) -> bytes | None:
        return self.kept.get(path)

    async def write(self, path: str, content: bytes, expected: str | None) -> bool:
        there = self.kept.get(path)
        if (None if there is None else hashlib.sha256(there).hexdigest()) != expected:
            return False
        self.kept[path] = content
        return True


class Tools:
    """The tools over a back end, called as the runner calls them."""

    def __init__(self, backend: Any, folder: Path, kept: KeptFiles, root: str) -> None:
        self.tools = {tool.spec.name: bound(tool, kept) for tool in file_tools(backend)}
        self.folder = folder
        self.root = root
        """In front of every path."""

    async def __call__(
        self, name: str, known: Mapping[str, str] | None = None, **arguments: Any
    ) -> ToolOutcome:
        tool = self.tools[name]
        context = ToolContext("c1", self.folder, lambda text: None, known=known)
        parsed = tool.parse(json.dumps(arguments))
        if not isinstance(tool, Verifiable):
            return await tool.run(parsed, context)
        ready = await tool.prepare(parsed, context)
        if isinstance(ready, ToolOutcome):
            return ready
        assert await tool.verify(ready.changes) == ("done" if unchanged(ready) else "not_done")
        context = ToolContext("c1", self.folder, lambda text: None, prepared=ready)
        done = await tool.run(parsed, context)
        assert await tool.verify(ready.changes) == "done"
        return done


def unchanged(ready: Prepared) -> bool:
    return all(change.before == change.after for change in ready.changes)


def bound(tool: Tool, kept: KeptFiles) -> Tool:
    of_session = getattr(tool, "of_session", None)
    return tool if of_session is None else of_session(kept)


def made(kind: str, folder: Path, store: Store) -> Tools:
    kept = KeptFiles(store.open_session_files("s1"), store.open_shared_files())
    if kind == "folder":
        return Tools(WorkspaceFolder(), folder, kept, f"{folder}")
    if kind == "composite":
        return Tools(Composite({"/memories/": StoreFiles()}), folder, kept, "/memories")
    prefix, _, default = kind.partition(" and ")
    backend = Composite({"/place/": BACKENDS[prefix]()}, BACKENDS[default]()) if default else BACKENDS[kind]()
    return Tools(backend, folder, kept, "/place" if default else "")


BACKENDS: Mapping[str, Callable[[], Any]] = {
    "folder": WorkspaceFolder,
    "session": SessionMemory,
    "store": StoreFiles,
    "own": lambda: DictFiles(),
    "nested": lambda: Composite({"/deep/": StoreFiles()}, WorkspaceFolder()),
}
KINDS = (
    "folder",
    "composite",
    "session",
    "store",
    "own",
    *(f"{a} and {b}" for a in BACKENDS for b in BACKENDS),
)
NAMES = st.sampled_from(["a.md", "b.txt", "x/a.md", "x/y/c.md", "z/b.txt"])
TEXTS = st.text(st.sampled_from("ab é\n"), max_size=30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, TEXTS),
        st.tuples(st.just("edit"), NAMES, st.sampled_from(["a", "b\n", "é"])),
    ),
    max_size=8,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_tools_agree_with_a_dictionary(
    kind: str, steps: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    asyncio.run(agree(kind, steps, tmp_path_factory.mktemp("place")))


async def agree(kind: str, steps: list[tuple[str, str, str]], place: Path) -> None:
    (place / "work").mkdir()
    store = Store.open(f"sqlite:///{place}/runs.db")
    try:
        tools = made(kind, place / "work", store)
        model: dict[str, str] = {}
        for step, name, text in steps:
            await (wrote if step == "write" else edited)(tools, model, name, text)
        await look_the_same(tools, model)
    finally:
        store.close()


async def wrote(tools: Tools, model: dict[str, str], name: str, text: str) -> None:
    assert (await tools("write_file", path=f"{tools.root}/{name}", content=text)).outcome == "ok"
    model[name] = text


async def edited(tools: Tools, model: dict[str, str], name: str, old: str) -> None:
    done = await tools("edit_file", path=f"{tools.root}/{name}", old=old, new="N")
    if model.get(name, "").count(old) == 1:
        assert done.outcome == "ok", done.content
        model[name] = model[name].replace(old, "N")
    else:
        assert done.outcome == "error"


async def look_the_same(tools: Tools, model: dict[str, str]) -> None:
    def named(name: str) -> str:
        return name if tools.root == str(tools.folder) else f"{tools.root}/{name}"

    for name, text in model.items():
        page = await tools("read_file", path=f"{tools.root}/{name}")
        assert page.outcome == "ok"
        if text:
            numbered = (f"{n:6d}\t{line}" for n, line in enumerate(text.removesuffix("\n").split("\n"), 1))
            assert page.content == "\n".join(numbered)
    found = await tools("glob", pattern="**/*", path=tools.root or "/")
    expected = sorted((named(name) for name in model), key=lambda path: path.split("/"))
    assert sorted(found.content.splitlines(), key=lambda path: path.split("/")) == (
        expected or ["No file matches."]
    )
    matches = await tools("grep", pattern="a", path=tools.root or "/")
    lines = [
        f"{named(name)}:{n}:{line}"
        for name, text in model.items()
        for n, line in enumerate(text.split("\n"), 1)
        if "a" in line
    ]
    told = [line for line in matches.content.splitlines() if re.match(r".*:\d+:", line)]
    assert sorted(told) == sorted(lines)
    listed = await tools("list_directory", path=tools.root or "/")
    shown = {line.removesuffix("/").split(" (")[0] for line in listed.content.splitlines()[1:]}
    assert shown == {name.split("/")[0] for name in model}


@pytest.fixture(params=DATABASES)
def shared_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with empty_url(request.param, tmp_path) as url:
        opened = Store.open(url)
        yield opened
        opened.close()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def test_a_shared_file_is_replaced_only_by_who_knows_it(shared_store: Store) -> None:
    store = shared_store
    one, other = store.open_shared_files(), store.open_shared_files()
    assert await one.read("/a") is None
    assert await one.files() == {}
    assert await one.write("/a", b"1\0\xff", None)
    assert not await other.write("/a", b"2", None)
    assert await other.write("/a", b"2", digest(b"1\0\xff"))
    assert not await one.write("/a", b"3", digest(b"1\0\xff"))
    assert await one.write("/a", b"2", digest(b"2"))
    assert await one.read("/a") == b"2"
    assert await one.files() == {"/a": 1}
    assert await other.write("/A", b"large", None)
    assert await one.files() == {"/a": 1, "/A": 5}


async def test_another_tenant_has_other_files(shared_store: Store) -> None:
    store = shared_store
    await store.open_shared_files().write("/a", b"1", None)
    assert await Store(store.database, store.url, "other").open_shared_files().read("/a") is None


async def test_of_many_that_write_a_new_file_at_once_one_does(shared_store: Store) -> None:
    store = shared_store
    files = [store.open_shared_files() for _ in range(8)]
    done = await asyncio.gather(*(each.write("/a", b"%d" % n, None) for n, each in enumerate(files)))
    assert done.count(True) == 1
    assert await files[0].read("/a") == b"%d" % done.index(True)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, Store]]:
    store = Store.open(f"sqlite:///{tmp_path}/runs.db")
    yield tmp_path, store
    store.close()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/memories/../etc/passwd", "contains `..`"),
        ("/memories/a/../../b", "contains `..`"),
        ("/memories/" + "a" * 300, "over 255 bytes"),
        ("/memories/" + "a/" * 600, "too long"),
        ("/memories/a\u202eb", "characters that a path here may not have"),
        ("/memories/a\nb", "characters that a path here may not have"),
    ],
)
async def test_a_path_that_leads_elsewhere_is_refused(place: tuple[Path, Store], path: str, why: str) -> None:
    tools = made("composite", *place)
    for name, more in (("read_file", {}), ("write_file", {"content": "x"}), ("list_directory", {})):
        outcome = await tools(name, path=path, **more)
        assert outcome.outcome == "error"
        assert why in outcome.content


@pytest.mark.parametrize("pattern", ["../*", "x/../../*", "/etc/*", "~/*", "../../../../../etc/pass*"])
async def test_a_pattern_does_not_lead_out_of_a_place(place: tuple[Path, Store], pattern: str) -> None:
    outcome = await made("composite", *place)("glob", pattern=pattern, path="/memories")
    assert outcome.outcome == "error"
    assert "leads out of /memories" in outcome.content


async def test_a_file_too_large_or_one_too_many_is_refused(place: tuple[Path, Store]) -> None:
    own = DictFiles()
    tools = Tools(own, place[0], KeptFiles(DictFiles(), DictFiles()), "")
    outcome = await tools("write_file", path="/a", content="x" * (MAX_FILE_BYTES + 1))
    assert "at most 256.0 KB" in outcome.content
    own.kept = {f"/{n}": b"" for n in range(MAX_FILES)}
    assert "files already" in (await tools("write_file", path="/more", content="x")).content
    assert (await tools("write_file", path="/7", content="x")).outcome == "ok"
    own.kept.popitem()
    assert "is a file" in (await tools("write_file", path="/7/b", content="x")).content


async def test_who_has_not_seen_the_newest_is_told_to_read_again(place: tuple[Path, Store]) -> None:
    tools = made("composite", *place)
    await tools("write_file", path="/memories/a", content="1")
    seen = (await tools("read_file", path="/memories/a")).seen
    assert seen == {"virtual:/memories/a": digest(b"1")}
    await tools("write_file", path="/memories/a", content="2")
    outcome = await tools("write_file", seen, path="/memories/a", content="3")
    told = "/memories/a has changed since you read it: nothing was written. Read it again."
    assert (outcome.outcome, outcome.content) == ("error", told)
    assert (await tools("read_file", path="/memories/a")).content == "     1\t2"


async def test_what_changes_between_the_look_and_the_write_is_not_lost(place: tuple[Path, Store]) -> None:
    tool = made("composite", *place).tools["write_file"]
    assert isinstance(tool, Verifiable)
    arguments = tool.parse(json.dumps({"path": "/memories/a", "content": "mine"}))
    ready = await tool.prepare(arguments, ToolContext("c1", place[0], lambda text: None))
    assert isinstance(ready, Prepared)
    await place[1].open_shared_files().write("/a", b"theirs", None)
    outcome = await tool.run(arguments, ToolContext("c1", place[0], lambda text: None, prepared=ready))
    assert "Read it again" in outcome.content
    assert await place[1].open_shared_files().read("/a") == b"theirs"
    assert await tool.verify(ready.changes) == "unknown"


def test_over_the_folder_alone_the_tools_are_those_that_ship() -> None:
    shipped = builtin_tools()
    for tools in (file_tools(), file_tools(WorkspaceFolder()), file_tools(Composite({}))):
        assert [type(tool) for tool in tools] == [type(shipped[tool.spec.name]) for tool in tools]


def test_names_and_arguments_are_those_of_the_tools_that_ship() -> None:
    shipped = builtin_tools()
    for tool in file_tools(Composite({"/memories/": StoreFiles()})):
        assert tool.spec.parameters == shipped[tool.spec.name].spec.parameters
        assert tool.traits == shipped[tool.spec.name].traits
        assert "/memories/" in tool.spec.description


async def test_a_prefix_of_the_folder_names_its_files_whole(place: tuple[Path, Store]) -> None:
    folder = place[0] / "work"
    (folder / "src").mkdir(parents=True)
    quoted = f"root = {folder}"
    (folder / "src/a.py").write_text(f"{quoted}\nx = 1\n")
    kept = KeptFiles(DictFiles(), DictFiles())
    tools = Tools(Composite({"/workspace/": WorkspaceFolder()}, SessionMemory()), folder, kept, "")
    await tools("write_file", path="/note", content="x = 2\n")
    page = await tools("read_file", path="/workspace/src/a.py")
    assert page.content == f"     1\t{quoted}\n     2\tx = 1"
    assert page.seen is not None
    edited = await tools("edit_file", page.seen, path="/workspace/src/a.py", old="x = 1", new="x = 3")
    assert edited.content.startswith("Edited /workspace/src/a.py: 1 place.")
    assert (folder / "src/a.py").read_text().endswith("x = 3\n")
    assert (await tools("grep", pattern="x =", path="/workspace")).content == "/workspace/src/a.py:2:x = 3"
    assert (await tools("grep", pattern="x =")).content == "/note:1:x = 2"
    assert (await tools("glob", pattern="/workspace/**/*.py")).content == "/workspace/src/a.py"
    assert (await tools("list_directory", path="/workspace/src")).content.startswith("/workspace/src: ")
    missing = await tools("edit_file", path="/workspace/src/a.py", old=f"{quoted}x", new="")
    assert missing.content.splitlines()[0].startswith("old was not found in /workspace/src/a.py.")
    assert quoted in missing.content
    for name in ("no.py", "src", "src/a.py/b", "../work/src/a.py"):
        outcome = await tools("read_file", path=f"/workspace/{name}")
        assert outcome.outcome == "error"
        assert "/workspace/" in outcome.content
        assert str(folder) not in outcome.content


def test_the_gate_judges_the_file_that_a_prefix_of_the_folder_names(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "out").symlink_to("/etc")
    tools = {
        tool.spec.name: tool for tool in file_tools(Composite({"/w/": WorkspaceFolder()}, SessionMemory()))
    }

    def judge(
        name: str, mode: ExecutionMode, allow: Sequence[str] = (), deny: Sequence[str] = (), **given: str
    ) -> str:
        policy = Policy(parse_rules(allow), parse_rules(deny), tmp_path)
        return policy.judge(tools[name], tools[name].parse(json.dumps(given)), mode).decision

    written = {"path": "/w/src/a.py", "content": "x"}
    assert judge("write_file", "interactive", **written) == "ask"
    assert judge("write_file", "auto-edit", **written) == "allow"
    assert judge("write_file", "interactive", allow=["write_file(src/**)"], **written) == "allow"
    assert judge("write_file", "yolo", deny=["write_file(src/**)"], **written) == "deny"
    assert judge("write_file", "yolo", deny=["write_file(/w/src/*)"], **written) == "deny"
    assert judge("write_file", "auto-edit", path="/w/.git/hooks/pre-commit", content="x") == "ask"
    assert judge("read_file", "interactive", path="/w/out/passwd") == "ask"
    assert judge("read_file", "interactive", path="/w/.env") == "ask"
    assert judge("read_file", "interactive", path="/w/~/a") == "allow"
    assert judge("glob", "interactive", pattern="/w/out/*") == "ask"
    assert judge("grep", "interactive", pattern="x", path="/w/out") == "ask"
    assert judge("read_file", "interactive", path="/elsewhere") == "allow"


@pytest.mark.parametrize("wrong", [StoreFiles, object(), None, "folder", {}])
def test_what_is_no_back_end_is_refused_in_one_sentence(wrong: Any) -> None:
    with pytest.raises(UsageError, match="back end of files"):
        Composite({"/a/": wrong})


@pytest.mark.parametrize("prefix", ["/", "", "memories/", "/a/../b/"])
def test_what_can_be_no_prefix_is_told(prefix: str) -> None:
    with pytest.raises(UsageError):
        Composite({prefix: StoreFiles()})


def test_a_back_end_of_somebodys_own_fits_the_protocol() -> None:
    backend: FileBackend = DictFiles()
    assert len(file_tools(backend)) == 6


class Chroot:
    """A file system of one's own: absolute paths are those below a folder."""

    description = "All paths are below `/`."
    is_kept_by_session = False

    def __init__(self, root: Path) -> None:
        self.root = root

    def of_session(self, kept: KeptFiles) -> FileSystem:
        return self

    def is_virtual(self, path: str) -> bool:
        return False

    def find_disk_path(self, path: str) -> str:
        return path

    def name_subject(self, path: str) -> str:
        return path

    def open(self, path: str, access: Access, context: ToolContext) -> AbstractAsyncContextManager[FileView]:
        inside = replace(context, cwd=self.root, reach=PathScope.of((self.root,)))
        return DISK.open(path.lstrip("/") or ".", access, inside)

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        return await DISK.verify(changes)


async def test_the_tools_work_on_any_file_system(tmp_path: Path) -> None:
    (tmp_path / "root" / "etc").mkdir(parents=True)
    files: FileSystem = Chroot(tmp_path / "root")
    context = ToolContext("c1", tmp_path, lambda text: None)

    async def run(tool: Tool, **arguments: str) -> ToolOutcome:
        return await tool.run(tool.parse(json.dumps(arguments)), context)

    await run(WriteFile(files), path="/etc/motd", content="hello\n")
    await run(EditFile(files), path="/etc/motd", old="hello", new="welcome")
    assert (tmp_path / "root/etc/motd").read_text() == "welcome\n"
    assert (await run(ReadFile(files), path="/etc/motd")).content == "     1\twelcome"
    assert (await run(Glob(files=files), pattern="**/*", path="/")).content == "etc/motd"
    assert (await run(Grep(files=files), pattern="come", path="/")).content == "etc/motd:1:welcome"
    assert "motd (8 bytes)" in (await run(ListDirectory(files), path="/etc")).content
    (tmp_path / "root/out").symlink_to("/etc")
    assert (await run(ReadFile(files), path="/out/passwd")).outcome == "error"
    assert ReadFile(files).spec.description.endswith(files.description)


class _ShowsNothing(ReadingFileTool[ReadFileArguments]):
    """A tool that reads files and does not declare it."""

    async def look(self, arguments: ReadFileArguments, view: FileView) -> ToolOutcome:
        return ToolOutcome("ok", "")


def test_a_tool_that_reads_files_and_does_not_declare_it_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="_ShowsNothing reads files: set `shows`"):
        _ShowsNothing("peek", "Peek.", ReadFileArguments, DISK)
