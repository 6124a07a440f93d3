"""Finds keys by their format: the prefixes and shapes of the keys of known providers."""

import re
from collections.abc import Iterator
from functools import cache

from .late_pattern import LatePattern
from .span import SecretSpan, find_matches_at

# The search looks for the separator ("-", "_" or ".") after a prefix, so the prefixes have no separator.
# Each body pattern ends with an open repetition, so a failed match costs no more than its minimum length.
_BY_PREFIX: tuple[tuple[str, str, str], ...] = (
    ("Anthropic key", "sk", r"-ant-[\w-]{16,}"),
    ("OpenRouter key", "sk", r"-or-[\w-]{16,}"),
    ("OpenAI key", "sk", r"-(?:proj|svcacct|admin|None|service)-[\w-]{16,}"),
    ("Langfuse key", "sk", r"-lf-[\w-]{16,}"),
    # DeepSeek, Kimi and many more
    ("API key", "sk", r"-(?:[A-Za-z]{2,8}-)?(?=[A-Za-z]{0,30}\d)[A-Za-z0-9]{16,}"),
    ("API key", "sk", r"-[A-Za-z0-9]{32,}"),
    ("LangSmith key", "lsv2", r"_(?:pt|sk)_[\w-]{16,}"),
    ("Stripe key", "sk rk", r"_(?:live|test)_[A-Za-z0-9]{10,}"),
    ("ElevenLabs key", "sk", r"_[0-9a-f]{32,}"),
    ("Stripe webhook secret", "whsec", r"_[A-Za-z0-9+/=]{20,}"),
    ("Groq key", "gsk", r"_[A-Za-z0-9]{16,}"),
    ("xAI key", "xai", r"-[A-Za-z0-9]{16,}"),
    ("Perplexity key", "pplx", r"-[A-Za-z0-9]{16,}"),
    ("HuggingFace token", "hf", r"_[A-Za-z0-9]{16,}"),
    ("HuggingFace token", "api", r"_org_[A-Za-z0-9]{20,}"),
    ("Replicate token", "r8", r"_[A-Za-z0-9]{20,}"),
    ("NVIDIA key", "nvapi", r"-[\w-]{20,}"),
    ("Cerebras key", "csk", r"-[A-Za-z0-9]{20,}"),
    ("Fireworks key", "fw", r"_[A-Za-z0-9]{20,}"),
    ("Voyage key", "pa", r"-[\w-]{40,}"),
    ("Tavily key", "tvly", r"-[\w-]{16,}"),
    ("Pinecone key", "pcsk", r"_[\w]{20,}"),
    ("GitHub token", "ghp gho ghu ghs ghr", r"_[A-Za-z0-9]{20,}"),
    ("GitHub token", "github", r"_pat_\w{20,}"),
    ("GitLab token", "glpat glrt", r"-[\w.-]{16,}"),
    ("GitLab token", "gldt glptt glcbt glsoat", r"-[\w-]{16,}"),
    ("Atlassian token", "ATATT3xFf", r"[\w-]{16,}={0,2}[\w-]*"),
    ("Slack token", "xoxb xoxp xoxa xoxr xoxs xoxo xoxc", r"-[\w-]{10,}"),
    ("Slack token", "xoxe", r"[.-][\w.-]{10,}"),
    ("Slack token", "xoxd", r"-[\w%+/-]{10,}"),
    ("Slack token", "xapp", r"-[\w-]{16,}"),
    ("SendGrid key", "SG", r"\.[\w-]{16,}\.[\w-]{16,}"),
    ("npm token", "npm", r"_[A-Za-z0-9]{20,}"),
    ("PyPI token", "pypi", r"-[\w-]{16,}"),
    ("RubyGems key", "rubygems", r"_[0-9a-f]{20,}"),
    ("DigitalOcean token", "dop doo dor", r"_v1_[0-9a-f]{20,}"),
    ("Mailgun key", "key", r"-[0-9a-zA-Z]{32,}"),
    ("Shopify token", "shpat shpca shppa", r"_[0-9a-fA-F]{20,}"),
    ("Shopify secret", "shpss", r"_[0-9a-fA-F]{20,}"),
    ("Square token", "sq0atp", r"-[\w-]{20,}"),
    ("Square secret", "sq0csp", r"-[\w-]{20,}"),
    ("Vault token", "hvs hvb hvr", r"\.[\w-]{20,}"),
    ("age key", "AGE", r"-SECRET-KEY-1[A-Z0-9]{30,}"),
    ("Docker token", "dckr", r"_(?:pat|oat)_[\w-]{16,}"),
    ("Linear key", "lin", r"_(?:api|oauth)_[A-Za-z0-9]{16,}"),
    ("Notion token", "ntn", r"_[A-Za-z0-9]{20,}"),
    ("Notion token", "secret", r"_[A-Za-z0-9]{40,}"),
    ("Figma token", "figd", r"_[\w-]{20,}"),
    ("Sentry token", "sntrys sntryu", r"_[\w+/=-]{20,}"),
    ("Grafana token", "glsa", r"_\w{20,}"),
    ("Grafana token", "glc", r"_[\w+/=]{20,}"),
    ("New Relic key", "NRAK", r"-[A-Z0-9]{20,}"),
    ("New Relic key", "NRII", r"-[\w-]{20,}"),
    ("Doppler token", "dp", r"\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{20,}"),
    ("PlanetScale token", "pscale", r"_(?:tkn|pw|oauth)_[\w.=-]{20,}"),
    ("Fly token", "fo1", r"_[\w-]{20,}"),
    ("Fly token", "fm1 fm1a fm1r fm2", r"_[\w+/=,-]{20,}"),
    ("Supabase key", "sbp", r"_[0-9a-zA-Z]{20,}"),
    ("Supabase key", "sb", r"_secret_[\w-]{16,}"),
    ("Postman key", "PMAK", r"-[0-9a-f]{20,}-[0-9a-f]{20,}"),
    ("Pulumi token", "pul", r"-[0-9a-f]{32,}"),
    ("Tailscale key", "tskey", r"-[\w-]{16,}"),
    ("Google OAuth token", "ya29", r"\.[\w-]{20,}"),
    ("Google client secret", "GOCSPX", r"-[\w-]{20,}"),
    ("HubSpot token", "pat", r"-(?:na|eu)\d-[0-9a-f-]{30,}"),
    ("CircleCI token", "CCIPAT", r"_[\w-]{20,}"),
    ("Netlify token", "nfp", r"_[A-Za-z0-9]{20,}"),
    ("Brevo key", "xkeysib", r"-[0-9a-f]{32,}[\w-]*"),
    ("Resend key", "re", r"_[A-Za-z0-9]{6,10}_[A-Za-z0-9]{16,}"),
    ("Buildkite token", "bkua", r"_[0-9a-f]{30,}"),
    ("Dynatrace token", "dt0c01", r"\.[A-Z0-9]{20,}\.[A-Z0-9]{40,}"),
    ("Heroku key", "HRKU", r"-[\w-]{30,}"),
    ("1Password token", "ops", r"_eyJ[\w-]{20,}"),
    ("Prefect key", "pnu", r"_[A-Za-z0-9]{30,}"),
    ("Neon key", "napi", r"_[A-Za-z0-9]{30,}"),
)
"""Each row is a label, the possible prefixes, and the pattern of the rest. The most specific format comes
first.
"""
# Each row is the literal to search for, the number of characters before the literal that belong to the
# secret, the pattern and the label.
_BY_LITERAL: tuple[tuple[bytes, int, str, str], ...] = (
    (b"eyJ", 0, r"(?<![\w-])eyJ[\w-]{8,}+\.eyJ[\w-]{6,}+(?:\.[\w-]*+)?", "JSON web token"),
    (b"dapi", 0, r"(?<!\w)dapi[0-9a-f]{32}(?:-\d)?", "Databricks token"),
    (b"8Q~", 3, r"\w{3}8Q~[\w~.-]{31,}", "Azure client secret"),
    (b".atlasv1.", 14, r"\w{14}\.atlasv1\.[\w-]{20,}", "Terraform token"),
    (b"EAAA", 0, r"(?<![\w+/=])EAAA[\w-]{56,}+(?![+/])", "Square token"),
    (b"LTAI", 0, r"(?<!\w)LTAI[A-Za-z0-9]{12,}", "Alibaba key id"),
    (b"hooks.slack.com/", 0, r"hooks\.slack\.com/[a-z]{4,12}/([\w/-]{20,})", "Slack webhook"),
    (b"/api/webhooks/", 0, r"/api/webhooks/\d{10,}/([\w-]{40,})", "Discord webhook"),
)
_AWS_OR_GOOGLE = LatePattern(
    rb"A(?<![A-Za-z0-9]A)(?:(?:[KSB]IA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])|Iza[\w-]{30,}|KCp[A-Za-z0-9]{60,})"
)
_TWILIO = LatePattern(rb"K(?<![A-Za-z0-9]SK)(?<=SK)[0-9a-f]{32}(?![A-Za-z0-9])")
_TELEGRAM = LatePattern(rb":(?<=[0-9]{6}:)(?=[\w-]{30})")
_TELEGRAM_WHOLE = LatePattern(rb"(?<!\w)[0-9]{6,12}:[\w-]{30,}")
_DISCORD = LatePattern(rb"-(?<=[a-z0-9]{23}-)(?=[a-z0-9-]{6}-[a-z0-9-]{27})")
_DISCORD_WHOLE = LatePattern(rb"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}")
_HEAD_BACKWARDS = LatePattern(rb"[A-Za-z0-9]+")
_DUMMY = LatePattern(rb"(?i)your[-_]|placeholder|\.\.\.")
_LONGEST_HEAD = 12

