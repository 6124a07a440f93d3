"""A knowledge base follows its files: what is new, changed, gone, ignored, secret, too large or no text."""

import asyncio
import io
import os
from collections.abc import Callable
from pathlib import Path

import docx
import pypdf
import pytest
from support.network.web_site import WebSite, page, redirect

from sandbur.actions.ports import Verdict
from sandbur.agent.knowledge.retrieval.indexing.page_fetcher import PageFetcher
from sandbur.agent.knowledge.retrieval.library import Library
from sandbur.agent.session.secrets import masker_for
from sandbur.state.errors import UsageError
from sandbur.state.search.knowledge_rows import StoredBase
from sandbur.state.store.store import Store

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]


def opened(store: Store, folder: Path, judge: Callable[[str], str] = lambda url: "ask") -> Library:
    return Library(
        store.database, "", masker_for({}, folder), PageFetcher(lambda url: Verdict(judge(url), "a test"))
    )  # type: ignore[arg-type]


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, ns=(10**18, 10**18 + len(path.read_bytes())))
    return path


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    write(tmp_path / "docs/install.md", "# Install\nUse the zebra package.\n")
    write(tmp_path / "docs/deep/use.py", "def use_giraffe():\n    return 1\n")
    return (tmp_path / "docs").resolve()


async def find(library: Library, base: StoredBase, query: str, folder: Path) -> list[str]:
    return [one.describe_place(folder) for one in await library.search(query, [base])]


async def test_what_changes_is_indexed_again_and_what_is_gone_is_removed(store: Store, docs: Path) -> None:
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    assert (await library.add(base, docs)).added == 2
    assert await find(library, base, "zebra", docs) == ["install.md:1-2"]
    assert await find(library, base, "giraffe", docs) == ["deep/use.py:1-2"]
    assert (await library.update(base)).unchanged == 2
    write(docs / "install.md", "\n\n# Install\nUse the okapi.\n")
    (docs / "deep/use.py").unlink()
    write(docs / "new.txt", "A lemur.")
    report = await library.update(base)
    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 1, 0)
    assert await find(library, base, "zebra giraffe", docs) == []
    assert await find(library, base, "okapi", docs) == ["install.md:3-4"]
    assert await find(library, base, "lemur", docs) == ["new.txt:1"]


async def test_a_file_with_another_time_and_the_same_content_keeps_its_chunks(
    store: Store, docs: Path
) -> None:
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    await library.add(base, docs)
    os.utime(docs / "install.md", ns=(10**17, 10**17))
    report = await library.update(base)
    assert (report.changed, report.unchanged) == (0, 2)
    assert [one.state for one in await library.search("zebra", [base])] == ["unchanged"]


async def test_a_passage_says_that_its_source_has_changed_or_is_gone(store: Store, docs: Path) -> None:
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    await library.add(base, docs)
    write(docs / "install.md", "# Install\nNothing of it.\n")
    (docs / "deep/use.py").unlink()
    states = {one.path: one.state for one in await library.search("zebra giraffe", [base])}
    assert states == {str(docs / "install.md"): "changed", str(docs / "deep/use.py"): "gone"}


async def test_secrets_ignored_files_links_and_binaries_are_left_out(store: Store, docs: Path) -> None:
    (docs / ".git").mkdir()
    write(docs / ".gitignore", "*.log\nbuild/\n")
    for name in ("a.log", "build/b.txt", "secrets.json", "id_rsa", ".hidden/c.txt"):
        write(docs / name, "walrus")
    write(docs / "picture.png", b"\x89PNG\r\n\x1a\n\0\0walrus")
    write(docs / "large.txt", "walrus " * 800_000)
    (docs / "loop").symlink_to(docs)
    (docs / "link.txt").symlink_to(docs / "a.log")
    os.mkfifo(docs / "pipe")
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    report = await library.add(base, docs)
    reasons = {Path(path).name: why for path, why in report.left_out}
    assert report.added == 2
    assert reasons.pop("id_rsa") == reasons.pop("secrets.json") == "it is a file of secrets"
    assert reasons == {
        "picture.png": "it is a broken picture: its PNG data is not whole",
        "large.txt": "it has 5.6 MB, and the limit is 5.0 MB",
    }
    assert await find(library, base, "walrus", docs) == []
    assert len((await library.update(base)).left_out) == 4


async def test_a_folder_that_cannot_be_looked_at_keeps_its_chunks(store: Store, docs: Path) -> None:
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    await library.add(base, docs)
    docs.rename(docs.with_name("moved"))
    docs.symlink_to("a" * 300)
    report = await library.update(base)
    assert dict(report.left_out) == {str(docs): "it cannot be read: the name is too long"}
    assert report.removed == 0


