"""A release: the same bytes from the same sources, a bill of materials, notes, and one version everywhere."""

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import tree_sitter
import tree_sitter_ruby
from support.places import ROOT
from support.required import lacks, needs, require_module

from sandbur.agent.runtime.version import VERSION
from sandbur.ui.commands.setup.completion.scripts import script

RELEASE = ROOT / ".ci" / "release"
EPOCH = "1764547200"
SCHEMAS = Path(sys.prefix, "schemas", "cyclonedx", "schema", "_res")
"""The schemas of CycloneDX: data of a wheel that is not installed."""


def release(*words: str, code: int = 0, **env: str) -> str:
    line = [sys.executable, str(RELEASE), *words]
    done = subprocess.run(line, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    release("build", "--to", str(folder), SOURCE_DATE_EPOCH=EPOCH)
    return folder


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack the sources in another order, with other dates and rights than a checkout has."""
    # Reading backwards in compressed data begins at its start each time.
    plain = io.BytesIO(gzip.decompress(archive.read_bytes()))
    with tarfile.open(fileobj=plain) as opened:
        for member in sorted(opened.getmembers(), key=lambda one: one.name[::-1]):
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o600
            member.mtime += len(member.name)
            opened.extract(member, folder, filter="tar")
    return next(folder.iterdir())


@pytest.mark.slow
def test_the_same_sources_give_the_same_bytes_in_another_folder_and_at_another_time(
    dist: Path, tmp_path: Path
) -> None:
    sources = unpack(dist / f"sandbur-{VERSION}.tar.gz", tmp_path / "elsewhere")
    (sources / "PKG-INFO").unlink()
    again = tmp_path / "again"
    release("build", "--to", str(again), "--root", str(sources), SOURCE_DATE_EPOCH=EPOCH)
    assert (again / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()


def test_the_files_of_a_release_have_the_date_of_the_release(dist: Path) -> None:
    with tarfile.open(dist / f"sandbur-{VERSION}.tar.gz") as sources:
        assert {member.mtime for member in sources} == {int(EPOCH)}
    with zipfile.ZipFile(dist / f"sandbur-{VERSION}-py3-none-any.whl") as wheel:
        assert {one.date_time for one in wheel.infolist()} == {(2025, 12, 1, 0, 0, 0)}


def shared(dist: Path) -> dict[str, str]:
    with zipfile.ZipFile(dist / f"sandbur-{VERSION}-py3-none-any.whl") as wheel:
        start = f"sandbur-{VERSION}.data/data/share/"
        names = [name for name in wheel.namelist() if name.startswith(start)]
        return {name.removeprefix(start): wheel.read(name).decode() for name in names}


def test_the_wheel_has_the_man_page_that_the_command_prints(dist: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "sandbur.ui.cli.main", "manual", "--man"]
    env = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path)}
    printed = subprocess.run(line, env=env, capture_output=True, text=True, check=True).stdout
    assert shared(dist)["man/man1/sandbur.1"] == printed


def test_the_wheel_has_completion_scripts_that_ask_the_command_on_the_path(dist: Path) -> None:
    files = shared(dist)
    del files["man/man1/sandbur.1"]
    assert files == {
        "bash-completion/completions/sandbur": script("bash") + "\n",
        "zsh/site-functions/_sandbur": script("zsh") + "\n",
        "fish/vendor_completions.d/sandbur.fish": script("fish") + "\n",
    }
    assert all("command sandbur _complete" in text for text in files.values())


@needs("bash")
@needs("fish")
def test_an_installed_completion_script_completes(dist: Path, tmp_path: Path) -> None:
    """The command on the PATH is a script that runs this checkout."""
    program = tmp_path / "sandbur"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sandbur.ui.cli.main "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    files = shared(dist)
    (tmp_path / "bash").write_text(files["bash-completion/completions/sandbur"])
    (tmp_path / "fish").write_text(files["fish/vendor_completions.d/sandbur.fish"])
    bash = f"source {tmp_path}/bash; COMP_WORDS=(sandbur sess); COMP_CWORD=1; _sandbur; echo $COMPREPLY"
    fish = f"source {tmp_path}/fish; complete -C 'sandbur sess'"
    for line in (["bash", "--norc", "-c", bash], ["fish", "--no-config", "-c", fish]):
        done = subprocess.run(line, env=env, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert done.stdout.split()[:1] == ["sessions"]


@pytest.fixture(scope="module")
def bill(dist: Path) -> dict[str, Any]:
    return json.loads((dist / f"sandbur-{VERSION}.cdx.json").read_text("utf-8"))


def test_the_bill_of_materials_fits_the_schema_of_its_format(bill: dict[str, Any]) -> None:
    if not SCHEMAS.is_dir():
        lacks("The schemas of CycloneDX are not here: tests/run installs their wheel")

    def read(name: str) -> Any:
        return json.loads((SCHEMAS / name).read_text("utf-8"))

    base = "http://cyclonedx.org/schema/"
    others = {"spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json"}
    resources = [(base + name, read(name)) for name in others]
    validator = jsonschema_rs.validator_for(
        read("bom-1.6.SNAPSHOT.schema.json"), registry=jsonschema_rs.Registry(resources)
    )
    assert [str(error) for error in validator.iter_errors(bill)] == []


def test_the_bill_of_materials_names_every_dependency_and_what_it_needs(bill: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {plain(line) for line in project["dependencies"]}
    edges = {entry["ref"]: set(entry["dependsOn"]) for entry in bill["dependencies"]}
    own = edges[f"pkg:pypi/sandbur@{VERSION}"]
    assert {re.sub(r"pkg:pypi/|@.*", "", reference) for reference in own} == declared
    references = {component["bom-ref"] for component in bill["components"]}
    assert references | {f"pkg:pypi/sandbur@{VERSION}"} == set(edges)
    assert all(needs <= references for needs in edges.values())
    without = [component["name"] for component in bill["components"] if not component.get("licenses")]
    assert without == ["apache-burr"]  # its metadata names no licence


def plain(requirement: str) -> str:
    """Return the name of a requirement, as package indexes normalize it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=]", requirement)[0]).lower()