FOLD = bytes.maketrans(bytes(range(65, 91)) + b"_.", bytes(range(97, 123)) + b"--")
"""Maps capitals to small letters, and "_" and "." to "-". This makes the search about four times faster."""


@cache
def _compile(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode())


@cache
def _group_formats_by_head() -> dict[bytes, tuple[tuple[str, str], ...]]:
    """Return the labels and patterns of the formats, grouped by their prefix."""
    grouped: dict[bytes, tuple[tuple[str, str], ...]] = {}
    for label, heads, body in _BY_PREFIX:
        for head in heads.split():
            key = head.encode()
            grouped[key] = (*grouped.get(key, ()), (label, head + body))
    return grouped


@cache
def _compile_separator() -> re.Pattern[bytes]:
    """Return a pattern that finds, in folded bytes, a separator between a known prefix and a long body."""
    ends = sorted({head[-2:].lower() for head in _group_formats_by_head()})
    return re.compile(rb"-(?<=[a-z0-9]-)(?=[a-z0-9-]{12})(?<=(?:" + b"|".join(ends) + rb")-)")


def find_formatted_keys(data: bytes, folded: bytes) -> Iterator[SecretSpan]:
    """Yield each match of a known key format."""
    yield from _find_prefixed_keys(data, folded)
    for literal, before, pattern, label in _BY_LITERAL:
        if literal in data:
            compiled = _compile(pattern)
            for found in find_matches_at(compiled, data, literal, before=before):
                yield SecretSpan(*found.span(compiled.groups), label)
    for found in _AWS_OR_GOOGLE.finditer(data):
        yield SecretSpan(*found.span(), "Google key" if found[0].startswith(b"AIza") else "AWS key id")
    for found in _TWILIO.finditer(data):
        yield SecretSpan(found.start() - 1, found.end(), "Twilio key")
    yield from _find_bot_tokens(data, folded)


