"""Options that run a program or write a file, of programs that are harmless without these options."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from posixpath import basename
from typing import NamedTuple


class _Far(NamedTuple):
    names: tuple[str, ...]
    """The names of long options. An abbreviation such as `--com` for `--compress-program` matches, too."""
    letters: str = ""
    """The letters of short options, which also match in a cluster such as `-ro`."""


def _far(names: str = "", letters: str = "") -> _Far:
    return _Far(tuple(names.split()), letters)


_GIT_ANY = (
    "--upload-pack --receive-pack --exec --ext-diff --textconv --output --open-files-in-pager --extcmd --tool"
    " --template --config --config-env --exec-path --git-dir --work-tree --show-signature --separate-git-dir"
    " --reference --filter-process --output-directory --script --command --editor"
)
_OPTIONS: Mapping[str, _Far] = {
    "git": _far("--config-env --exec-path --git-dir --work-tree --super-prefix --paginate", "cCp"),
    "git *": _far(_GIT_ANY),
    "git archive": _far("--remote", "o"),
    "git bundle": _far(),
    "git clone": _far("--config --upload-pack --template", "uc"),
    "git diff": _far(),
    "git difftool": _far("--extcmd --tool", "xt"),
    "git fetch": _far("--upload-pack"),
    "git format-patch": _far("--output-directory", "o"),
    "git grep": _far("--open-files-in-pager", "O"),
    "git ls-remote": _far("--upload-pack --exec"),
    "git rebase": _far("--exec", "x"),
    "ag": _far("--pager --path-to-ignore"),
    "ack": _far("--pager --output"),
    "awk": _far("--include --load --exec --file --dump-variables --profile --pretty-print", "fiElpodD"),
    "bat": _far("--pager", ""),
    "black": _far("--config"),
    "cargo": _far("--config --manifest-path --target-dir --out-dir"),
    "curl": _far(
        "--output --remote-name --remote-name-all --output-dir --config --dump-header --cookie-jar --trace"
        " --trace-ascii --stderr --libcurl --etag-save --hsts --alt-svc --upload-file --netrc-file --engine"
        " --create-file-mode --remote-header-name --doh-url --proxy", "oOKDcTJ",
    ),
    "date": _far("--set", "s"),
    "docker": _far("--volume --mount --privileged --host --config --entrypoint --device --pid", "vH"),
    "eslint": _far("--fix --config --rulesdir --plugin --resolve-plugins-relative-to --output-file", "cof"),
    "fd": _far("--exec --exec-batch", "xX"),
    "file": _far("--compile --magic-file", "Cm"),
    "find": _far("-delete -exec -execdir -ok -okdir -fls -fprint -fprint0 -fprintf -files0-from"),
    "gcc": _far("-wrapper -specs -fplugin -B", "o"),
    "go": _far(
        "-exec --exec -toolexec --toolexec -overlay --overlay -o -coverprofile --coverprofile -vettool"
        " -cpuprofile -memprofile -modfile -ldflags -gcflags -outputdir"
    ),
    "iconv": _far("--output", "o"),
    "journalctl": _far("--vacuum-size --vacuum-time --vacuum-files --rotate --flush --sync --update-catalog"),
    "gh": _far("--web --hostname", "w"),
    "kubectl": _far(
        "--kubeconfig --server --token --as --as-group --as-uid --client-key --client-certificate --context"
        " --certificate-authority --insecure-skip-tls-verify --raw --cluster --user --username --password"
        " --tls-server-name --cache-dir --profile --profile-output --filename --kustomize --template", "sfk",
    ),
    "less": _far("--log-file --lesskey-file --lesskey-src", "oOk"),
    "make": _far("--eval --file --makefile --directory --include-dir", "fCI"),
    "man": _far("--pager --html --preprocessor --config-file", "PHC"),
    "mypy": _far("--junit-xml --install-types --config-file --python-executable --cache-dir --html-report"),
    "node": _far("--require --import --loader --experimental-loader --eval --print --env-file", "rep"),
    "npm": _far("--script-shell --node-options --prefix --globalconfig --userconfig --git --shell", "C"),
    "npx": _far("--package --call", "pc"),
    "pip": _far("--target --prefix --root --log --python --config-settings --index-url --extra-index", "t"),
    "pnpm": _far("--script-shell --node-options --dir --config --shell-emulator", "C"),
    "prettier": _far("--write --plugin --plugin-search-dir --config", "w"),
    "ps": _far(),
    "pytest": _far(
        "--basetemp --rootdir --confcutdir --junitxml --junit-xml --config-file --override-ini --pdbcls"
        " --log-file --pastebin --resultlog --cov-report", "pco",
    ),
    "python": _far("--command", "cm"),
    "rg": _far("--pre --hostname-bin --search-zip", "z"),
    "rsync": _far(
        "--rsh --rsync-path --log-file --write-batch --only-write-batch --temp-dir --backup-dir --partial-dir"
        " --delete --remove-source-files", "eT",
    ),
    "ruff": _far("--fix --unsafe-fixes --config --output-file --cache-dir", "o"),
    "scp": _far("", "oSF"),
    "sed": _far("--in-place --file", "if"),
    "shuf": _far("--output", "o"),
    "sort": _far("--output --compress-program --temporary-directory --files0-from", "oT"),
    "split": _far("--filter"),
    "ssh": _far("", "oFELRDwSI"),
    "tar": _far(
        "--use-compress-program --to-command --checkpoint-action --info-script --new-volume-script"
        " --rsh-command --rmt-command --directory --absolute-names --remove-files --unlink-first",
        "IFCPT",
    ),
    "tee": _far(),
    "time": _far("--output --append", "o"),
    "tree": _far("--output --fromfile", "o"),
    "tsc": _far("--outFile --outDir --build --project --generateTrace --tsBuildInfoFile", "bp"),
    "uniq": _far(),
    "wget": _far(
        "--output-document --output-file --append-output --directory-prefix --execute --config --use-askpass"
        " --input-file --post-file --body-file --save-cookies --warc-file --rejected-log", "OoaPei",
    ),
    "xxd": _far("-revert", "r"),
    "yarn": _far("--script-shell --cwd --use-yarnrc --modules-folder"),
    "yq": _far("--inplace --split-exp", "is"),
    "zip": _far("--unzip-command --test --move --output-file", "TmO"),
}  # fmt: skip
_SAME: Mapping[str, str] = {
    "gawk": "awk", "mawk": "awk", "gsed": "sed", "gtar": "tar", "bsdtar": "tar", "clang": "gcc", "cc": "gcc",
    "g++": "gcc", "gmake": "make", "fdfind": "fd", "gfind": "find", "batcat": "bat", "pip3": "pip",
    "python3": "python", "podman": "docker", "gsort": "sort", "py.test": "pytest",
}  # fmt: skip
_NAMES_WITH_SUBSCRIPT = frozenset((
    "[", "test", "printf", "read", "unset", "declare", "typeset", "local", "export", "readonly", "let",
    "mapfile", "readarray", "wait", "getopts",
))  # fmt: skip
"""Shell builtins that evaluate the subscript of a variable name. Code in the subscript runs."""
GIT_OPTIONS_WITH_VALUE = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
)
_CLUSTER_SECRETS = re.compile(r"(?:.*,)?secrets?(?:[.,/].*)?", re.IGNORECASE)
_CHANGES_WHAT_RUNS = frozenset(("config", "filter-branch", "mergetool", "difftool"))


def is_far_reaching(words: Sequence[str], pattern: str) -> bool:
    """Return whether the command has a far-reaching option. A pattern covers it only with the same option."""
    program = _SAME.get(basename(words[0]), basename(words[0]))
    named = set(pattern.split())
    if program in _NAMES_WITH_SUBSCRIPT:
        return _evaluates(program, words)
    if program == "git":
        return _git_reaches_far(words, named)
    if program == "kubectl" and any(map(_CLUSTER_SECRETS.fullmatch, words[1:])):
        return "secret" not in named and "secrets" not in named
    if program in ("sed", "awk") and any(map(_SCRIPT_RISKS.search, find_scripts(words))):
        return True
    if program == "uniq" and sum(not word.startswith("-") for word in words[1:]) > 1:
        return True
    if program == "tar" and len(words) > 1 and not words[1].startswith("-"):
        words = (words[0], f"-{words[1]}", *words[2:])
    far = _OPTIONS.get(program)
    return far is not None and _any_of(far, words[1:], named)


def _evaluates(program: str, words: Sequence[str]) -> bool:
    if program == "let" or (program == "printf" and any("%n" in w or w.startswith("-v") for w in words[1:])):
        return True
    rest = words[1:-1] if program == "[" else words[1:]
    return any("[" in word or word in ("-v", "-R") for word in rest) and program != "printf"


def find_scripts(words: Sequence[str]) -> Sequence[str]:
    """Return the scripts for `sed` or `awk` among the command's own arguments."""
    named = [
        word for before, word in pairwise(words) if before in ("-e", "--expression", "-ne", "-Ee", "-nEe")
    ]
    attached = [found[1] for word in words[1:] if (found := re.match(r"(?s)(?:-e|--expression=)(.*)", word))]
    return named + attached or [word for word in words[1:] if not word.startswith("-")][:1]