def test_a_bill_of_what_pip_resolved_has_hashes_and_no_address(tmp_path: Path) -> None:
    def entry(name: str, needs: list[str]) -> dict[str, Any]:
        about = {"name": name, "version": "1.0", "requires_dist": needs, "license": "MIT"}
        where = {"url": "https://host.example/x.whl", "archive_info": {"hashes": {"sha256": "a" * 64}}}
        return {"metadata": about, "download_info": where}

    markers = ['B_c>=1 ; python_version > "3"', 'gone ; extra == "ui"', 'never ; python_version < "3"']
    report = {"install": [entry("sandbur", markers), entry("B.c", []), entry("unused", [])]}
    (tmp_path / "report.json").write_text(json.dumps(report))
    text = release("sbom", "--report", str(tmp_path / "report.json"))
    made = json.loads(text)
    assert [component["name"] for component in made["components"]] == ["b-c"]
    assert made["components"][0]["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]
    assert "host.example" not in text
    refused = release("sbom", "--report", str(tmp_path / "report.json"), "--extra", "ui", code=1)
    assert "sandbur needs gone, which is not here" in refused


def test_notes_are_the_section_of_a_version_with_one_line_for_each_entry() -> None:
    notes = release("notes", "--blob", "https://host.example/blob/v1").splitlines()
    assert notes[0] == "### Added"
    assert not [line for line in notes if line.startswith("  ") and not line.lstrip().startswith(("-", "*"))]
    assert any("](https://host.example/blob/v1/docs/" in line for line in notes)
    assert "CHANGELOG.md says nothing about 9.9.9" in release("notes", "9.9.9", code=1)


def test_version_changelog_and_packages_agree() -> None:
    assert release("check") == f"Everything says {VERSION}.\n"


CHANGED = "# Changelog\n\n## [Unreleased]\n{}\n## [{}] - {}\n\n### Added\n\n- All.\n"


@pytest.mark.parametrize(
    ("changelog", "tag", "says"),
    [
        (CHANGED.format("", VERSION, "2026-12-01"), f"v{VERSION}", ""),
        (CHANGED.format("", VERSION, "soon"), f"v{VERSION}", "has no date"),
        (CHANGED.format("", VERSION, "2026-12-01"), "v9.9.9", "The tag is v9.9.9"),
        (CHANGED.format("", "0.0.1", "2026-12-01"), f"v{VERSION}", f"is not {VERSION}"),
        (CHANGED.format("\n- New.\n", VERSION, "2026-12-01"), f"v{VERSION}", "has entries under"),
        (CHANGED.format("", "0.0.1", "2026-12-01"), "", "neither entries"),
    ],
)
def test_a_release_whose_versions_differ_is_refused(
    tmp_path: Path, changelog: str, tag: str, says: str
) -> None:
    for path in ("pyproject.toml", "agent/runtime/version.py", "docs/packaging", ".ci/release"):
        copy = shutil.copytree if (ROOT / path).is_dir() else shutil.copy
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / path, tmp_path / path)
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    line = [sys.executable, str(tmp_path / ".ci" / "release"), "check", *([tag] if tag else [])]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, says in done.stdout) == (1 if says else 0, True), done.stdout + done.stderr


FORMULA = (ROOT / "docs" / "packaging" / "sandbur.rb").read_text("utf-8")
FLAKE = (ROOT / "docs" / "packaging" / "flake.nix").read_text("utf-8")


