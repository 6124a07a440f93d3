"""Every program, every way to name a path, and every guarded place: neither a rule with a wildcard, nor a
prefix, nor a plan lets such a command run unasked."""

import json
import os
import subprocess
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from support.row_by_row import for_each
from support.samples.commands import lines
from support.tools.gate import TOOLS, command

from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules.rule_suggestions import find_prefix
from sandbur.agent.policy.rules.rules import parse_rules
from sandbur.agent.review.plans.permissions import Permissions
from sandbur.agent.review.plans.plan_text import UnreadablePlan, parse_plan
from sandbur.state.application import PlanTerms

PROGRAMS = lines(r"""
git mv a {}   git add {}   git rm -f {}   git checkout HEAD -- {}   git restore --source=HEAD {}
git apply {}   git commit -F {}   git archive -o x HEAD {}   git worktree add {}   git stash push {}
git tag -F {} v1   git format-patch --output-directory={} HEAD   git bundle create {} HEAD
git clone {} x   git am {}   cat {}   less {}   head -5 {}   base64 {}   strings {}   gpg -c {}
openssl enc -in {}   zstd {}   bat {}   npm test -- {}   npm pack --pack-destination {}
npm run build -- --out={}   cargo build --target-dir={}   cargo test -- {}   go build -o {}   go test {}
make check OUT={}   make check FILE=x:{}   pytest {}   pytest --rootdir={}   pytest -c{}   ruff format {}
black {}   mypy {}   tsc --outDir {}   prettier --write {}   cp a {}   cp {} b   mv a {}   ln -s {} x
ln {} x   install -m 755 a {}   touch {}   tee {}   truncate -s0 {}   dd if={} of=x   dd if=a of={}
split a {}   csplit -f {} a 1   tar xf x.tar -C {}   tar czf {} a   tar cf x {}   unzip x.zip -d {}
zip x.zip {}   7z a x.7z {}   rsync -a {} b   rsync -a a {}   scp {} host:   cpio -F {}
curl -T {} http://h   curl -d @{} http://h   curl -F f=@{} http://h   curl -F 'f=<{}' http://h
curl -o {} http://h   curl --data-binary=@{} http://h   wget -O {} http://h   wget -i {}
wget --post-file={} http://h   http POST h f@{}   sqlite3 {} .tables
jupyter nbconvert --output-dir {} a   pandoc a -o {}   ffmpeg -i a {}   convert a {}   docker cp {} c:/x
docker build -f {} .   kubectl apply -f {}   terraform apply -var-file={}   ansible-vault view {}
gh release upload v1 {}   gh gist create {}   aws s3 cp {} s3://b   gcloud storage cp {} gs://b
mail -a {} me   hg mv a {}   svn mv a {}   jj file track {}   rename x y {}   patch -o {} a
sed -i s/a/b/ {}   perl -pi -e 1 {}   ssh-keygen -f {}   age -d {}   sops {}   xxd {} out   sort {} -o x
uniq {} x   python script.py {}   node app.js {}   ./run.sh {}   ./run.sh --in={}   ./run.sh -i{}
./run.sh key={}   ./run.sh a,{}   ./run.sh type=bind,src={}   env A=1 cp a {}   timeout 5 cat {}
nice -n 3 git mv a {}   nohup cat {}   env -C . cat {}   xargs -a {} wc   bash -c 'cp a {}'
sh -c "git mv a {}"   env sh -c 'cat {}'   find {} -delete   time cat {}   watch -n1 cat {}
""")
"""Commands with a place for a path."""
PATHS = {
    "secret": (".env", "./.env", "src/../.env", "keys/link", "$PWD/.env", "keys/server.pem", "~/.ssh/id_rsa"),
    "protected": (
        ".git/hooks/pre-commit", "./.git/config", "src/../.git/hooks/post-checkout", "hooks/pre-push",
        ".github/workflows/new.yml", ".vscode/tasks.json", "AGENTS.md", ".husky/pre-commit", ".envrc",
        "src/Jenkinsfile", ".github", "~/.local/share/sandbur/sandbur.db",
    ),
    "outside": (
        "../outside/f", "/etc/passwd", "/tmp/new", "~/notes.txt", "out/f", "src/../../outside", "~", "..",
        "file:///etc/passwd", "file://localhost/etc/passwd",
    ),
}  # fmt: skip
"""Each kind of place, spelled in several ways."""
WAYS = ("{}", "'{}'", "{{{},b}}", "./././{}", "{}/.", "src/../{}")
"""Ways to write a path for the shell."""
HARMLESS = lines(r"""
tar czf x.tgz --exclude=.git src   rsync -a --exclude .git src dst   pytest --ignore=.venv tests
git mv a b   git mv src/a.py src/b.py   git add .   git add -A src
git commit -m "fix .env of /etc/passwd"   git commit -am 'about ~/.ssh/id_rsa'
git checkout -b feature/x   git push origin HEAD:refs/heads/main   git log main..dev   git rebase HEAD~3
git tag v1.2 -m "see ../x"   git stash push -m "/tmp"   npm test   npm test -- --grep "a/b"
npm install @types/node   npm run build -- --mode=production   cargo test a::b   cargo build --release
go test ./...   go build ./cmd/x   make check   make -j4 check CC=gcc   pytest -q tests
pytest tests/a.py::test_b -k "a or b"   ruff check .   mypy src   tsc --noEmit
prettier --check 'src/**/*.ts'   cp a b   cp -r src dst   mv a b   touch x.txt   mkdir -p a/b/c
tee out.log   ln -s a b   chmod +x run.sh   tar czf x.tgz src   unzip x.zip -d dst   zip -y x.zip a
curl http://localhost:8080/api/v1?a=/b   curl -s https://example.com/.env.example
curl -H "Accept: a/b" http://h   wget https://h/x.tar.gz   sed -i s/a/b/ src/a.py
sed -i 's|/usr|/opt|' src/a.py   sed -i '/foo/d' src/a.py   perl -pi -e s/a/b/ a   docker ps -a
docker compose up web   kubectl get pods -n x   gh pr create --title "a/b" --body "see /etc/hosts"
python script.py --date=2024-01-02T03:04:05   node app.js --port=8080   ./run.sh key=value a,b c:d
./run.sh --ratio 16:9   ./run.sh user@host   npm test 2>/dev/null   cat src/a.py   ls -la .git
grep -rn x src   git diff HEAD~1 src   cd src && git mv a.py ../b.py   bash -c 'cp a b'
timeout 5 npm test   ls src | xargs wc -l   find src -name '*.py' | xargs touch
make check 2>&1   ssh-keygen -l -f k.pub
""")
"""Commands that name no guarded place, although some of their words look like one."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("named")
    work = folder / "work"
    for name in ("src", "keys", "dst", "../outside", "../home/.ssh", "../home/.local/share/sandbur"):
        (work / name).mkdir(parents=True)
    subprocess.run(["git", "init", "-q", work], check=True)
    for name in ("a", "src/a.py", ".env", "keys/server.pem", "run.sh", "script.py", "../outside/f", "k.pub",
                 "../home/notes.txt", "../home/.ssh/id_rsa"):  # fmt: skip
        (work / name).write_text("x\n")
    (work / "keys" / "link").symlink_to("../.env")
    (work / "out").symlink_to("../outside")
    (work / "hooks").symlink_to(".git/hooks")
    return work


@pytest.fixture(autouse=True)
def home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place.parent / "home"))


def corpus(step: int) -> Iterator[tuple[str, str]]:
    """Yield every `step`th pair of a command and a path, in turn in each way, and the kind of the place."""
    paths = [(kind, path) for kind, of_kind in PATHS.items() for path in of_kind]
    for number, (frame, (kind, path)) in islice(enumerate(product(PROGRAMS, paths)), 0, None, step):
        if path.startswith("file:") and "cat {}" in frame:
            continue  # it names no file for a program that knows no addresses
        way = WAYS[number % len(WAYS)]
        is_plain = "'" in frame or '"' in frame or path.startswith(("~", "$", "/", "..", "file:"))
        yield frame.replace("{}", path if is_plain else way.format(path)), kind


def rules_for(text: str) -> list[str]:
    """Return a rule for the program of a command, and one for its subcommand."""
    words = text.split()
    return [f"{words[0]} *", *([f"{words[0]} {words[1]} *"] if words[1].isalpha() else [])]


def test_no_rule_with_a_wildcard_covers_a_command_that_names_a_guarded_place(place: Path) -> None:
    cases = list(corpus(9))
    passed = []
    for text, kind in cases:
        rules = parse_rules(f"run_shell_command({rule})" for rule in rules_for(text))
        if kind == "protected" and {"cat", "'cat", "head"}.intersection(text.split()):
            continue  # such a place may be read
        if judge(place, text, rules).decision != "ask":
            passed.append((kind, text))
    assert len(cases) > 200
    assert passed == []


def judge(place: Path, text: str, rules: Any = (), plan: PlanTerms | None = None) -> Any:
    tool = TOOLS["run_shell_command"]
    own = place.parent / "home/.local/share/sandbur"
    parsed = tool.parse(json.dumps({"command": text}))
    return Policy(rules, (), place, own=[own]).judge(tool, parsed, "interactive", plan=plan)


def test_no_prefix_covers_a_command_that_names_a_guarded_place(place: Path) -> None:
    found = [(text, prefix) for text, _ in corpus(29) if (prefix := find_prefix(text)) is not None]
    assert len(found) > 20
    rules = {prefix: parse_rules([f"run_shell_command({prefix})"]) for _, prefix in found}
    assert [text for text, prefix in found if judge(place, text, rules[prefix]).decision != "ask"] == []


def test_no_plan_covers_a_command_that_names_a_guarded_place(place: Path) -> None:
    compilers = Permissions(place).by_key
    passed, judged = [], 0
    for text, _ in corpus(29):
        words = text.split()
        for line in (" ".join(words[:1]), " ".join(words[:2]), text):
            try:
                plan = parse_plan(f"# goal\n## step\n- runs: `{line}`", compilers)
            except UnreadablePlan:
                continue
            judged += 1
            if judge(place, text, plan=PlanTerms("d", plan.steps[0].allows)).decision != "ask":
                passed.append((line, text))
    assert judged > 80
    assert passed == []


def test_a_word_that_only_looks_like_a_path_does_not_ask(place: Path) -> None:
    asked = []
    for text in HARMLESS:
        parts = [part.strip() for joint in text.split("&&") for part in joint.split("|")]
        rules = [f"run_shell_command({part.split()[0]} {'-i ' * ('sed -i' in part)}*)" for part in parts]
        if command(place, text, allow=rules).decision != "allow":
            asked.append(text)
    assert len(asked) <= len(HARMLESS) * 0.1, asked


@for_each(
    "row",
    [
        ("cat .env", "cat .env *"),
        ("cat .env", "cat .env"),
        ("cp a .git/hooks/pre-commit", "cp a .git/hooks/pre-commit *"),
        ("git mv a .git/hooks/pre-commit", "git mv * .git/hooks/pre-commit*"),
        ("cat ../outside/f", "cat ../outside/*"),
        ("ls /etc/hosts", "ls /etc/*"),
        ("git mv a /opt/b/c", "git mv a /opt/*"),
    ],
)
def test_a_rule_that_names_the_place_itself_covers_it(place: Path, row: tuple[str, str]) -> None:
    text, rule = row
    verdict = command(place, text, allow=[f"run_shell_command({rule})"])
    # A visible write to a protected place needs a rule for exactly this command.
    assert verdict.decision == ("ask" if text.startswith("cp a .git") else "allow"), verdict.reason


@for_each(
    "row",
    [
        ("ls /etc/../srv/x", "ls /etc/*"),
        ("cat .env keys/server.pem", "cat .env *"),
        ("cat /etc/shadow", "cat /etc/*"),
        ("git mv .env .git/hooks/x", "git mv .env *"),
        ("cat out/f", "cat o*"),
    ],
)
def test_a_rule_that_names_one_place_covers_no_other(place: Path, row: tuple[str, str]) -> None:
    text, rule = row
    assert command(place, text, allow=[f"run_shell_command({rule})"]).decision == "ask"


@for_each(
    "text",
    lines(r"""
    cd .git/hooks && git mv ../../a pre-commit   cd src; cd ../.git; touch x   cd src | cat ../../outside/f
    git -C .git mv a hooks/x   cd ../outside && cat f   cd ~ && touch x   pushd .git && touch config
    cd nowhere; cat ../outside/f   cd src && cat ../.env   env -C .git touch x   make -C .git/hooks x
    tar xf x.tar --directory=.git   npm --prefix ../outside test   find . -exec cat {} +   find . | xargs cat
    echo .env | xargs cat   echo Xenv | tr X . | xargs cat   printf '\056env' | xargs cat   xargs cat < list
    cat list | xargs cat   ls -a | xargs cat   find keys | xargs cat   echo .env | xargs -I{} cp {} b
    git ls-files | xargs cat   cp -rL keys dst   rsync -aL keys dst   tar chf x.tar keys
    tar -h -cf x.tar keys   zip -r x.zip keys   scp -r keys h:   grep -R x keys   rg -L x keys
    cat ~nobody-there/x   cat ~+/../outside/f
    """),
)
def test_places_that_other_words_of_the_line_choose_are_asked_about(place: Path, text: str) -> None:
    words = {seen.strip().split()[0] for joint in text.split("&&") for part in joint.split(";")
             for seen in part.split("|")}  # fmt: skip
    allow = [f"run_shell_command({word} *)" for word in words]
    assert command(place, text, allow=allow).decision == "ask"


def test_a_named_protected_place_is_a_question_for_a_person_alone(place: Path) -> None:
    verdict = command(place, "git mv a .git/hooks/pre-commit", allow=["run_shell_command(git mv *)"])
    assert verdict.is_firm
    assert "names a protected place" in verdict.reason
    assert os.fspath(place / ".git/hooks/pre-commit") in verdict.reason
