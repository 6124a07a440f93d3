"""Recognizes secret files by their path. They are not read without a question, are hidden in a sandbox, and
are not stored.

This is the only list of such files, and uses only the standard library: supervisors import it, too.
"""

import re
from posixpath import basename

SECRET_FOLDERS = (
    # keys and passwords
    ".ssh", ".gnupg", ".password-store", ".local/share/gopass", ".config/gopass", ".local/share/keyrings",
    ".local/share/kwalletd", ".kde/share/apps/kwallet", ".config/op", ".1password", ".config/1Password",
    ".config/Bitwarden", ".config/Bitwarden CLI", ".config/keepassxc", ".keepass", ".config/sops",
    ".config/age", ".step", ".pki/nssdb", ".putty", "Library/Keychains",
    # clouds and their tools
    ".aws", ".azure", ".config/gcloud", ".config/doctl", ".config/hcloud",
    ".config/linode-cli", ".config/scw", ".config/flyctl", ".fly", ".bluemix", ".oci", ".aliyun", ".tccli",
    ".config/ibmcloud", ".config/openstack", ".config/rclone", ".mc", ".config/heroku", ".config/netlify",
    ".netlify", ".vercel", ".local/share/com.vercel.cli", ".config/stripe", ".config/ngrok", ".ngrok2",
    ".cloudflared", ".wrangler", ".config/.wrangler", ".railway", ".config/railway", ".supabase",
    ".config/configstore", ".config/firebase", ".config/sentry", ".config/turso", ".config/planetscale",
    # containers and clusters
    ".kube", ".docker", ".config/containers", ".config/helm", ".helm", ".minikube/certs",
    ".config/k9s/clusters", ".talos", ".rancher",
    # forges
    ".config/gh", ".config/hub", ".config/glab-cli", ".config/tea", ".config/git/credential",
    ".cache/git/credential", ".subversion/auth",
    # browsers, mail and chats
    ".mozilla", ".config/mozilla", ".librewolf", ".waterfox", ".thunderbird", ".config/google-chrome",
    ".config/google-chrome-beta", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge",
    ".config/vivaldi", ".config/opera", ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome",
    "snap/firefox/common/.mozilla", "snap/chromium/common/chromium",
    "Library/Application Support/Firefox", "Library/Application Support/Google/Chrome",
    "Library/Application Support/BraveSoftware", "Library/Application Support/Microsoft Edge",
    "Library/Application Support/Arc", "Library/Cookies", "Library/Safari", ".config/Signal", ".config/Slack",
    ".config/discord", ".config/Element", ".local/share/TelegramDesktop", ".config/evolution",
    ".local/share/evolution", ".weechat", ".irssi",
    # wallets
    ".bitcoin", ".ethereum", ".electrum", ".config/solana", ".near-credentials", ".config/Exodus",
    # data science
    ".kaggle", ".config/kaggle", ".snowflake", ".config/wandb",
)  # fmt: skip
"""Folders in which every file counts as a secret. They are in a home folder or at any other path."""