def syntax_errors(language: object, text: str) -> bool:
    parser = tree_sitter.Parser(tree_sitter.Language(language))
    return parser.parse(text.encode()).root_node.has_error


def test_the_formula_is_ruby_and_links_every_file_that_the_wheel_shares(dist: Path) -> None:
    assert not syntax_errors(tree_sitter_ruby.language(), FORMULA)
    assert syntax_errors(tree_sitter_ruby.language(), FORMULA.replace("do\n", "do (\n"))
    assert set(re.findall(r'libexec/"share/([^"]+)"', FORMULA)) == set(shared(dist))


def test_the_flake_has_the_dependencies_and_the_build_system_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    listed = re.search(r" dependencies = with [^\[]+\[([^\]]+)\]", FLAKE)
    assert listed is not None
    assert listed[1].split() == [plain(line) for line in project["project"]["dependencies"]]
    build = [f"pkgs.python3.pkgs.{plain(line)}" for line in project["build-system"]["requires"]]
    assert f"build-system = [ {' '.join(build)} ];" in FLAKE


def optional(program: str) -> pytest.MarkDecorator:
    """Return the mark of a test that CI may skip, too: its program takes longer to install than the tests."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def checked(*line: str, text: str = "") -> bool:
    return subprocess.run(line, input=text, capture_output=True, text=True, check=False).returncode == 0


@optional("ruby")
def test_ruby_reads_the_formula() -> None:
    assert checked("ruby", "-c", text=FORMULA)
    assert not checked("ruby", "-c", text=FORMULA.replace("do\n", "do (\n"))


def test_formula_and_flake_have_licence_name_and_python_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f'license "{project["license"]}"' in FORMULA
    assert project["license"] == "Apache-2.0"
    assert "licenses.asl20" in FLAKE
    assert f'pname = "{project["name"]}"' in FLAKE
    (command,) = project["scripts"]
    assert f'mainProgram = "{command}"' in FLAKE
    python = re.search(r'depends_on "python@3\.(\d+)"', FORMULA)
    assert python is not None
    assert int(python[1]) >= int(project["requires-python"].removeprefix(">=3."))
    assert f'"python3.{python[1]}", "-m", "venv"' in FORMULA


STUBS = """
let
  packages = builtins.listToAttrs (map (name: { inherit name; value = name; }) [ NAMES ]);
  pkgs = {
    python3.pkgs = packages // { buildPythonApplication = given: given // { outPath = "/store/built"; }; };
    git = "git"; ripgrep = "ripgrep"; stdenv.hostPlatform.system = "x86_64-linux";
  };
  lib = {
    genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names);
    makeBinPath = builtins.concatStringsSep ":"; licenses.asl20 = "Apache-2.0";
  };
  systems = [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ];
  nixpkgs = { inherit lib; legacyPackages = lib.genAttrs systems (_: pkgs); };
  outputs = (import FLAKE).outputs { self = outputs // { outPath = "/sources"; }; inherit nixpkgs; };
  built = outputs.packages.x86_64-linux.default;
in
{
  inherit (built) version dependencies build-system;
  licence = built.meta.license;
  program = outputs.apps.x86_64-linux.default.program;
  systems = builtins.attrNames outputs.packages;
}
"""
"""The flake's outputs, with a nixpkgs that has only what the flake may use."""


@optional("nix-instantiate")
def test_nix_evaluates_the_flake_with_a_stub_of_its_inputs(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = [plain(line) for line in project["dependencies"]]
    stubs = STUBS.replace("NAMES", " ".join(f'"{name}"' for name in [*names, "hatchling"]))
    (tmp_path / "stubs.nix").write_text(stubs.replace("FLAKE", str(ROOT / "docs/packaging/flake.nix")))
    line = ["nix-instantiate", "--eval", "--strict", "--json", str(tmp_path / "stubs.nix")]
    env = {**os.environ, "HOME": str(tmp_path), "NIX_STATE_DIR": str(tmp_path / "state")}
    env |= {"NIX_STORE_DIR": str(tmp_path / "store"), "NIX_LOG_DIR": str(tmp_path / "log")}
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["dependencies"] == names
    assert (found["version"], found["licence"]) == (VERSION, project["license"])
    assert found["build-system"] == ["hatchling"]
    assert found["program"] == "/store/built/bin/sandbur"
    assert found["systems"] == ["aarch64-darwin", "aarch64-linux", "x86_64-linux"]


def test_the_flake_is_nix() -> None:
    require_module("tree_sitter_nix")
    import tree_sitter_nix

    assert not syntax_errors(tree_sitter_nix.language(), FLAKE)
    assert syntax_errors(tree_sitter_nix.language(), FLAKE.replace("rec", "").replace("];", "]", 1))