_SCRIPT_RISKS = re.compile(
    r"system|\||>|getline|@|[/|#,;][a-zA-Z0-9]*[we](?:[\s;}]|$)|(?:^|[;{}\d$/!\s])[ewWrR](?:\s|$)"
)


def _git_reaches_far(words: Sequence[str], named: set[str]) -> bool:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in GIT_OPTIONS_WITH_VALUE else 1
    if _any_of(_OPTIONS["git"], words[1:at], named):
        return True
    if at == len(words):
        return False
    subcommand, rest = words[at], words[at + 1 :]
    if subcommand in _CHANGES_WHAT_RUNS and subcommand not in named:
        return subcommand != "config" or _sets(rest)
    if (subcommand, *rest[:1]) in (("bisect", "run"), ("submodule", "foreach")) and rest[0] not in named:
        return True
    if any("%G" in word or word.startswith("ext::") for word in rest):
        return True
    special = _OPTIONS.get(f"git {subcommand}", _OPTIONS["git *"])
    return _any_of(_OPTIONS["git *"], rest, named) or _any_of(special, rest, named)


def _sets(words: Sequence[str]) -> bool:
    reads = ("--get", "--get-all", "--list", "-l", "--get-regexp", "get", "list")
    return not any(word in reads for word in words)


def _any_of(far: _Far, words: Sequence[str], named: set[str]) -> bool:
    return any(_is(far, word) and word.partition("=")[0] not in named for word in words if word[:1] == "-")


def _is(far: _Far, word: str) -> bool:
    name = word.partition("=")[0]
    if any(full == name or (full.startswith(name) and len(name) > 2) for full in far.names):
        return True
    if not word.startswith("--"):
        letters = re.match(r"-([A-Za-z0-9]*)", word)
        return bool(letters) and any(letter in far.letters for letter in letters[1])
    return False
