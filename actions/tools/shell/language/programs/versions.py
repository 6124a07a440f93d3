"""The arguments with which programs only print their version, and the files that select the version in a
folder.
"""

from collections.abc import Mapping, Sequence

_LONG = (
    "python python3 pip pip3 pipx gcc g++ cc clang cmake docker podman make gmake ninja bash zsh git curl"
    " wget tar node npm deno bun perl ruby php gh uv uvx ruff black mypy cargo rustc rustup java javac"
    " sqlite3 psql mysql vim nvim emacs gpg rsync xz gzip bzip2 strace shellcheck awk gawk ffmpeg openssl"
    " sandbur"
)
_OTHERS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("python", "python3", "pip", "pip3", "cargo", "rustc", "curl"), ("--version", "-V")),
    **dict.fromkeys(("node", "npm", "docker", "podman", "ruby", "perl", "php"), ("--version", "-v")),
    "java": ("--version", "-version"),
    "ffmpeg": ("-version",),
    "go": ("version",),
    "openssl": ("version",),
    "ssh": ("-V",),
    "tmux": ("-V",),
}
VERSION_WORDS: Mapping[str, Sequence[str]] = {**dict.fromkeys(_LONG.split(), ("--version",)), **_OTHERS}
"""Programs that first read settings or load code of the folder are not listed: `yarn`, `mvn`, `pytest`, `hg`,
...
"""
_RUST = ("rust-toolchain", "rust-toolchain.toml")
CHOSEN_BY: Mapping[str, Sequence[str]] = {
    "cargo": _RUST,
    "rustc": _RUST,
    "rustup": _RUST,
    "go": ("go.mod", "go.work"),
    "npm": (".npmrc",),
}
"""Maps a program to the files of a project that make another program run, or that make the program write."""
CHOSEN_BY_SHIMS = (".tool-versions", "mise.toml", ".mise.toml")
"""The files of version managers, which select the version of any of their programs."""


def tells_version(program: str, words: Sequence[str]) -> bool:
    """Return whether the command only prints the version of the program."""
    return len(words) == 1 and words[0] in VERSION_WORDS.get(program, ())
