"""What a release needs: python .ci/release check|notes|sbom|build (`--help` of each says more)."""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from changelog import ROOT, find_disagreements, make_notes, read_version
from sbom import installed_packages, make_document, reported_packages

_BUILD = """
import os, sys
import hatchling.build
os.umask(0o022)
print(hatchling.build.build_sdist(sys.argv[1]))
print(hatchling.build.build_wheel(sys.argv[1]))
"""


def main() -> int:
    """Run one action; return the exit code."""
    options = _parse()
    if options.action == "check":
        wrong = find_disagreements(options.tag)
        print("\n".join(wrong) or f"Everything says {read_version()}.")
        return 1 if wrong else 0
    if options.action == "notes":
        print(make_notes(options.version or read_version(), blob=options.blob))
    elif options.action == "sbom":
        print(_sbom(options.report, options.extra))
    else:
        build(options.to, options.root, options.report)
    return 0


def build(folder: Path, root: Path = ROOT, report: Path | None = None) -> None:
    """Build the sdist, the wheel, the bill of materials, the notes and the list of hashes into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "SOURCE_DATE_EPOCH": _epoch(root)}
    line = [sys.executable, "-c", _BUILD, str(folder.resolve())]
    names = subprocess.run(line, cwd=root, env=env, check=True, stdout=subprocess.PIPE, text=True)
    os.environ["SOURCE_DATE_EPOCH"] = env["SOURCE_DATE_EPOCH"]
    version = read_version(root)
    texts = {
        f"sandbur-{version}.cdx.json": _sbom(report, []) + "\n",
        f"sandbur-{version}.md": make_notes(version, root) + "\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    files = sorted([*names.stdout.split(), *texts])
    hashes = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in files]
    (folder / "SHA256SUMS").write_text("".join(hashes))
    print("".join(hashes), end="")


def _epoch(root: Path) -> str:
    """Return the date for the files: `SOURCE_DATE_EPOCH`, else that of the last commit."""
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        return epoch
    line = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(line, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit("This is not a Git checkout: set SOURCE_DATE_EPOCH to the date of the release.")
    return done.stdout.strip()


def _sbom(report: Path | None, extras: list[str]) -> str:
    packages = reported_packages(report) if report else installed_packages()
    return json.dumps(make_document(packages, extras), indent=2, sort_keys=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python .ci/release", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    check = actions.add_parser("check", help="do version.py, changelog, packages and tag agree?")
    check.add_argument("tag", nargs="?", default="", help="such as v1.2.3")
    notes = actions.add_parser("notes", help="print the release notes from the changelog")
    notes.add_argument("version", nargs="?", help="default: that of this checkout")
    notes.add_argument("--blob", default="", metavar="URL", help="where the files of the release are")
    sbom = actions.add_parser("sbom", help="print the bill of materials as CycloneDX JSON")
    sbom.add_argument("--extra", action="append", default=[], help="an extra that is installed; repeatable")
    build = actions.add_parser("build", help="build everything that a release consists of")
    build.add_argument("--to", type=Path, default=ROOT / "dist", metavar="DIR", help="default: dist")
    build.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the sources")
    for one in (sbom, build):
        one.add_argument(
            "--report",
            type=Path,
            metavar="FILE",
            help="what `pip install --dry-run --ignore-installed --report FILE WHEEL` resolved, with hashes;"
            " default: what is installed here",
        )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
