"""Files that exist on many machines: credentials in a home, and files whose change runs code later."""

_OF_A_HOME = """
.ssh/id_rsa .ssh/id_ed25519 .ssh/work_key .gnupg/private-keys-v1.d/A.key .gnupg/secring.gpg .gnupg/pubring.kbx
.aws/credentials .aws/config .aws/sso/cache/a.json .aws/cli/cache/a.json
.azure/accessTokens.json .azure/msal_token_cache.json .azure/azureProfile.json
.config/gcloud/credentials.db .config/gcloud/access_tokens.db .config/gcloud/legacy_credentials/me/adc.json
.config/gcloud/application_default_credentials.json
.kube/config .kube/cache/token .docker/config.json .config/containers/auth.json .dockercfg
.npmrc .yarnrc .yarnrc.yml .pypirc .config/pypoetry/auth.toml .config/pip/pip.conf .pip/pip.conf .condarc
.netrc .authinfo .git-credentials .config/git/credentials .config/gh/hosts.yml .config/hub/token
.config/glab-cli/config.yml .cargo/credentials .cargo/credentials.toml .gem/credentials .bundle/config
.composer/auth.json .config/composer/auth.json .m2/settings.xml .gradle/gradle.properties
.nuget/NuGet/NuGet.Config .sbt/.credentials .hex/hex.config
.terraform.d/credentials.tfrc.json .terraformrc .vault-token .pulumi/credentials.json
.pgpass .pg_service.conf .my.cnf .mylogin.cnf .snowsql/config .snowflake/connections.toml .dbt/profiles.yml
.s3cfg .boto .config/rclone/rclone.conf .config/doctl/config.yaml .config/hcloud/cli.toml .fly/config.yml
.config/heroku/token .config/netlify/config.json .local/share/com.vercel.cli/auth.json
.config/stripe/config.toml .config/ngrok/ngrok.yml .config/configstore/firebase-tools.json .databrickscfg
.kaggle/kaggle.json .cache/huggingface/token .huggingface/token .oci/config .aliyun/config.json
.mozilla/firefox/x.default/logins.json .mozilla/firefox/x.default/cookies.sqlite
.config/google-chrome/Default/Cookies .config/chromium/Default/Cookies .config/BraveSoftware/b/Cookies
.config/microsoft-edge/Default/Cookies .thunderbird/x/logins.json
.local/share/keyrings/login.keyring .local/share/kwalletd/kdewallet.kwl .password-store/a.gpg
.config/op/config .config/keepassxc/keepassxc.ini .config/sops/age/keys.txt .pki/nssdb/key4.db
.bash_history .zsh_history .python_history .node_repl_history .psql_history .mysql_history .sqlite_history
.rediscli_history .lesshst .viminfo .local/share/fish/fish_history .mongosh/mongosh_repl_history
.claude.json .claude/.credentials.json .codex/auth.json .gemini/oauth_creds.json .qwen/oauth_creds.json
.config/github-copilot/hosts.json .config/github-copilot/apps.json .local/share/opencode/auth.json
.config/goose/secrets.yaml .continue/config.json .aider.conf.yml
.msmtprc .mbsyncrc .fetchmailrc .smbcredentials .subversion/auth/svn.simple/a .Xauthority .vnc/passwd
.config/filezilla/sitemanager.xml .config/solana/id.json .bitcoin/wallet.dat .electrum/wallets/default
.env server.pem
"""

_RUN_LATER = """
.git/hooks/pre-commit .git/config .hg/hgrc .gitmodules .gitconfig .githooks/pre-push .husky/pre-commit
.pre-commit-config.yaml lefthook.yml .vscode/tasks.json .idea/workspace.xml .zed/tasks.json
.devcontainer/devcontainer.json .github/workflows/ci.yml .github/actions/a/action.yml .gitlab-ci.yml
.circleci/config.yml Jenkinsfile azure-pipelines.yml .cargo/config.toml .cargo/config .npmrc .yarnrc.yml
.yarn/releases/yarn.cjs .pnpmfile.cjs .env .env.local .envrc mise.toml .bashrc .zshrc .profile .vimrc .exrc
.dir-locals.el sitecustomize.py .Rprofile .gdbinit .psqlrc .mvn/extensions.xml
gradle/wrapper/gradle-wrapper.properties .venv/bin/activate .venv/lib/a.py node_modules/.bin/tsc
AGENTS.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md .cursorrules .windsurfrules .cursor/rules/a.mdc
.github/copilot-instructions.md .github/instructions/a.md .github/prompts/a.md .clinerules
.claude/settings.json .codex/config.toml .gemini/settings.json .mcp.json .sandbur/config.toml .agents/a.md
.roo/a .kiro/a
opencode.json .goosehints .junie/guidelines.md .bundle/config .ripgreprc
"""
OF_A_HOME, RUN_LATER = _OF_A_HOME.split(), _RUN_LATER.split()
