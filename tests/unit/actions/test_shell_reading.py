"""What is proved to only read: many commands both ways, and none proved that might do something."""

import itertools
import subprocess
from pathlib import Path

import pytest
from support.row_by_row import for_each

from sandbur.actions.tools.shell.read_only import is_read_only
from sandbur.actions.tools.shell.tool import RunShellCommand

READS = """
ls   ls -la   ls -la src/ tests   ls *.py   ls ~/work   pwd   cat README.md   cat -n a.py b.py
head -20 a.txt   head -n -5 a.txt   tail -n 50 log.txt   tail -n+5 log.txt   tail -5 log.txt
wc -l src/*.py   grep -rn "def main" src   grep --include=*.py -r TODO .   egrep 'a|b' file
fgrep -c x file   rg TODO   rg -n --hidden "class .*Error" src   rg --files -g '*.toml'
find . -name '*.py'   find . -type f -size +10k -mtime -5   find src ! -name a -o -name b -print0
git status   git status --short --branch   git --no-pager log --oneline -5   git log -p -n 3 -- src/a.py
git log --since="2 weeks" --author=me   git diff   git diff --stat HEAD~1   git diff --cached -U3 a.py
git show HEAD:a.py   git show --name-only HEAD   git branch   git branch -a   git branch -vv
git branch --show-current   git rev-parse HEAD   git rev-parse --show-toplevel
git rev-parse --abbrev-ref HEAD   git ls-files   git ls-files --others --exclude-standard
git blame a.py   git blame -w a.py   git describe --tags --always   echo hello   echo "a > b; c"
echo -e 'a\\tb'   printf '%s\\n' one two   printf "%5.2f%%\\n" 3   stat -c %s file
file --mime-type a.bin   du -sh .   df -h   tree -L 2   tree -a -I node_modules   which python   type ls
uname -a   whoami   id -u   date   date +%F   date -u +%H:%M   date -d yesterday +%F
date --date=tomorrow   sort a.txt   sort -k2,2nr -t, a.csv   sort -u a b   uniq -c   uniq a.txt
cut -d: -f1 a.txt   tr a-z A-Z   diff a b   diff -u a b   diff -rq old new   cmp a b
basename /a/b.txt .txt   dirname /a/b   realpath .   readlink -f x   nl a.txt   tac a.txt   rev a.txt
md5sum a   sha256sum a b   jq .name package.json   jq -r '.a[] | .b' x.json   true   false
test -f a.txt   test 3 -lt 5   git diff HEAD~1 HEAD^   ls && pwd   ls || true   ls; pwd
cat a | grep b | sort | uniq -c | sort -rn | head -5   ls 2>/dev/null   ls >/dev/null 2>&1
grep -r x . 2>&1 | head   cat a |& wc -l   cd src && ls   cd src; cat a.py   git -C src status   cat < a.txt
git -C . --no-pager log --oneline   sed -n 1,20p a.txt   sed -n '/x/,$p' a.txt   sed -e 5q a.txt
sed 's/a/b/g' a.txt   sed -E 's|a+|b|' a.txt   awk '{print $1, NF}' a.txt   awk -F: 'NR==1{print $2}' a.txt
[ -f a.txt ] && cat a.txt   [ ! -e x ] || ls   command -v git   python3 --version   node -v   ps aux   ps -ef
git tag   git tag -l 'v*'   git tag --contains HEAD   git grep -n x   git ls-tree -r HEAD
git cat-file -p HEAD
git rev-list --count HEAD   git merge-base HEAD HEAD   git shortlog -sn HEAD   git remote -v   git stash list
git reflog   git worktree list   git branch --list 'a*'   git branch --contains HEAD   git show-ref --heads
git for-each-ref --format='%(refname)'   git count-objects -v   git check-ignore -v a   git symbolic-ref HEAD
od -c a.txt   xxd a.txt   column -t a.txt   comm a b   paste a b   seq 1 3   :   hostname   free -m
nproc   sha1sum a   sleep 1   (ls)   { ls; }   ! ls   if true; then ls; fi   for x in a; do ls; done
while false; do ls; done   ls {a,b}
"""

