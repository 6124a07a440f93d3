"""The changelog: its versions, the notes of one of them, and whether everything agrees on the version."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNRELEASED = "Unreleased"
PACKAGES = {"docs/packaging/sandbur.rb": "/v{}.tar.gz", "docs/packaging/flake.nix": 'version = "{}";'}
"""The files for other package managers -> what in them has the version."""
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_HEADING = re.compile(r"^## \[(?P<version>[^]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)
_LINK = re.compile(r"\]\((?P<path>(?!\w+:|#)[^)]+)\)")


def sections(text: str) -> dict[str, str]:
    """Return version -> what the changelog says under it, the newest version first."""
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return {
        heading["version"]: text[heading.end() : end].strip()
        for heading, end in zip(headings, ends, strict=True)
    }


def read_version(root: Path = ROOT) -> str:
    """Return the version that the wheel gets, read the way the build reads it."""
    table = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["version"]
    found = re.search(table["pattern"], (root / table["path"]).read_text("utf-8"))
    if found is None:
        raise SystemExit(f"{table['path']} has no version.")
    return found["version"]


def make_notes(version: str, root: Path = ROOT, blob: str = "") -> str:
    """Return the release notes of a version: its section, with one line for each entry.

    `blob` is the address of the files of the release: links to files begin with it.
    """
    found = sections((root / "CHANGELOG.md").read_text("utf-8"))
    notes = found.get(version, found.get(UNRELEASED, "") if version == read_version(root) else "")
    if not notes:
        raise SystemExit(f"CHANGELOG.md says nothing about {version}: {', '.join(found)} are there.")
    joined = re.sub(r"\n  +(?=\S)", " ", notes)
    return _LINK.sub(rf"]({blob.rstrip('/')}/\g<path>)", joined) if blob else joined


def find_disagreements(tag: str = "", root: Path = ROOT) -> list[str]:
    """Return a sentence for each place whose version is not the one of `version.py`.

    With the tag of a release, the changelog must have a dated section, and nothing unreleased.
    """
    version = read_version(root)
    text = (root / "CHANGELOG.md").read_text("utf-8")
    return [
        *([] if _VERSION.fullmatch(version) else [f"The version {version!r} is not like 1.2.3 or 1.2.3rc1."]),
        *_check_dates(text),
        *(_check_tag(tag, version, sections(text)) if tag else _check_entries(version, sections(text))),
        *_check_packages(version, root),
    ]


def _check_dates(text: str) -> list[str]:
    return [
        f"CHANGELOG.md has no date for {heading['version']}: `## [{heading['version']}] - YYYY-MM-DD`."
        for heading in _HEADING.finditer(text)
        if heading["version"] != UNRELEASED and not _DATE.fullmatch(heading["date"] or "")
    ]


def _check_tag(tag: str, version: str, found: dict[str, str]) -> list[str]:
    wrong: list[str] = []
    if tag != f"v{version}":
        wrong.append(f"The tag is {tag}, but agent/runtime/version.py says {version}.")
    if next((name for name in found if name != UNRELEASED), "") != version:
        wrong.append(f"The newest version in CHANGELOG.md is not {version}: rename `[{UNRELEASED}]`.")
    elif found.get(UNRELEASED):
        wrong.append(f"CHANGELOG.md has entries under `[{UNRELEASED}]` that belong to {version}.")
    return wrong


def _check_entries(version: str, found: dict[str, str]) -> list[str]:
    if found.get(UNRELEASED) or version in found:
        return []
    return [f"CHANGELOG.md has neither entries under `[{UNRELEASED}]` nor a section {version}."]


def _check_packages(version: str, root: Path) -> list[str]:
    return [
        f"{path} is not for {version}."
        for path, line in PACKAGES.items()
        if line.format(version) not in (root / path).read_text("utf-8")
    ]