def _find_prefixed_keys(data: bytes, folded: bytes) -> Iterator[SecretSpan]:
    formats, done = _group_formats_by_head(), 0
    for found in _compile_separator().finditer(folded):
        end = found.start()
        if end < done:
            continue
        before = _HEAD_BACKWARDS.match(data[max(end - _LONGEST_HEAD, done) : end][::-1])
        start = end - before.end() if before is not None else end
        for label, pattern in formats.get(data[start:end], ()):
            if (whole := _compile(pattern).match(data, start)) is not None:
                done = whole.end()
                if _DUMMY.search(whole[0][:80]) is None:
                    yield SecretSpan(start, done, label)
                break


def _find_bot_tokens(data: bytes, folded: bytes) -> Iterator[SecretSpan]:
    for found in _TELEGRAM.finditer(data):
        near = max(found.start() - 13, 0)
        whole = _TELEGRAM_WHOLE.search(data, near, found.start() + 100)
        if whole is not None and whole.start() <= found.start():
            yield SecretSpan(*whole.span(), "Telegram bot token")
    for found in _DISCORD.finditer(folded):
        near = max(found.start() - 29, 0)
        whole = _DISCORD_WHOLE.search(data, near, found.start() + 100)
        if whole is not None:
            yield SecretSpan(*whole.span(), "Discord bot token")