SECRET_FILES = (
    # languages and their packages
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".config/pypoetry/auth.toml", ".config/pip/pip.conf",
    ".pip/pip.conf", ".config/uv/credentials.toml", ".local/share/uv/credentials/credentials.toml",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".local/share/gem/credentials",
    ".bundle/config", ".composer/auth.json", ".config/composer/auth.json", ".m2/settings.xml",
    ".m2/settings-security.xml", ".gradle/gradle.properties", ".sbt/.credentials", ".ivy2/.credentials",
    ".nuget/NuGet/NuGet.Config", ".config/NuGet/NuGet.Config", ".hex/hex.config",
    ".pub-cache/credentials.json", ".config/dart/pub-credentials.json", ".condarc",
    ".cpanreporter/config.ini",
    # clouds and their tools
    ".boto", ".s3cfg", ".passwd-s3fs", ".terraformrc",
    ".terraform.d/credentials.tfrc.json", ".pulumi/credentials.json", ".vault-token", ".databrickscfg",
    ".vagrant.d/data/vagrant_login_token", ".edgerc", ".dockercfg", ".config/packer/credentials",
    # servers and networks
    ".netrc", "_netrc", ".authinfo", ".authinfo.gpg", ".git-credentials", ".config/git/credentials",
    ".smbcredentials", ".davfs2/secrets", ".msmtprc", ".mbsyncrc", ".fetchmailrc", ".offlineimaprc",
    ".muttrc", ".mutt/muttrc", ".config/mutt/muttrc", ".config/neomutt/neomuttrc", ".Xauthority",
    ".ICEauthority", ".config/pulse/cookie", ".rhosts", ".shosts", ".vnc/passwd",
    ".config/remmina/remmina.pref",
    ".config/filezilla/sitemanager.xml", ".config/filezilla/recentservers.xml", ".tsocks.conf",
    ".config/transmission/settings.json", ".cvspass", ".wakatime.cfg", ".wakatime.conf",
    # databases
    ".pgpass", "pgpass.conf", ".pg_service.conf", ".my.cnf", ".mylogin.cnf", ".snowsql/config",
    ".dbt/profiles.yml", ".mongorc.js", ".mongoshrc.js", ".config/redis/redis.conf", ".odbc.ini",
    # data science
    ".huggingface/token", ".cache/huggingface/token", ".cache/huggingface/stored_tokens",
    ".jupyter/jupyter_server_config.json", ".jupyter/jupyter_notebook_config.json",
    # agents and editors
    ".claude.json", ".claude/.credentials.json", ".config/claude/.credentials.json", ".codex/auth.json",
    ".gemini/oauth_creds.json", ".gemini/google_accounts.json", ".qwen/oauth_creds.json",
    ".config/github-copilot/hosts.json", ".config/github-copilot/apps.json", ".copilot/config.json",
    ".local/share/opencode/auth.json", ".config/opencode/auth.json", ".continue/config.json",
    ".continue/config.yaml", ".config/goose/secrets.yaml", ".aider.conf.yml", ".config/crush/crush.json",
    ".local/share/crush/crush.json", ".config/amp/secrets.json", ".local/share/amp/secrets.json",
    ".factory/auth.json", ".config/io.datasette.llm/keys.json", ".config/shell_gpt/.sgptrc",
    ".amazonq/auth.json",
    ".local/share/amazon-q/data.sqlite3", ".cursor/auth.json", ".config/cursor/auth.json",
    ".config/Cursor/User/globalStorage/state.vscdb", ".config/Code/User/globalStorage/state.vscdb",
    ".config/zed/credentials", ".openai/auth.json", ".grok/user-settings.json", ".kimi/config.toml",
    # shell and database histories
    ".bash_history", ".zsh_history", ".zhistory", ".histfile", ".sh_history", ".ash_history", ".ksh_history",
    ".history", ".local/share/fish/fish_history", ".config/fish/fish_history", ".local/share/xonsh/history",
    ".local/share/nushell/history.txt", ".config/nushell/history.txt", ".local/share/atuin/history.db",
    ".local/share/atuin/key", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history",
    ".mariadb_history", ".sqlite_history", ".rediscli_history", ".mongosh/mongosh_repl_history", ".dbshell",
    ".irb_history", ".pry_history", ".php_history", ".lesshst", ".viminfo",
    ".local/share/nvim/shada/main.shada",
    ".wget-hsts", ".ipython/profile_default/history.sqlite", ".config/powershell/history",
    ".local/share/powershell/PSReadLine/ConsoleHost_history.txt", ".duckdb_history",
)  # fmt: skip
"""Files with credentials, and histories of shells and databases, in a home folder or at any other path."""

