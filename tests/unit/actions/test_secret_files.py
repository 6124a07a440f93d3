import pytest
from support.samples.guarded_files import OF_A_HOME

from sandbur.actions.masking.masker import TextMasker
from sandbur.actions.masking.secret_contents import drop_secret_contents
from sandbur.actions.workspace.protected.secret_files import SECRET_FILES, SECRET_FOLDERS, is_secret_file
from sandbur.state.calls import FileChange


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "/srv/app/.env.production",
        "deploy/.ENV",
        ".envrc",
        "config/prod.env",
        "certs/server.key",
        "server.pem",
        "/home/me/.ssh/id_ed25519",
        "/home/me/.ssh/work",
        "id_rsa.old",
        "/home/me/.aws/credentials",
        ".aws/config",
        ".netrc",
        ".git-credentials",
        "/home/me/.docker/config.json",
        "/home/me/.kube/config",
        "/home/me/.config/gh/hosts.yml",
        "android/release.jks",
        "infra/prod.tfvars",
        "/proc/self/environ",
        ".pypirc",
        "config/master.key",
        "secrets.yaml",
    ],
)
def test_a_file_of_secrets_is_known_by_its_name(path: str):
    assert is_secret_file(path)


@pytest.mark.parametrize(
    "path",
    [
        ".env.example",
        ".env.sample",
        ".env.local.template",
        "environment.py",
        "env",
        "src/keys.py",
        "key",
        "monkey",
        "id_rsa.pub",
        "/home/me/.ssh/id_ed25519.pub",
        "/home/me/.ssh/config",
        "/home/me/.ssh/known_hosts",
        "config/kube/config",
        "docker/config.json",
        "/proc/self/status",
        "tokens.py",
        "pem.md",
        "secrets.py",
        "package.json",
        "",
        ".",
        "/",
    ],
)
def test_what_only_sounds_like_one_is_none(path: str):
    assert not is_secret_file(path)


@pytest.mark.parametrize("name", [*OF_A_HOME, *SECRET_FILES, *(f"{one}/inside" for one in SECRET_FOLDERS)])
async def test_the_former_content_of_no_listed_file_is_kept(name: str):
    change = FileChange(path=f"/home/me/{name}", before="a", before_mode=0o600, after="b")
    kept, note = await drop_secret_contents([change], {"a": b"plain words"}, TextMasker())
    assert (dict(kept), "was not stored" in note) == ({}, True)