LABEL = "private key"
BEGIN = LatePattern(rb"-----?[ ]?BEGIN (?:[A-Z0-9]{2,12} ){0,4}PRIVATE KEY(?: BLOCK)?[ ]?-----?")
MOST_BYTES = 65_536
MOST_BODY_BYTES = 16_384
"""The maximum length of lines that may be a key without a begin marker above them, in bytes."""

_MARK = b"PRIVATE KEY"
_END = LatePattern(rb"-----?[ ]?END [A-Z0-9 ]{0,60}-----?")
_ESCAPED = LatePattern(
    rb"(?:\\{1,2}[rnt])+(?:[A-Za-z-]{3,20}:[ ][^\\\r\n]{0,100}(?:\\{1,2}[rn])+)*[A-Za-z0-9+/]{16,}+"
    rb"(?:(?:\\{1,2}[rn])*[A-Za-z0-9+/=]++)*+(?:\\{1,2}[rn])*"
)
_SPACED = LatePattern(rb"[ ]{1,2}[A-Za-z0-9+/]{16,}+(?:[ ]?[A-Za-z0-9+/=]++)*+[ ]?")
_REST_OF_LINE = LatePattern(rb"[ \t\"',;+\\]*(?:\\n)?[ \t\"',;+\\]*\r?\n")
_OPEN_LINE = LatePattern(rb"[ \t\"',;+\\]*(?:\\n)?[ \t\"',;+\\]*\r?\Z")
"""Matches the same text on a line that has not ended yet."""
_LINE = LatePattern(
    rb"(?:[ \t]*[0-9]{1,7}[\t:|-]|[+>|<-])?[ \t\"']*"
    rb"(?P<body>[A-Za-z0-9+/=]{1,512}|[A-Za-z][A-Za-z-]{2,20}: [^\r\n]{0,256})?"
    rb"(?:\\n)?[\"',;+\\ \t]*\r?(?:\n|\Z)"
)
_END_LINE = LatePattern(rb"(?:[ \t]*[0-9]{1,7}[\t:|-]|[+>|<-])?[ \t\"']*(?=----)")


def find_key_blocks(data: bytes) -> Iterator[SecretSpan]:
    """Yield each private key from its first to its last line."""
    if _MARK not in data:
        return
    at = 0
    while (begin := BEGIN.search(data, at)) is not None:
        end, _ = find_block_end(data, begin.end())
        if end is not None:
            yield SecretSpan(begin.start(), end, LABEL)
        at = end or begin.end()
    yield from _find_ended_keys(data)


# The start of a key in base64, with its version: PKCS#1 and PKCS#8, SEC 1, OpenSSH.
_FIRST_LINE = LatePattern(
    rb"(?<![A-Za-z0-9+/])(?:MII[A-Za-z0-9+/]{2}[AQgw]IBA(?:AK[BC]|DAN)|MHcCAQEEI|MIGkAgEBBD|MIHcAgEBBE"
    rb"|MI(?:GHAgEAMBM|G2AgEAMBA|HuAgEAMBA)GByqGSM49|MC4CAQAwBQYDK2VwBCIEI|b3BlbnNzaC1rZXktdjE)"
    rb"[A-Za-z0-9+/]{12,}(?:(?:\\{1,2}[rn])*[A-Za-z0-9+/=]++)*+"
)
_BARE_END = LatePattern(rb"-----?[ ]?END (?:[A-Z0-9]{2,12} ){0,4}PRIVATE KEY")
_ENCODED = tuple(map(LatePattern, (rb".{40}", rb"[a-z]", rb"[A-Z]", rb"[0-9+/]")))
"""Each of these patterns matches every line of a key body, except the last line."""
_BODY_LINE = LatePattern(
    rb"(?:[ \t]*[0-9]{1,7}[\t:|-]|[+>|<-])?[ \t\"']*(?P<body>[A-Za-z0-9+/=]{1,512})(?:\\n)?[\"',;+\\ \t]*\r?"
)


