"""Lines that contain secrets, which are composed at run time so that no scanner finds a key in this file."""

import base64
import random
import string
from dataclasses import dataclass

_DICE = random.Random(7)
_BASE62 = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


def drawn(size: int, alphabet: str = _BASE62) -> str:
    """Return random characters that occur nowhere in this repository."""
    return "".join(_DICE.choice(alphabet) for _ in range(size))


@dataclass(frozen=True, slots=True)
class Sample:
    """A line of text and the part of the line that is a secret."""

    name: str
    line: str
    secret: str


def key(name: str, *parts: str, around: str = "the key is {} and more") -> Sample:
    secret = "".join(parts)
    return Sample(name, around.format(secret), secret)


def _jwt() -> str:
    pieces = (f'{{"alg":"HS256","n":"{drawn(6)}"}}', f'{{"sub":"{drawn(20)}"}}')
    return ".".join(base64.urlsafe_b64encode(one.encode()).decode().rstrip("=") for one in pieces)


_URL64 = _BASE62 + "_"
FORMATS = (
    key("OpenAI old", "sk-", drawn(20), "T3Blbk", drawn(22)),
    key("OpenAI project", "sk-", "proj-", drawn(70), "-", drawn(40), "_", drawn(30)),
    key("OpenAI service account", "sk-", "svcacct-", drawn(60)),
    key("OpenAI admin", "sk-", "admin-", drawn(60)),
    key("Anthropic", "sk-", "ant-api03-", drawn(40), "-", drawn(50), "AA"),
    key("Anthropic OAuth", "sk-", "ant-oat01-", drawn(60)),
    key("OpenRouter", "sk-", "or-v1-", drawn(64, _HEX)),
    key("DeepSeek", "sk-", drawn(32, _HEX)),
    key("Langfuse", "sk-", "lf-", drawn(8, _HEX), "-1234-4321-9876-", drawn(12, _HEX)),
    key("LangSmith", "lsv2_", "pt_", drawn(32, _HEX), "_", drawn(10, _HEX)),
    key("Google", "AI", "za", drawn(35, _URL64)),
    key("Google OAuth", "ya", "29.", drawn(60)),
    key("Google client", "GOC", "SPX-", drawn(28)),
    key("AWS id", "AK", "IA", drawn(16, string.ascii_uppercase + "234567")),
    key("AWS temporary id", "AS", "IA", drawn(16, string.ascii_uppercase + "234567")),
    key("GitHub personal", "gh", "p_", drawn(36)),
    key("GitHub OAuth", "gh", "o_", drawn(36)),
    key("GitHub user", "gh", "u_", drawn(36)),
    key("GitHub server", "gh", "s_", drawn(36)),
    key("GitHub refresh", "gh", "r_", drawn(36)),
    key("GitHub fine-grained", "github", "_pat_", drawn(22), "_", drawn(59)),
    key("GitLab", "gl", "pat-", drawn(20)),
    key("GitLab deploy", "gl", "dt-", drawn(20)),
    key("Slack bot", "xo", "xb-", drawn(12, string.digits), "-", drawn(13, string.digits), "-", drawn(24)),
    key("Slack user", "xo", "xp-", drawn(12, string.digits), "-", drawn(32, _HEX)),
    key("Slack app", "xa", "pp-1-A", drawn(10), "-", drawn(13, string.digits), "-", drawn(64, _HEX)),
    key(
        "Slack webhook",
        "T",
        drawn(9),
        "/B",
        drawn(9),
        "/",
        drawn(24),
        around="https://hooks.slack.com/services/{} x",
    ),
    key("Discord webhook", drawn(68), around="https://discord.com/api/webhooks/123456789012345678/{}"),
    key("Stripe live", "sk_", "live_", drawn(24)),
    key("Stripe test", "sk_", "test_", drawn(24)),
    key("Stripe restricted", "rk_", "live_", drawn(24)),
    key("Stripe webhook", "wh", "sec_", drawn(32)),
    key("Twilio", "S", "K", drawn(32, _HEX)),
    key("SendGrid", "S", "G.", drawn(22), ".", drawn(43)),
    key("npm", "np", "m_", drawn(36)),
    key("PyPI", "py", "pi-AgEIcHlwaS5vcmc", drawn(100)),
    key("HuggingFace", "h", "f_", drawn(34, string.ascii_letters)),
    key("Replicate", "r", "8_", drawn(37)),
    key("Groq", "gs", "k_", drawn(52)),
    key("xAI", "xa", "i-", drawn(80)),
    key("Perplexity", "pp", "lx-", drawn(48)),
    key("NVIDIA", "nv", "api-", drawn(64)),
    key("Cerebras", "cs", "k-", drawn(48)),
    key("Tavily", "tv", "ly-dev-", drawn(32)),
    key("Pinecone", "pc", "sk_", drawn(6), "_", drawn(60)),
    key("DigitalOcean", "do", "p_v1_", drawn(64, _HEX)),
    key("Databricks", "da", "pi", drawn(32, _HEX)),
    key("Discord bot", "M", drawn(25), ".G", drawn(5), ".", drawn(38)),
    key("Telegram bot", "110", "2015437", ":", "A", drawn(34)),
    key("Mailgun", "ke", "y-", drawn(32, _HEX)),
    key("Shopify", "sh", "pat_", drawn(32, _HEX)),
    key("Square", "sq", "0atp-", drawn(22)),
    key("Vault", "hv", "s.", drawn(90)),
    key("Terraform", drawn(14), ".atlas", "v1.", drawn(67)),
    key("age", "AGE-SECRET", "-KEY-1", drawn(58, string.ascii_uppercase + string.digits)),
    key("Docker", "dckr", "_pat_", drawn(27)),
    key("Linear", "lin", "_api_", drawn(40)),
    key("Notion", "nt", "n_", drawn(46)),
    key("Notion old", "sec", "ret_", drawn(43)),
    key("Figma", "fi", "gd_", drawn(40)),
    key("Sentry", "sntry", "s_", drawn(80)),
    key("Grafana", "gl", "sa_", drawn(32), "_", drawn(8, _HEX)),
    key("New Relic", "NR", "AK-", drawn(27, string.ascii_uppercase + string.digits)),
    key("Doppler", "dp", ".st.dev.", drawn(43)),
    key("PlanetScale", "pscale", "_tkn_", drawn(43)),
    key("Fly", "fo", "1_", drawn(43)),
    key("Supabase", "sb", "p_", drawn(40, _HEX)),
    key("Postman", "PM", "AK-", drawn(24, _HEX), "-", drawn(34, _HEX)),
    key("Tailscale", "ts", "key-auth-", drawn(12), "-", drawn(32)),
    key("Azure client", drawn(3), "8Q", "~", drawn(34)),
    key("JSON web token", _jwt(), ".", drawn(43)),
)

