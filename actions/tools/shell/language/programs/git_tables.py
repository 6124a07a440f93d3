"""The read-only subcommands of `git`, and their read-only options.

An option is not listed if it runs a program (`--ext-diff`, `--textconv`, signatures), writes a file, or reads
a file that may be in any folder (`-O`, `--ignore-revs-file`, `--exclude-from`).
"""

from collections.abc import Mapping

from .options import Program, table

_DIFF = """
    -# -puszabwWrRtcm -U: -B? -M? -C? -D? -X? -l: -S% -G% --patch --no-patch --unified: --raw --patch-with-raw
    --indent-heuristic --no-indent-heuristic --minimal --patience --histogram --anchored% --diff-algorithm:
    --stat? --compact-summary --numstat --shortstat --dirstat? --cumulative --summary --patch-with-stat
    --name-only --name-status --color? --no-color --color-moved? --no-color-moved --color-moved-ws:
    --word-diff? --word-diff-regex% --color-words? --no-renames --rename-empty --no-rename-empty --check
    --ws-error-highlight: --full-index --binary --abbrev? --break-rewrites? --find-renames? --find-copies?
    --find-copies-harder --irreversible-delete --diff-filter: --pickaxe-all --pickaxe-regex --text
    --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines
    --ignore-matching-lines% --inter-hunk-context: --function-context --exit-code --quiet --no-ext-diff
    --no-textconv --ignore-submodules? --submodule? --src-prefix: --dst-prefix: --no-prefix --line-prefix:
    --relative? --no-relative
"""
_COMMITS = """
    -# -n: -iEFP --max-count: --skip: --since% --after% --until% --before% --author% --committer% --grep%
    --grep-reflog% --all-match --invert-grep --regexp-ignore-case --extended-regexp --fixed-strings
    --perl-regexp --basic-regexp --remove-empty --merges --no-merges --min-parents: --max-parents:
    --no-min-parents --no-max-parents --first-parent --not --all --branches? --tags? --remotes? --glob%
    --exclude% --reflog --alternate-refs --ignore-missing --cherry-mark --cherry-pick --left-only
    --right-only --left-right --cherry --walk-reflogs --merge --boundary --simplify-by-decoration
    --full-history --dense --sparse --simplify-merges --ancestry-path --date-order --author-date-order
    --topo-order --reverse --no-walk? --do-walk --parents --children
"""
_LOG = f"""
    {_DIFF} {_COMMITS} -g -L: --oneline --graph --follow --no-decorate --decorate? --decorate-refs%
    --decorate-refs-exclude% --source --mailmap --no-mailmap --use-mailmap --log-size --pretty? --format%
    --abbrev-commit --no-abbrev-commit --encoding: --expand-tabs? --no-expand-tabs --notes? --no-notes
    --relative-date --date: --show-linear-break? --diff-merges: --no-diff-merges --combined-all-paths --cc
    --full-diff --clear-decorations --remerge-diff
"""
GIT_OPTION_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("log", "show", "whatchanged", "stash list", "reflog", "reflog show"), _LOG),
    "diff": f"{_DIFF} -123 --cached --staged --merge-base --no-index --base --ours --theirs",
    "diff-tree": f"{_DIFF} -v --root --pretty? --format% --cc --no-commit-id --always --merge-base",
    "blame": """
        -bcfnsewlrtp -M? -C? -L: --root --show-stats --reverse --first-parent --porcelain --line-porcelain
        --incremental --encoding: --date: --score-debug --show-name --show-number --show-email --abbrev:
        --minimal --ignore-rev: --color-lines --color-by-age --progress --no-progress
    """,
    "status": """
        -sbvz -u? -M? --short --branch --show-stash --porcelain? --long --verbose --untracked-files?
        --ignore-submodules? --ignored? --column? --no-column --ahead-behind --no-ahead-behind --renames
        --no-renames --find-renames?
    """,
    "rev-parse": """
        --show-toplevel --abbrev-ref? --short? --verify --git-dir --absolute-git-dir --quiet -q --all
        --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --show-cdup
        --show-prefix --git-common-dir --symbolic --symbolic-full-name --branches? --tags? --remotes?
        --show-superproject-working-tree --show-object-format? --revs-only --no-revs --flags --no-flags
    """,
    "ls-files": """
        -cdmoistuvfzk -x% --cached --deleted --modified --others --ignored --stage --killed --unmerged
        --directory --no-empty-directory --exclude% --exclude-standard --error-unmatch --full-name
        --recurse-submodules --abbrev? --debug --deduplicate --eol --format%
    """,
    "describe": """
        --tags --all --always --dirty? --broken? --long --abbrev: --match% --exclude% --exact-match
        --contains --first-parent --candidates:
    """,
    "tag": """
        -li -n? --list --sort: --format% --contains --no-contains --merged --no-merged --points-at
        --column? --color? --ignore-case
    """,
    "branch": """
        -arvqil --all --remotes --list --verbose --show-current --sort: --format% --color? --no-color
        --column? --no-column --abbrev? --no-abbrev --contains --no-contains --merged --no-merged
        --points-at: --ignore-case
    """,
    "grep": """
        -aiIwvhHlLnzcpWEFGPqor -# -A: -B: -C: -e% -f< -m: --cached --untracked --no-index
        --no-exclude-standard --exclude-standard --recurse-submodules --text --ignore-case --word-regexp
        --invert-match --full-name --extended-regexp --basic-regexp --fixed-strings --perl-regexp
        --line-number --column --files-with-matches --name-only --files-without-match --null
        --only-matching --count --color? --no-color --break --heading --show-function --context:
        --after-context: --before-context: --function-context --max-depth: --recursive --no-recursive
        --and --or --not --all-match --quiet --threads: --max-count:
    """,
    "ls-tree": """
        -drtlz --name-only --name-status --long --full-name --full-tree --abbrev? --object-only --format%
    """,
    "cat-file": "-tspe --batch-check?",
    "rev-list": f"""
        {_COMMITS} -q --count --objects --oneline --timestamp --quiet --abbrev-commit --format% --pretty?
        --no-commit-header --header --disk-usage?
    """,
    "merge-base": "-a --all --is-ancestor --octopus --independent --fork-point",
    "name-rev": "--name-only --tags --refs% --exclude% --all --always --no-undefined",
    "shortlog": f"{_COMMITS} -nsec --numbered --summary --email --format% --date: --group: --committer",
    "for-each-ref": """
        --count: --sort: --format% --contains? --no-contains? --merged? --no-merged? --points-at: --color?
        --ignore-case --omit-empty --exclude%
    """,
    "show-ref": """
        -dsq --head --heads --branches --tags --dereference --hash? --verify --quiet --abbrev? --exists
    """,
    "count-objects": "-vH --verbose --human-readable",
    "check-ignore": "-vqn --verbose --quiet --no-index --non-matching",
    "symbolic-ref": "-q --short --quiet --recurse --no-recurse",
    "remote": "-v --verbose",
    "remote get-url": "--push --all",
    "worktree list": "-vz --porcelain --verbose",
    "config": """
        -z --get --get-all --show-origin --show-scope --local --global --system --type: --bool --int
        --path --default: --null --name-only
    """,
    "version": "--build-options",
}
_MOST_OPERANDS = {
    "branch": 0, "tag": 0, "symbolic-ref": 1, "remote": 0, "remote get-url": 1, "stash list": 0, "reflog": 0,
    "reflog show": 0, "worktree list": 0, "config": 1, "version": 0,
}  # fmt: skip
_SHOWS_CONTENT = frozenset((
    "show", "diff", "log", "blame", "grep", "cat-file", "stash list", "reflog", "reflog show", "diff-tree",
    "whatchanged",
))  # fmt: skip
GIT: Mapping[str, Program] = {
    name: Program(
        table(options),
        leading=1 if name == "grep" else 0,
        instead=frozenset(("-e", "-f")),
        most_operands=_MOST_OPERANDS.get(name),
        has_text_operands=name in ("config", "version", "remote get-url"),
        shows_content=name in _SHOWS_CONTENT,
        starts_here=True,
    )
    for name, options in GIT_OPTION_WORDS.items()
}