async def test_secrets_in_texts_are_masked_and_the_lines_below_keep_their_numbers(
    store: Store, docs: Path
) -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDB\n" * 4
    key += "-----END PRIVATE KEY-----"
    write(docs / "notes.txt", f"token: {TOKEN}\n{key}\nThe walrus.\n")
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    await library.add(base, docs / "notes.txt")
    (found,) = await library.search("walrus", [base])
    assert "[masked " in found.text
    assert (found.first, found.last) == (1, 8)
    assert found.text.split("\n")[7] == "The walrus."
    for table in ("knowledge_chunks", "documents"):
        assert TOKEN not in str(store.database.query(f"SELECT * FROM {table}"))
        assert "MIIEvQ" not in str(store.database.query(f"SELECT * FROM {table}"))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing.txt", None, "does not exist."),
        ("key.pem", "x", "cannot be added: it is a file of secrets."),
        ("huge.txt", "", "cannot be added: it has 2.0 GB, and the limit is 5.0 MB."),
    ],
)
async def test_what_cannot_be_added_gets_one_sentence(
    store: Store, tmp_path: Path, name: str, content: str | None, sentence: str
) -> None:
    if content is not None:
        write(tmp_path / name, content)
    if name == "huge.txt":
        os.truncate(tmp_path / name, 2_000_000_000)
    library = opened(store, tmp_path)
    base = await library.open_base("project", "")
    with pytest.raises(UsageError) as refused:
        await library.add(base, tmp_path / name)
    assert refused.value.message.endswith(sentence)
    assert store.database.query("SELECT * FROM knowledge_sources") == []


def make_pdf(*, password: str = "") -> bytes:
    """Return a PDF with the word walrus on its second page."""
    writer = pypdf.PdfWriter()
    for text in ("first", "the walrus page"):
        sheet = writer.add_blank_page(200, 200)
        font = pypdf.generic.DictionaryObject(
            {
                pypdf.generic.NameObject("/Type"): pypdf.generic.NameObject("/Font"),
                pypdf.generic.NameObject("/Subtype"): pypdf.generic.NameObject("/Type1"),
                pypdf.generic.NameObject("/BaseFont"): pypdf.generic.NameObject("/Helvetica"),
            }
        )
        fonts = pypdf.generic.DictionaryObject({pypdf.generic.NameObject("/F1"): font})
        sheet[pypdf.generic.NameObject("/Resources")] = pypdf.generic.DictionaryObject(
            {pypdf.generic.NameObject("/Font"): fonts}
        )
        stream = pypdf.generic.DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
        sheet[pypdf.generic.NameObject("/Contents")] = writer._add_object(stream)  # pyright: ignore
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


async def test_pages_of_pdfs_and_paragraphs_of_word_documents_are_found(store: Store, docs: Path) -> None:
    write(docs / "manual.pdf", make_pdf())
    write(docs / "locked.pdf", make_pdf(password="secret"))
    write(docs / "broken.pdf", b"%PDF-1.4 nothing")
    document = docx.Document()
    document.add_heading("Animals", 1)
    document.add_paragraph("The narwhal.")
    document.save(str(docs / "animals.docx"))
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    report = await library.add(base, docs)
    reasons = {Path(path).name: why for path, why in report.left_out}
    assert reasons["locked.pdf"] == "it has a password"
    assert reasons["broken.pdf"].startswith("it is not a readable PDF")
    assert await find(library, base, "walrus", docs) == ["manual.pdf:p2"]
    (found,) = await library.search("narwhal", [base])
    assert (Path(found.path).name, found.title) == ("animals.docx", "Animals")


async def test_pages_of_the_web_are_fetched_by_the_rules_for_addresses(store: Store, tmp_path: Path) -> None:
    texts = {"/manual": page("<h1>Manual</h1><p>The walrus.</p>", "text/html")}
    async with WebSite(texts) as site:
        base_url = f"{site.url}/manual"
        refused = opened(store, tmp_path)
        base = await refused.open_base("web", "")
        with pytest.raises(UsageError):
            await refused.add(base, base_url)
        library = opened(store, tmp_path, lambda url: "allow")
        assert (await library.add(base, base_url)).added == 1
        (found,) = await library.search("walrus", [base])
        assert found.path == base_url
        assert (await library.update(base)).unchanged == 1
        site.pages["/manual"] = page("<p>An otter.</p>", "text/html")
        assert (await library.update(base)).changed == 1
        assert await library.search("walrus", [base]) == []
        with pytest.raises(UsageError, match="answers with the status 404"):
            await library.add(base, f"{site.url}/missing")


