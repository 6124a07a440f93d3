"""Lines that contain secrets, which are composed at run time so that no scanner finds a key in this file."""

import base64
import random
import string
from dataclasses import dataclass

_DICE = random.Random(7)
_BASE62 = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


def draw_random(size: int, alphabet: str = _BASE62) -> str:
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
    pieces = (f'{{"alg":"HS256","n":"{draw_random(6)}"}}', f'{{"sub":"{draw_random(20)}"}}')
    return ".".join(base64.urlsafe_b64encode(one.encode()).decode().rstrip("=") for one in pieces)


_URL64 = _BASE62 + "_"
FORMATS = (
    key("OpenAI old", "sk-", draw_random(20), "T3Blbk", draw_random(22)),
    key("OpenAI project", "sk-", "proj-", draw_random(70), "-", draw_random(40), "_", draw_random(30)),
    key("OpenAI service account", "sk-", "svcacct-", draw_random(60)),
    key("OpenAI admin", "sk-", "admin-", draw_random(60)),
    key("Anthropic", "sk-", "ant-api03-", draw_random(40), "-", draw_random(50), "AA"),
    key("Anthropic OAuth", "sk-", "ant-oat01-", draw_random(60)),
    key("OpenRouter", "sk-", "or-v1-", draw_random(64, _HEX)),
    key("DeepSeek", "sk-", draw_random(32, _HEX)),
    key("Langfuse", "sk-", "lf-", draw_random(8, _HEX), "-1234-4321-9876-", draw_random(12, _HEX)),
    key("LangSmith", "lsv2_", "pt_", draw_random(32, _HEX), "_", draw_random(10, _HEX)),
    key("Google", "AI", "za", draw_random(35, _URL64)),
    key("Google OAuth", "ya", "29.", draw_random(60)),
    key("Google client", "GOC", "SPX-", draw_random(28)),
    key("AWS id", "AK", "IA", draw_random(16, string.ascii_uppercase + "234567")),
    key("AWS temporary id", "AS", "IA", draw_random(16, string.ascii_uppercase + "234567")),
    key("GitHub personal", "gh", "p_", draw_random(36)),
    key("GitHub OAuth", "gh", "o_", draw_random(36)),
    key("GitHub user", "gh", "u_", draw_random(36)),
    key("GitHub server", "gh", "s_", draw_random(36)),
    key("GitHub refresh", "gh", "r_", draw_random(36)),
    key("GitHub fine-grained", "github", "_pat_", draw_random(22), "_", draw_random(59)),
    key("GitLab", "gl", "pat-", draw_random(20)),
    key("GitLab deploy", "gl", "dt-", draw_random(20)),
    key(
        "Slack bot",
        "xo",
        "xb-",
        draw_random(12, string.digits),
        "-",
        draw_random(13, string.digits),
        "-",
        draw_random(24),
    ),
    key("Slack user", "xo", "xp-", draw_random(12, string.digits), "-", draw_random(32, _HEX)),
    key(
        "Slack app",
        "xa",
        "pp-1-A",
        draw_random(10),
        "-",
        draw_random(13, string.digits),
        "-",
        draw_random(64, _HEX),
    ),
    key(
        "Slack webhook",
        "T",
        draw_random(9),
        "/B",
        draw_random(9),
        "/",
        draw_random(24),
        around="https://hooks.slack.com/services/{} x",
    ),
    key("Discord webhook", draw_random(68), around="https://discord.com/api/webhooks/123456789012345678/{}"),
    key("Stripe live", "sk_", "live_", draw_random(24)),
    key("Stripe test", "sk_", "test_", draw_random(24)),
    key("Stripe restricted", "rk_", "live_", draw_random(24)),
    key("Stripe webhook", "wh", "sec_", draw_random(32)),
    key("Twilio", "S", "K", draw_random(32, _HEX)),
    key("SendGrid", "S", "G.", draw_random(22), ".", draw_random(43)),
    key("npm", "np", "m_", draw_random(36)),
    key("PyPI", "py", "pi-AgEIcHlwaS5vcmc", draw_random(100)),
    key("HuggingFace", "h", "f_", draw_random(34, string.ascii_letters)),
    key("Replicate", "r", "8_", draw_random(37)),
    key("Groq", "gs", "k_", draw_random(52)),
    key("xAI", "xa", "i-", draw_random(80)),
    key("Perplexity", "pp", "lx-", draw_random(48)),
    key("NVIDIA", "nv", "api-", draw_random(64)),
    key("Cerebras", "cs", "k-", draw_random(48)),
    key("Tavily", "tv", "ly-dev-", draw_random(32)),
    key("Pinecone", "pc", "sk_", draw_random(6), "_", draw_random(60)),
    key("DigitalOcean", "do", "p_v1_", draw_random(64, _HEX)),
    key("Databricks", "da", "pi", draw_random(32, _HEX)),
    key("Discord bot", "M", draw_random(25), ".G", draw_random(5), ".", draw_random(38)),
    key("Telegram bot", "110", "2015437", ":", "A", draw_random(34)),
    key("Mailgun", "ke", "y-", draw_random(32, _HEX)),
    key("Shopify", "sh", "pat_", draw_random(32, _HEX)),
    key("Square", "sq", "0atp-", draw_random(22)),
    key("Vault", "hv", "s.", draw_random(90)),
    key("Terraform", draw_random(14), ".atlas", "v1.", draw_random(67)),
    key("age", "AGE-SECRET", "-KEY-1", draw_random(58, string.ascii_uppercase + string.digits)),
    key("Docker", "dckr", "_pat_", draw_random(27)),
    key("Linear", "lin", "_api_", draw_random(40)),
    key("Notion", "nt", "n_", draw_random(46)),
    key("Notion old", "sec", "ret_", draw_random(43)),
    key("Figma", "fi", "gd_", draw_random(40)),
    key("Sentry", "sntry", "s_", draw_random(80)),
    key("Grafana", "gl", "sa_", draw_random(32), "_", draw_random(8, _HEX)),
    key("New Relic", "NR", "AK-", draw_random(27, string.ascii_uppercase + string.digits)),
    key("Doppler", "dp", ".st.dev.", draw_random(43)),
    key("PlanetScale", "pscale", "_tkn_", draw_random(43)),
    key("Fly", "fo", "1_", draw_random(43)),
    key("Supabase", "sb", "p_", draw_random(40, _HEX)),
    key("Postman", "PM", "AK-", draw_random(24, _HEX), "-", draw_random(34, _HEX)),
    key("Tailscale", "ts", "key-auth-", draw_random(12), "-", draw_random(32)),
    key("Azure client", draw_random(3), "8Q", "~", draw_random(34)),
    key("JSON web token", _jwt(), ".", draw_random(43)),
)