SYSTEM_SECRETS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd",
    "/etc/ssl/private", "/etc/pki/tls/private", "/etc/krb5.keytab", "/etc/wireguard", "/etc/openvpn",
    "/etc/ipsec.secrets", "/etc/ppp/chap-secrets", "/etc/ppp/pap-secrets", "/etc/letsencrypt",
    "/etc/NetworkManager/system-connections", "/etc/mysql/debian.cnf", "/etc/rancher", "/etc/kubernetes/pki",
)  # fmt: skip
"""System files and folders with secrets."""

_NAMES = frozenset((
    ".htpasswd", "application_default_credentials.json", "client_secret.json", "credentials.json",
    "credentials.toml", "master.key", "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml",
    "service-account.json", "service_account.json",
))  # fmt: skip
_PATTERNS = re.compile(
    r"\.env(?:\..+|rc)?|.+\.env|(?:id_|ssh_host_)(?:rsa|dsa|ecdsa|ed25519)(?:_sk|_key)?(?:[._-].+)?"
    r"|.+\.(?:pem|key|ppk|p12|pfx|p8|jks|keystore|kdbx|agekey|asc\.key|ovpn|tfvars|keytab)"
)
_CREDENTIALS = re.compile(r"credentials(?:[._-].*)?|.*[._-]credentials(?:\..*)?")
_PROGRAM_TEXT = (".py", ".js", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".rb", ".php", ".cs", ".c", ".h")
_PUBLIC_OF_SSH = re.compile(r"known_hosts.*|config|authorized_keys.*")
_TEMPLATE = frozenset({"example", "sample", "template", "tmpl", "dist", "schema", "defaults", "pub", "md"})


def _group_by_last_part(paths: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the paths in lower case with a leading slash, grouped by their last part."""
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        lowered = "/" + path.lower().lstrip("/")
        found[basename(lowered)] = (*found.get(basename(lowered), ()), lowered)
    return found


_FILES, _FOLDERS = _group_by_last_part(SECRET_FILES), _group_by_last_part((*SECRET_FOLDERS, ".zsh_sessions"))
_SYSTEM = tuple(place.lower() for place in SYSTEM_SECRETS)


def is_secret_file(path: str) -> bool:
    """Return whether a file contains secrets, judged by its path. Templates and public keys contain none.

    Upper and lower case are equal, as on some file systems.
    """
    lowered = path.lower()
    name = basename(lowered)
    if not _TEMPLATE.isdisjoint(name.split(".")):
        return False
    if name in _NAMES or _PATTERNS.fullmatch(name) is not None or _is_named_credentials(name):
        return True
    whole = lowered if lowered.startswith("/") else f"/{lowered}"
    if whole.endswith(_FILES.get(name, ())):
        return True
    if whole.startswith(_ROOTS) and (_ENVIRONMENT.fullmatch(whole) or _is_of_system(whole)):
        return True
    return _is_in_secret_folder(whole)


_ROOTS = ("/etc/", "/proc/")
_ENVIRONMENT = re.compile(r"/proc/[^/]+/(?:task/[^/]+/)?environ")


def _is_of_system(path: str) -> bool:
    return path in _SYSTEM or any(path.startswith(f"{place}/") for place in _SYSTEM)


def _is_in_secret_folder(path: str) -> bool:
    """Return whether a path is inside a secret folder. The path is in lower case with a leading slash."""
    if _FOLDERS.keys().isdisjoint(path.split("/")[1:-1]):
        return False
    above = path.rpartition("/")[0]
    while above:
        if above.endswith(_FOLDERS.get(basename(above), ())):
            inside = path[len(above) + 1 :]
            return basename(above) != ".ssh" or _PUBLIC_OF_SSH.fullmatch(inside) is None
        above = above.rpartition("/")[0]
    return False


def _is_named_credentials(name: str) -> bool:
    return (
        "credentials" in name
        and _CREDENTIALS.fullmatch(name) is not None
        and not name.endswith(_PROGRAM_TEXT)
    )