CHANGES = r"""
rm a   touch a   mkdir a   cp a b   mv a b   ln -s a b   chmod +x a   tee a   echo a > b
echo a >> b   echo a >| b   echo a &> b   cat < a > b   ls 2> errors   : > a   > a   cat a > /dev/sda
cat /dev/watchdog   cat //dev/watchdog   cat ../../dev/watchdog   cat /usr/../dev/watchdog
cat /d*v/watchdog   grep -f/dev/kmsg x   head -c1 /proc/kmsg   cat /sys/kernel/debug/x   ls &   ls & pwd
echo $(rm a)   echo `rm a`   echo "$(rm a)"   echo "`rm a`"   echo ${x:=$(rm a)}   cat <(rm a)
cat <<EOF   $X   $X a   X=1 ls   PATH=. ls   GIT_EXTERNAL_DIFF=./x git diff   x() { rm a; }; x   (rm a)
{ rm a; }   ! rm a   if true; then rm a; fi   for x in a; do rm a; done   while true; do rm a; done
[[ -v 'a[$(rm a)]' ]]   (( x = 1 ))   l? a   *   ./ls   /tmp/ls   bin/cat a   'l s'   sudo ls   env ls
command ls   exec ls   eval ls   . ./a   source a   xargs ls   time ls   nohup ls   bash -c ls   sh a.sh
python -c 1   tail -f log   tail -F log   tail -5f log   tail -qf log   tail --follow log
tail --follow=name log   tail --f log   rg --pre ./x a   rg --pre=./x a   rg --hostname-bin=./x a
rg -z a   rg x *   find . -delete   find . -exec rm {} ;   find . -exec rm {} +   find . -execdir rm a ;
find . -ok rm a ;   find . -okdir rm a ;   find . -fprint a   find . -fprint0 a   find . -fprintf a %p
find . -fls a   find *   find . -name *   git   git commit -m x   git push   git checkout a   git stash
git fetch   git -c core.fsmonitor=./x status   git --exec-path=. status
git log --output=a   git log --output a   git log --outp=a   git diff --output=a   git diff --ext-diff
git log --ext-diff   git show --textconv a   git diff -Oorder   git log --show-signature
git log --format=%G?   git log --pretty="%H %GS"   git blame --output=a b   git status *
git branch new   git branch -v new   git branch -d old   git branch -D old   git branch -m a b
git branch -f a b   git branch -u a   git branch -l new   git branch -- new   git branch -- -v
git branch --edit-description   git branch --set-upstream-to=a   git tag v1   git remote add a b
git config a b   git grep -O x   git gc   git rev-parse --parseopt   git describe --outp   printf -v x a
printf -v 'a[$(rm a)]' x   printf 'ab%n' 'a[$(rm a)]'   printf 'ab%5n' x   printf '%*d' 1 2
printf -- %n x   test -v 'a[$(rm a)]'   [ -v 'a[$(rm a)]' ]   test -R x   date 010203   date -s now
date --set now   date --set=now   date --se=now   date -us now   date -d now 010203   sort -o a b
sort -oa b   sort -uo a b   sort a -o a   sort --output=a b   sort --outp a b
sort --compress-program=./x a   sort -T /tmp a   sort *   uniq a b   uniq -c a b   uniq - b   uniq +1 b
uniq -- a b   uniq -- -c b   uniq *   tree -o a   tree -R -L 1   tree -H . -o a   file -C -m a
file --compile   df --sync   diff -l a b   diff --to-file=a b   jq -i . a   jq --in-place . a
sed -i s/a/b/ a   perl -e 1   less a   more a   man ls   top   watch ls   kill 1
hostname x   dd if=a of=b   curl http://x   wget x   make   npm test   yes   cd   cd -   cd -P x
export A=1   set -e
unset A   alias ls=rm   trap 'rm a' EXIT   read x   wait   ulimit -c 0   ls # remark   {ls,a}   ls "
ls '   ls $HOME   ls $'\x61'   cat < $X   cat <> a   sed -n 'w b' a   sed 's/a/b/e' a   sed 's/a/b/w c' a
sed -f a b   sed -n '1e rm a' b   sed '1r a' b   sed -n 1p --in-place a   sed -e 1p -i a   sed 's/a/b/;w c' a
sed 's/a/`rm a`/e' b   sed '1!w c' a   sed -s 1p a   sed 1pw a   sed   sed -n   awk 'BEGIN{system("rm a")}'
awk '{print > "b"}' a   awk '{print | "sh"}' a   awk '{"rm a" | getline}' a   awk -f a b   awk -i inplace 1 a
awk 'BEGIN{while((getline l < "/etc/passwd")>0)print l}'   awk '{print ENVIRON["X"]}' a   awk -v x=1 1 a
awk 'BEGIN{ARGV[1]="/etc/passwd"; ARGC=2} 1'   awk 'BEGIN{SYMTAB["AR" "GV"][1]="b"} 1' a   awk 1 ARGV=2
awk '@load "filefuncs"; 1' a   [ -v 'a[$(rm a)]' ]   [ -f a   command rm a   command -p ls   python3 -v
python3 -V -c 1   node --version -e 1   ps axe   ps -o environ   git tag -d v1   git tag -l -d v1
git tag -f v1
git tag -s v1   git stash   git stash drop   git stash list drop   git reflog expire   git reflog show expire
git remote add a b   git remote prune a   git worktree add a   git worktree prune   git cat-file --textconv a
git cat-file --filters a   git cat-file --batch   git grep --open-files-in-pager x   git grep -nO x
git grep -Oless x   git branch --list -D x   git symbolic-ref HEAD refs/heads/x   git symbolic-ref -d HEAD
git for-each-ref --format='%(signature)'   git for-each-ref --shell   git shortlog --output=a
git show --format='%(signature)'   git -C a -c x=y status   git -C   git --git-dir=a status
git --work-tree=/ status   git -C a commit -m x   xxd -r a b   xxd a b   free -s 1   cd a b
"""


