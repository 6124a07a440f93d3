"""Which files hold secrets, told by their names: what may not be read unasked, and what no store keeps."""

import re
from posixpath import basename

_NAMES = frozenset({
    ".dockercfg", ".git-credentials", ".htpasswd", ".mylogin.cnf", ".netrc", "_netrc", ".pgpass",
    ".pypirc", ".s3cfg", ".vault-token", "application_default_credentials.json", "client_secret.json",
    "credentials.json", "credentials.toml", "master.key", "pgpass.conf",
    "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", "service-account.json",
    "service_account.json",
})  # fmt: skip
_NEVER_PUBLIC = re.compile(
    r"\.env(?:\..+|rc)?|.+\.env|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?(?:[._-].+)?"
    r"|.+\.(?:pem|key|ppk|p12|pfx|p8|jks|keystore|kdbx|agekey|asc\.key|ovpn|tfvars)"
)
_IN_FOLDERS = re.compile(
    r"(?:^|/)(?:\.aws/(?:credentials|config)|\.docker/config\.json|\.kube/config|\.config/gh/hosts\.yml"
    r"|\.config/git/credentials|\.config/gcloud/.+\.(?:json|db)|\.azure/.+\.json|\.cargo/credentials"
    r"|\.gem/credentials|\.terraform\.d/credentials\.tfrc\.json|\.password-store/.+|\.local/share/keyrings/.+"
    r"|\.gnupg/(?:private-keys-v1\.d/.+|secring\.gpg)|\.m2/settings(?:-security)?\.xml"
    r"|\.ssh/(?!known_hosts|config$|authorized_keys).+|/?proc/[^/]+/environ)$"
)
_TEMPLATE = frozenset({"example", "sample", "template", "tmpl", "dist", "schema", "defaults", "pub", "md"})


def is_secret_file(path: str) -> bool:
    """Tell by its path, absolute or not, whether a file holds secrets; templates and public keys do not.

    Cases count for nothing, as on some disks they do not.
    """
    lowered = path.lower()
    name = basename(lowered)
    if _TEMPLATE & set(name.split(".")):
        return False
    return (
        name in _NAMES or _NEVER_PUBLIC.fullmatch(name) is not None or _IN_FOLDERS.search(lowered) is not None
    )