_USER_AND_PASSWORD = base64.b64encode(f"me:{draw_random(9)}".encode()).decode()
PLACES = (
    key("bearer", draw_random(24), around="curl -H 'Authorization: Bearer {}' https://x.test"),
    key("bearer in JSON", draw_random(40, _HEX), around='{{"Authorization": "Bearer {}"}}'),
    key("bearer in Python", draw_random(30), around='headers = {{"Authorization": "Bearer {}"}}'),
    key("bare bearer", draw_random(30), around="< bearer {}"),
    key("basic", _USER_AND_PASSWORD, around="> Authorization: Basic {}"),
    key("token scheme", draw_random(30), around="Authorization: Token {}"),
    key("no scheme", draw_random(30), around="authorization: {}"),
    key("x-api-key", draw_random(20), around="x-api-key: {}"),
    key("api-key in curl", draw_random(20), around='curl -H "api-key: {}" https://x.test'),
    key("set cookie", draw_random(26), around="Set-Cookie: sessionid={}; Path=/; HttpOnly"),
    key("cookie", draw_random(26), around="Cookie: theme=dark; PHPSESSID={}"),
    key("database URL", draw_random(6), around="postgresql://app:{}@db.test:5432/shop"),
    key("URL with signs", "p@s:" + draw_random(5), around="DATABASE_URL=mysql://root:{}@127.0.0.1/shop"),
    key("redis URL", draw_random(12), around="redis://:{}@cache.test:6379/0"),
    key("token in a clone URL", draw_random(32), around="git clone https://{}@git.test/a/b.git"),
    key("query", draw_random(20), around="GET /v1/items?page=2&access_token={}&limit=5"),
    key("shared access", draw_random(43) + "%3D", around="https://a.blob.test/c?sv=2024&sr=b&sig={}"),
    key("export", draw_random(12), around="export DB_PASSWORD={}"),
    key("a word as password", "correct" + "horsebattery", around="DB_PASSWORD={}"),
    key("quoted words", "correct horse" + " battery", around='DB_PASSWORD="{}"'),
    key("dotenv", draw_random(24), around="OPENAI_API_KEY={}"),
    key("dotenv with words", "top-drawer-" + "value-42", around="CLIENT_SECRET={}"),
    key("other key", draw_random(32), around="ACME_KEY={}"),
    key("AWS secret", draw_random(38) + "/+", around="aws_secret_access_key = {}"),
    key("AWS session", draw_random(100) + "==", around="AWS_SESSION_TOKEN={}"),
    key(
        "Azure storage", draw_random(86) + "==", around="AccountName=x;AccountKey={};EndpointSuffix=core.test"
    ),
    key("ADO", draw_random(6) + "!9a", around="Server=db;User Id=sa;Password={};Encrypt=True"),
    key("JSON", draw_random(16), around='  "password": "{}",'),
    key("JSON in JSON", draw_random(16), around='{{"body": "{{\\"client_secret\\": \\"{}\\"}}"}}'),
    key("YAML", draw_random(8) + "#7", around="    password: {}"),
    key("YAML word", "hunter" + "2222", around="  password: {}"),
    key("YAML quoted", draw_random(12), around="  token: '{}'"),
    key("properties", draw_random(12), around="spring.datasource.password={}"),
    key("Python", draw_random(20), around='API_TOKEN = "{}"'),
    key("Python annotated", draw_random(20), around='api_key: str = "{}"'),
    key("keyword argument", draw_random(12) + "4x", around='connect(host="db", password="{}")'),
    key("Ruby", draw_random(20), around="  secret_key_base => '{}'".replace("_base", "")),
    key("Go", draw_random(20), around='clientSecret := "{}"'),
    key("XML", draw_random(10) + "1a", around="<server><password>{}</password></server>"),
    key("npmrc", draw_random(36), around="//registry.npmjs.org/:_authToken={}"),
    key("npmrc auth", base64.b64encode(b"me:" + draw_random(12).encode()).decode(), around="_auth={}"),
    key(
        "docker config",
        base64.b64encode(b"me:" + draw_random(12).encode()).decode(),
        around='{{"auth": "{}"}}',
    ),
    key("flag", draw_random(14) + "5", around="mysqldump --password {} shop"),
    key("flag with sign", draw_random(20), around="deploy --api-token={} --force"),
    key("curl user", draw_random(10) + "7z", around="curl -u admin:{} https://x.test"),
    key("short password", "hunter" + "2", around="    password: {}"),
    key("compose", draw_random(12), around="      - POSTGRES_PASSWORD={}"),
    key("Dockerfile", draw_random(20), around="ENV NPM_TOKEN={}"),
    key("numbered file", draw_random(20), around="    12\tSTRIPE_SECRET={}"),
    key("diff", draw_random(20), around="+SESSION_SECRET={}"),
)