def lines(text: str) -> list[str]:
    """Return the commands: lines, or parts of one with three spaces between them."""
    return text.strip().replace("   ", "\n").split("\n")


@for_each("command", lines(READS))
def test_a_pure_reader_is_proved(command: str):
    assert is_read_only(command)


@for_each("command", lines(CHANGES))
def test_whatever_might_do_something_is_not_proved(command: str):
    assert not is_read_only(command)


@pytest.mark.parametrize("joint", ["; ", " && ", " || ", " | ", " |& ", "\n"])
def test_one_unproved_command_spoils_the_line_wherever_it_stands(joint: str):
    for good, bad in zip(itertools.cycle(lines(READS)), lines(CHANGES), strict=False):
        assert not is_read_only(bad + joint + good)
        assert not is_read_only(good + joint + bad)


def test_proved_commands_stay_proved_together():
    everything = lines(READS)
    assert len(everything) + len(lines(CHANGES)) >= 240
    assert is_read_only("\n".join(everything))
    assert is_read_only(" && ".join(everything))


def test_every_piece_of_a_changing_command_that_is_proved_is_a_reader():
    """What is left of a command that is cut anywhere is proved only if its program is a reader."""
    for command in lines(CHANGES):
        for end in range(1, len(command)):
            piece = command[:end]
            if is_read_only(piece):
                first = piece.split()[0].strip("'\"\\")
                assert any(reader.startswith(first + " ") or reader == first for reader in lines(READS)), (
                    piece
                )


@pytest.mark.parametrize(
    "command", ["", " ", "\n", "ls" * 20_000, "ls\u2028rm a", "ls\u00a0-la", "ls\r", "ls \\"]
)
def test_strange_text_is_not_proved(command: str):
    assert not is_read_only(command)


def test_the_tool_tells_the_effect_of_the_very_call():
    tool = RunShellCommand()
    assert tool.effect == "effect"
    assert tool.effect_of(tool.parse('{"command": "git status"}')) == "read"
    assert tool.effect_of(tool.parse('{"command": "git commit"}')) == "effect"


@pytest.mark.slow
def test_the_proved_commands_really_change_nothing(tmp_path: Path):
    """Each runs where the names that it mentions are files; only what git notes for itself may differ."""
    for name in ("a", "b", "x", "a.txt", "b.py", "README.md", "log.txt", "package.json", "src/a.py"):
        tmp_path.joinpath(name).parent.mkdir(exist_ok=True)
        tmp_path.joinpath(name).write_text('{"name": 1}\n')
    git = "git init -q; git add .; git -c user.name=a -c user.email=a commit -qm x; cp a.txt b; ln -s a link"
    subprocess.run(["bash", "-c", git], cwd=tmp_path, check=True)
    before = contents(tmp_path)
    for command in lines(READS):
        words = ["timeout", "20", "bash", "-c", command]
        subprocess.run(words, cwd=tmp_path, capture_output=True, input=b"", check=False)
        assert contents(tmp_path) == before, command


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "index")
    return {str(path): path.read_bytes() for path in files}
