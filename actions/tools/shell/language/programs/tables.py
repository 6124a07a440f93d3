"""The programs that only read, and their read-only options.

`options.py` explains the format of a row. The tables leave out all options that write, run a program, wait
forever, or read file names from a file. A command with such an option needs a decision.
"""

from collections.abc import Mapping

from .options import Kind, Program, single_dash_table, table

_CHECKSUMS = "-btz --binary --tag --text --zero"
_GREP = """
    -EFGPivnwxycoqsbHhlLZzaTUIrR -e% -f< -m: -A: -B: -C: -d: -D: -#
    --extended-regexp --fixed-strings --basic-regexp --perl-regexp --regexp% --file< --ignore-case
    --no-ignore-case --word-regexp --line-regexp --null-data --no-messages --invert-match --max-count:
    --byte-offset --line-number --line-buffered --with-filename --no-filename --label: --only-matching --quiet
    --silent --binary-files: --text --directories: --devices: --recursive --dereference-recursive --include%
    --exclude% --exclude-dir% --files-without-match --files-with-matches --count --initial-tab --null
    --before-context: --after-context: --context: --color? --colour? --binary --version --help
"""
_OPTIONS: Mapping[str, str] = {
    "cat": """
        -AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs
        --show-nonprinting
    """,
    "head": "-# -qvz -n: -c: --bytes: --lines: --quiet --silent --verbose --zero-terminated",
    "tail": "-# -qvz -n: -c: --bytes: --lines: --quiet --silent --verbose --zero-terminated",
    "wc": "-clmLw --bytes --chars --lines --max-line-length --words --total?",
    "ls": """
        -aAbBcCdfFgGhHikKlLmnNopqQrRsStuUvxXZ1 -I: -T: -w: --all --almost-all --author --escape --block-size:
        --ignore-backups --color? --directory --classify? --file-type --format: --full-time
        --group-directories-first --no-group --human-readable --si --dereference-command-line
        --dereference-command-line-symlink-to-dir --hide% --hyperlink? --indicator-style: --inode --ignore%
        --kibibytes --dereference --numeric-uid-gid --literal --hide-control-chars --show-control-chars
        --quote-name --quoting-style: --reverse --recursive --size --sort: --time: --time-style: --tabsize:
        --width: --context --zero
    """,
    "stat": "-Lft -c% --dereference --file-system --terse --format% --printf% --cached:",
    "du": """
        -0aAbcDhHklLmPsSx -B: -d: -t: --all --apparent-size --block-size: --bytes --total --dereference-args
        --max-depth: --human-readable --inodes --count-links --dereference --no-dereference --null
        --separate-dirs --si --summarize --threshold: --time? --time-style: --one-file-system --exclude%
    """,
    "df": """
        -ahHiklPTv -B: -t: -x: --all --block-size: --total --human-readable --si --inodes --local --no-sync
        --output? --portability --type: --print-type --exclude-type:
    """,
    "cut": """
        -nsz -b: -c: -f: -d: --bytes: --characters: --delimiter: --fields: --complement --only-delimited
        --output-delimiter: --zero-terminated
    """,
    "cmp": "-bls -i: -n: --print-bytes --ignore-initial: --verbose --bytes: --quiet --silent",
    "realpath": """
        -eEmLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet
        --relative-to< --relative-base< --strip --no-symlinks --zero
    """,
    "readlink": """
        -femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet
        --silent --verbose --zero
    """,
    "nl": """
        -p -b: -d: -f: -h: -i: -l: -n: -s: -v: -w: --body-numbering: --section-delimiter:
        --footer-numbering: --header-numbering: --line-increment: --join-blank-lines: --number-format:
        --no-renumber --number-separator: --starting-line-number: --number-width:
    """,
    "tac": "-br -s% --before --regex --separator%",
    "rev": "-0 --zero",
    **dict.fromkeys(("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"), _CHECKSUMS),
    "b2sum": f"{_CHECKSUMS} -l: --length:",
    "cksum": "-l: --length: --algorithm: --base64 --raw --tag --untagged --zero",
    "sum": "-rs --sysv",
    "comm": "-123z --check-order --nocheck-order --output-delimiter: --total --zero-terminated",
    "paste": "-sz -d: --delimiters: --serial --zero-terminated",
    "join": """
        -iz -a: -e: -1: -2: -j: -o: -t: -v: --ignore-case --check-order --nocheck-order --header
        --zero-terminated
    """,
    "expand": "-# -i -t: --initial --tabs:",
    "unexpand": "-# -a -t: --all --first-only --tabs:",
    "fold": "-# -bcs -w: --bytes --characters --spaces --width:",
    "fmt": """
        -# -cstu -p: -w: -g: --crown-margin --prefix: --split-only --tagged-paragraph --uniform-spacing
        --width: --goal:
    """,
    "od": """
        -abcdfhiloxsBDFHILOXev -A: -j: -N: -S: -t: -w? --address-radix: --endian: --skip-bytes: --read-bytes:
        --strings? --format: --output-duplicates --width? --traditional
    """,
    "hexdump": """
        -bcCdovxX -n: -s: --one-byte-octal --one-byte-char --canonical --two-bytes-decimal
        --two-bytes-octal --two-bytes-hex --no-squeezing --length: --skip:
    """,
    "column": """
        -tnexLJd -c: -o: -s: -N: -R: -T: -H: -W: -O: -E: -C: --table --table-name: --output-width:
        --output-separator: --separator: --table-columns: --table-right: --table-truncate: --table-hide:
        --table-wrap: --table-order: --table-noextreme: --table-noheadings --table-empty-lines
        --keep-empty-lines --fillrows --json --table-header-repeat
    """,
    "sort": """
        -bdfgihMnrRsuVzcCm -k: -t: -S: --ignore-leading-blanks --dictionary-order --ignore-case
        --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort
        --random-sort --reverse --sort: --version-sort --check? --debug --key: --merge --stable
        --buffer-size: --field-separator: --parallel: --unique --zero-terminated
    """,
    "uniq": """
        -# -cdDiuz -f: -s: -w: --count --repeated --all-repeated? --skip-fields: --group? --ignore-case
        --skip-chars: --unique --zero-terminated --check-chars:
    """,
    "diff": """
        -# -abBcdeEiNnpqrstTuwyZ -C: -U: -F% -I% -W: -L: -S: -x% --normal --brief --report-identical-files
        --context? --unified? --ed --rcs --side-by-side --width: --left-column --suppress-common-lines
        --show-c-function --show-function-line% --label: --expand-tabs --initial-tab --tabsize:
        --suppress-blank-empty --recursive --no-dereference --new-file --unidirectional-new-file
        --ignore-file-name-case --no-ignore-file-name-case --exclude% --starting-file: --ignore-case
        --ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space
        --ignore-blank-lines --ignore-matching-lines% --text --strip-trailing-cr --ifdef:
        --old-line-format% --new-line-format% --unchanged-line-format% --line-format%
        --old-group-format% --new-group-format% --unchanged-group-format% --changed-group-format%
        --minimal --horizon-lines: --speed-large-files --color? --palette:
    """,
    "file": """
        -bhikLnNrv0E -F: -e: -P: --brief --mime --mime-type --mime-encoding --extension --apple
        --no-dereference --dereference --keep-going --no-pad --no-buffer --print0 --raw --separator:
        --exclude: --parameter:
    """,
    "jq": """
        -nrjacCMSsRe --raw-output --join-output --ascii-output --raw-input --compact-output --slurp
        --null-input --exit-status --sort-keys --tab --indent: --arg& --argjson& --color-output
        --monochrome-output --stream --seq --unbuffered
    """,
    "tree": """
        -adflxqNQpugshDFvtcUrJXSACni -L: -I% -P% --noreport --dirsfirst --filesfirst --du --gitignore
        --filelimit: --prune --matchdirs --ignore-case --si --inodes --device --nolinks --charset: --sort?
        --timefmt: --metafirst
    """,
    "rg": """
        -abcFhHiIlLnNopPqsSuUvVwx0. -# -e% -f< -A: -B: -C: -g% -m: -t: -T: -j: -M: -E: -d: -r%
        --after-context: --before-context: --context: --count --count-matches --color: --colors: --column
        --crlf --debug --encoding: --engine: --field-context-separator: --field-match-separator: --file<
        --files --files-with-matches --files-without-match --fixed-strings --follow --glob%
        --glob-case-insensitive --heading --hidden --iglob% --ignore-case --ignore-file< --invert-match
        --json --line-buffered --line-number --line-regexp --max-columns: --max-columns-preview --max-count:
        --max-depth: --max-filesize: --mmap --multiline --multiline-dotall --no-config --no-filename
        --no-heading --no-hidden --no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files
        --no-ignore-global --no-ignore-messages --no-ignore-parent --no-ignore-vcs --no-line-number
        --no-messages --no-mmap --no-pcre2-unicode --no-unicode --null --null-data --one-file-system
        --only-matching --passthru --pcre2 --pretty --quiet --regexp% --replace% --smart-case
        --case-sensitive --sort: --sortr: --stats --text --threads: --trim --type: --type-list --type-not:
        --unrestricted --vimgrep --with-filename --word-regexp --byte-offset --context-separator: --binary
    """,
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "which": "-as --all",
    "type": "-aftpP",
    "pwd": "-LP --logical --physical",
    "uname": """
        -asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine --processor
        --hardware-platform --operating-system
    """,
    "whoami": "",
    "id": "-aZgGnruz --context --group --groups --name --real --user --zero",
    "groups": "",
    "logname": "",
    "arch": "",
    "nproc": "--all --ignore:",
    "tty": "-s --silent --quiet",
    "uptime": "-pscr --pretty --since",
    "tr": "-cCdst --complement --delete --squeeze-repeats --truncate-set1",
    "basename": "-az -s% --multiple --suffix% --zero",
    "dirname": "-z --zero",
    "pathchk": "-pP --portability",
    "factor": "-h --exponents",
    "numfmt": """
        -z -d: --debug --delimiter: --field: --format% --from: --from-unit: --grouping --header? --invalid:
        --padding: --round: --suffix: --to: --to-unit: --zero-terminated
    """,
    "free": "-bkmghtwlv --bytes --kilo --mega --giga --tera --human --si --total --wide --lohi --committed",
    "lsblk": """
        -abdDfilmnOpPrsStTzAJ -e: -I: -E: -o: -w: -x: -M --all --bytes --discard --nodeps --fs --inverse
        --json --list --merge --perms --noheadings --output: --output-all --paths --pairs --raw --scsi
        --topology --tree? --zoned --width: --sort: --exclude: --include: --dedup: --ascii
    """,
    "sed": "-nEr -e% --quiet --silent --regexp-extended --expression%",
    "awk": "-F%",
    "seq": "-w -f% -s% --format% --separator% --equal-width",
    "date": "-uR -d% -r< -I? --date% --iso-8601? --reference< --rfc-email --rfc-3339: --utc --universal",
}
_SUBCOMMANDS: Mapping[str, str] = {
    "pip list": """
        -elv --editable --local --user --pre --format: --not-required --include-editable
        --exclude-editable --exclude: --disable-pip-version-check --verbose
    """,
    "pip show": "-fv --files --verbose --disable-pip-version-check",
    "npm ls": "-alp --all --depth: --json --long --parseable --omit: --include: --package-lock-only",
}
_SINGLE_DASH: Mapping[str, str] = {
    "find": """
    -H -L -P -a -o -not -and -or -name% -iname% -path% -ipath% -wholename% -iwholename% -regex% -iregex%
    -regextype: -lname% -ilname% -type: -xtype: -size: -empty -perm: -user: -group: -uid: -gid: -links: -inum:
    -samefile< -newer< -anewer< -cnewer< -newermt% -newerat% -newerct% -mtime: -atime: -ctime: -mmin: -amin:
    -cmin: -used: -maxdepth: -mindepth: -depth -d -mount -xdev -prune -print -print0 -printf% -ls -quit -true
    -false -readable -writable -executable -follow -daystart -noleaf -nouser -nogroup -nowarn -warn -fstype:
    -ignore_readdir_race -noignore_readdir_race
    """,
    # For this program only the first letter counts: `-pr` means `-p`. A word after an operand is a file to
    # write.
    "xxd": "-a -b -e -i -p -ps -u -E -c: -g: -l: -s: -n: -o:",
}
_PURE = frozenset((
    "ls", "cat", "head", "wc", "grep", "egrep", "fgrep", "pwd", "stat", "du", "which", "type", "uname",
    "whoami", "id", "cut", "tr", "cmp", "basename", "dirname", "realpath", "readlink", "nl", "tac", "rev",
    "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum", "comm",
    "paste", "join", "expand", "unexpand", "fold", "nproc", "arch", "tty", "groups", "logname", "od", "fmt",
    "factor", "numfmt", "pathchk", "uptime", "seq",
))  # fmt: skip
_TEXT_OPERANDS = frozenset((
    "which", "type", "pwd", "uname", "whoami", "id", "groups", "logname", "arch", "nproc", "tty", "uptime",
    "tr", "basename", "dirname", "factor", "numfmt", "free", "date", "seq",
))  # fmt: skip
_SHOWS_CONTENT = frozenset((
    "cat", "head", "tail", "grep", "egrep", "fgrep", "rg", "nl", "tac", "rev", "cut", "sort", "uniq", "diff",
    "jq", "sed", "awk", "cmp", "comm", "paste", "join", "expand", "unexpand", "fold", "fmt",
    "od", "xxd", "hexdump", "column", "file",
))  # fmt: skip
_STARTS_HERE = frozenset(("ls", "find", "tree", "du", "rg", "grep", "egrep", "fgrep"))
_LEADING = {"grep": 1, "egrep": 1, "fgrep": 1, "rg": 1, "jq": 1, "sed": 1, "awk": 1}
_INSTEAD = frozenset(("-e", "--regexp", "-f", "--file", "--files", "--type-list", "--expression"))
"""Options that replace a leading pattern or script. They apply to every program with such an operand, except
`jq`.
"""
_MOST_OPERANDS = {"uniq": 1, "xxd": 1, "lsblk": 0}
_EXIT_STATUS = frozenset(("jq",))
"""Programs in which `-e` has another meaning."""


def _program(name: str, options: Mapping[str, Kind]) -> Program:
    return Program(
        options,
        leading=_LEADING.get(name, 0),
        instead=frozenset() if name in _EXIT_STATUS else _INSTEAD,
        most_operands=_MOST_OPERANDS.get(name),
        has_text_operands=name in _TEXT_OPERANDS,
        shows_content=name in _SHOWS_CONTENT,
        starts_here=name in _STARTS_HERE,
        is_pure=name in _PURE,
        is_single_dash=name in _SINGLE_DASH,
    )


OPTION_WORDS: Mapping[str, str] = {**_OPTIONS, **_SUBCOMMANDS, **_SINGLE_DASH}
"""The rows of the tables as text."""
SUBCOMMANDS: Mapping[str, Program] = {
    name: Program(table(options), has_text_operands=True, starts_here=name == "npm ls")
    for name, options in _SUBCOMMANDS.items()
}
"""The read-only subcommands of programs that do much more than read."""
PROGRAMS: Mapping[str, Program] = {
    name: _program(name, single_dash_table(words) if name in _SINGLE_DASH else table(words))
    for name, words in OPTION_WORDS.items()
    if name not in _SUBCOMMANDS
}