async def test_a_loop_of_redirects_and_one_to_another_site_add_nothing(store: Store, tmp_path: Path) -> None:
    texts = {"/a": redirect("/b"), "/b": redirect("/a"), "/away": redirect("https://other.example/x")}
    async with WebSite(texts) as site:
        library = opened(store, tmp_path, lambda url: "deny" if "other.example" in url else "allow")
        base = await library.open_base("web", "")
        with pytest.raises(UsageError, match="redirects more than 5 times"):
            await library.add(base, f"{site.url}/a")
        with pytest.raises(UsageError, match="redirects to another site"):
            await library.add(base, f"{site.url}/away")
        assert library.rows.list_roots(base) == []
        site.pages["/a"] = page("<p>The walrus.</p>", "text/html")
        assert (await library.add(base, f"{site.url}/a")).added == 1
        site.pages["/a"] = redirect("/b")
        with pytest.raises(UsageError, match="redirects more than 5 times"):
            await library.update(base)
        assert len(await library.search("walrus", [base])) == 1  # what was there before stays


async def test_a_folder_that_contains_another_one_replaces_it(store: Store, docs: Path) -> None:
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    await library.add(base, docs / "deep")
    assert (await library.add(base, docs)).added == 2
    assert [root.location for root in library.rows.list_roots(base)] == [str(docs)]
    assert (await library.add(base, docs / "deep/use.py")).unchanged == 2
    assert await library.remove(base, docs) == 2
    assert await library.search("zebra", [base]) == []
    with pytest.raises(UsageError, match="was not added"):
        await library.remove(base, docs)


async def test_a_removed_base_leaves_no_rows(store: Store, docs: Path) -> None:
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    await library.add(base, docs)
    assert await library.remove(base) == 2
    for table in ("bases", "roots", "sources", "chunks"):
        assert store.database.query(f"SELECT * FROM knowledge_{table}") == []
    assert store.database.query("SELECT * FROM documents") == []


async def test_bases_of_one_project_are_not_found_from_another(store: Store, docs: Path) -> None:
    library = opened(store, docs)
    base = await library.open_base("project", "/one")
    await library.add(base, docs)
    assert await library.list_bases(("/two", "")) == []
    other = await library.open_base("project", "/two")
    assert await library.search("zebra", [other]) == []


async def test_a_cancelled_update_ends_after_the_running_transaction_and_goes_on_later(
    store: Store, tmp_path: Path
) -> None:
    for n in range(200):
        write(tmp_path / f"many/file{n}.txt", f"animal{n}")
    library = opened(store, tmp_path)
    base = await library.open_base("project", "")
    cancelled: list[bool] = []

    def cancel(done: int, total: int) -> None:
        if done == 100 and not cancelled:
            cancelled.append(adding.cancel())

    adding = asyncio.create_task(library.add(base, tmp_path / "many", cancel))
    with pytest.raises(asyncio.CancelledError):
        await adding
    (chunks,) = store.database.query("SELECT COUNT(*) FROM knowledge_chunks")[0]
    assert chunks == 64
    report = await library.add(base, tmp_path / "many")
    assert (report.added, report.unchanged) == (136, 64)


async def test_two_processes_do_not_mix_their_changes(store: Store, docs: Path) -> None:
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    root = (await library.add(base, docs)) and library.rows.list_roots(base)[0]
    stale = base  # another process still knows the version before
    with pytest.raises(UsageError, match="Another process is changing the knowledge base project"):
        library.rows.remove_root(stale, root)
    assert len(library.rows.list_sources(base)) == 2


async def test_a_look_without_a_change_writes_nothing_unless_the_last_one_is_old(
    store: Store, docs: Path
) -> None:
    library = opened(store, docs)
    base = await library.open_base("project", str(docs))
    await library.add(base, docs)

    async def look() -> int:
        await library.update_files(base)
        (found,) = await library.list_bases()
        return found.version

    (added,) = await library.list_bases()
    assert [await look(), await look()] == [added.version, added.version]
    store.database.commit([("UPDATE knowledge_roots SET looked_at = '2026-01-01T00:00:00+00:00'", ())])
    assert [await look(), await look()] == [added.version + 1, added.version + 1]
    write(docs / "new.txt", "A lemur.")
    assert await look() > added.version + 1