_USER_AND_PASSWORD = base64.b64encode(f"me:{drawn(9)}".encode()).decode()
PLACES = (
    key("bearer", drawn(24), around="curl -H 'Authorization: Bearer {}' https://x.test"),
    key("bearer in JSON", drawn(40, _HEX), around='{{"Authorization": "Bearer {}"}}'),
    key("bearer in Python", drawn(30), around='headers = {{"Authorization": "Bearer {}"}}'),
    key("bare bearer", drawn(30), around="< bearer {}"),
    key("basic", _USER_AND_PASSWORD, around="> Authorization: Basic {}"),
    key("token scheme", drawn(30), around="Authorization: Token {}"),
    key("no scheme", drawn(30), around="authorization: {}"),
    key("x-api-key", drawn(20), around="x-api-key: {}"),
    key("api-key in curl", drawn(20), around='curl -H "api-key: {}" https://x.test'),
    key("set cookie", drawn(26), around="Set-Cookie: sessionid={}; Path=/; HttpOnly"),
    key("cookie", drawn(26), around="Cookie: theme=dark; PHPSESSID={}"),
    key("database URL", drawn(6), around="postgresql://app:{}@db.test:5432/shop"),
    key("URL with signs", "p@s:" + drawn(5), around="DATABASE_URL=mysql://root:{}@127.0.0.1/shop"),
    key("redis URL", drawn(12), around="redis://:{}@cache.test:6379/0"),
    key("token in a clone URL", drawn(32), around="git clone https://{}@git.test/a/b.git"),
    key("query", drawn(20), around="GET /v1/items?page=2&access_token={}&limit=5"),
    key("shared access", drawn(43) + "%3D", around="https://a.blob.test/c?sv=2024&sr=b&sig={}"),
    key("export", drawn(12), around="export DB_PASSWORD={}"),
    key("a word as password", "correct" + "horsebattery", around="DB_PASSWORD={}"),
    key("quoted words", "correct horse" + " battery", around='DB_PASSWORD="{}"'),
    key("dotenv", drawn(24), around="OPENAI_API_KEY={}"),
    key("dotenv with words", "top-drawer-" + "value-42", around="CLIENT_SECRET={}"),
    key("other key", drawn(32), around="ACME_KEY={}"),
    key("AWS secret", drawn(38) + "/+", around="aws_secret_access_key = {}"),
    key("AWS session", drawn(100) + "==", around="AWS_SESSION_TOKEN={}"),
    key("Azure storage", drawn(86) + "==", around="AccountName=x;AccountKey={};EndpointSuffix=core.test"),
    key("ADO", drawn(6) + "!9a", around="Server=db;User Id=sa;Password={};Encrypt=True"),
    key("JSON", drawn(16), around='  "password": "{}",'),
    key("JSON in JSON", drawn(16), around='{{"body": "{{\\"client_secret\\": \\"{}\\"}}"}}'),
    key("YAML", drawn(8) + "#7", around="    password: {}"),
    key("YAML word", "hunter" + "2222", around="  password: {}"),
    key("YAML quoted", drawn(12), around="  token: '{}'"),
    key("properties", drawn(12), around="spring.datasource.password={}"),
    key("Python", drawn(20), around='API_TOKEN = "{}"'),
    key("Python annotated", drawn(20), around='api_key: str = "{}"'),
    key("keyword argument", drawn(12) + "4x", around='connect(host="db", password="{}")'),
    key("Ruby", drawn(20), around="  secret_key_base => '{}'".replace("_base", "")),
    key("Go", drawn(20), around='clientSecret := "{}"'),
    key("XML", drawn(10) + "1a", around="<server><password>{}</password></server>"),
    key("npmrc", drawn(36), around="//registry.npmjs.org/:_authToken={}"),
    key("npmrc auth", base64.b64encode(b"me:" + drawn(12).encode()).decode(), around="_auth={}"),
    key("docker config", base64.b64encode(b"me:" + drawn(12).encode()).decode(), around='{{"auth": "{}"}}'),
    key("flag", drawn(14) + "5", around="mysqldump --password {} shop"),
    key("flag with sign", drawn(20), around="deploy --api-token={} --force"),
    key("curl user", drawn(10) + "7z", around="curl -u admin:{} https://x.test"),
    key("short password", "hunter" + "2", around="    password: {}"),
    key("compose", drawn(12), around="      - POSTGRES_PASSWORD={}"),
    key("Dockerfile", drawn(20), around="ENV NPM_TOKEN={}"),
    key("numbered file", drawn(20), around="    12\tSTRIPE_SECRET={}"),
    key("diff", drawn(20), around="+SESSION_SECRET={}"),
)