def find_key_parts(data: bytes) -> Iterator[SecretSpan]:
    """Yield private keys without a begin marker: their first line in base64 identifies them."""
    # Separate `in` tests are faster than a loop over the words.
    if b"IBA" in data or b"CAQ" in data or b"AgE" in data or b"1rZXktdjE" in data:
        for found in _FIRST_LINE.finditer(data):
            yield SecretSpan(found.start(), _find_body_end(data, found.end()), LABEL)


def _find_ended_keys(data: bytes) -> Iterator[SecretSpan]:
    """Yield the text above each end marker of a private key."""
    for marker in _BARE_END.finditer(data):
        start = _find_body_start(data, marker.start())
        if start is not None:
            yield SecretSpan(start, marker.end(), LABEL)


def _find_body_end(data: bytes, end: int) -> int:
    """Return the end of the key body whose first line ended at `end`."""
    at = data.find(b"\n", end) + 1
    while at and at - end < MOST_BYTES and (line := _LINE.match(data, at)) is not None:
        if line["body"] is None or b":" in line["body"]:
            break
        end = line.end("body")
        at = line.end() if data[line.end() - 1 : line.end()] == b"\n" else 0
    return end


def _find_body_start(data: bytes, marker: int) -> int | None:
    """Return the start of the key body directly above an end marker, or None if there is no key body."""
    line_start, start = data.rfind(b"\n", 0, marker) + 1, None
    while line_start and marker - line_start < MOST_BYTES:
        above = data.rfind(b"\n", 0, line_start - 1) + 1
        line = _BODY_LINE.fullmatch(data, above, line_start - 1)
        if line is None:
            break
        start, line_start = line.start("body"), above
    return start


def find_open_body(data: bytes) -> int | None:
    """Return the start of the last lines of a text if these lines may be a key body, else None.

    Only an end marker after the lines would prove that they are a key.
    """
    line_start, start = len(data), None
    while line_start and len(data) - line_start <= MOST_BODY_BYTES:
        above = data.rfind(b"\n", 0, line_start - 1) + 1
        line = _BODY_LINE.fullmatch(data, above, line_start - 1)
        if line is None:
            break
        if all(kind.search(line["body"]) for kind in _ENCODED):
            start = above
        line_start = above
    return start if start is not None and len(data) - start <= MOST_BODY_BYTES else None


def find_block_end(data: bytes, start: int) -> tuple[int | None, bool]:
    """Return the end of the key whose begin marker ended at `start`, and whether the key may continue.

    The end is None if the text only talks about a key.
    """
    line_end = _REST_OF_LINE.match(data, start)
    if line_end is None:
        return _find_end_on_line(data, start)
    at, end = line_end.end(), None
    while at < len(data) and at - start < MOST_BYTES:
        if (marker := _END_LINE.match(data, at)) is not None and (last := _END.match(data, marker.end())):
            return (last.end(), False) if end is not None else (None, False)
        line = _LINE.match(data, at)
        if line is None or (end is None and line["body"] is not None and len(line["body"]) < 16):
            return end, False
        if line["body"] is not None:
            end = line.end("body")
        at = line.end()
    return end, at - start < MOST_BYTES


def _find_end_on_line(data: bytes, start: int) -> tuple[int | None, bool]:
    body = _ESCAPED.match(data, start)
    spaced = _SPACED.match(data, start) if body is None else None
    within = body or spaced
    if within is None:
        return None, _OPEN_LINE.match(data, start) is not None
    last = _END.match(data, within.end())
    if last is not None:
        return last.end(), False
    return (within.end() if body is not None else None), False


_PREFIX = LatePattern(rb"(?:[ \t]*[0-9]{1,7}[\t:|-]|[+>|<-](?!----))[ \t\"']*")
_ESCAPED_END = LatePattern(rb"(?:\\{1,2}[rnt])+")
_BODY = LatePattern(rb"[A-Za-z0-9+/=]+")


def extract_key_body(block: bytes) -> bytes:
    """Return the base64 text of a private key without line numbers, quotes and line breaks."""
    lines = _ESCAPED_END.sub(b"\n", block).split(b"\n")
    bodies = (_PREFIX.sub(b"", line, count=1).strip(b" \t\r\"',;+\\") for line in lines)
    return b"".join(body for body in bodies if _BODY.fullmatch(body))


def is_undecorated(block: bytes) -> bool:
    """Return whether the lines of a private key are without line numbers and diff signs."""
    return not any(_PREFIX.match(line) for line in block.split(b"\n")[1:])
