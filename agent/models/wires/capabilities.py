"""Decides which kinds of files a model takes, and which kinds its provider can read from an address."""

import re
from collections.abc import Mapping

from ....state.conversation.attachments import AttachedFile, Image
from ....state.conversation.content import format_attachment_size
from ..providers import Endpoint, FileKind, WireFormat, bare_name

NOUNS: Mapping[FileKind, str] = {
    "image": "pictures",
    "document": "documents",
    "audio": "audio",
    "video": "video",
}
AUDIO_FORMATS: Mapping[str, str] = {
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "audio/flac": "flac",
    "audio/ogg": "ogg",
    "audio/mp4": "m4a",
    "audio/aac": "aac",
}
"""Media type -> the name of the audio format in requests."""
_LACKS: Mapping[WireFormat, tuple[FileKind, ...]] = {
    "chat": (),
    "responses": ("audio", "video"),
    "messages": ("audio", "video"),
}
"""Wire format -> the kinds of files that it has no form for."""
_TEXT_ONLY = re.compile(
    r"gpt-3\.5|gpt-4(-\d{4}|-32k.*)?$|gpt-oss|o1-(mini|preview)|o3-mini|claude-(2|instant)"
    r"|deepseek-(chat|reasoner|coder|r1|v[23])|codellama|starcoder|qwen[\d.]*-?coder"
)


def takes(endpoint: Endpoint, kind: FileKind) -> bool | None:
    """Return whether a model accepts files of a kind; None if the name does not show it, so the server
    decides."""
    profile, model = endpoint.profile, bare_name(endpoint.model)
    if kind in _LACKS[profile.wire] or _TEXT_ONLY.match(model):
        return False
    if endpoint.is_foreign:
        return None
    if kind in profile.takes_no:
        return False
    if kind == "audio" and profile.audio_models is not None:
        return profile.audio_models.search(model) is not None
    return None


def find_refusal(endpoint: Endpoint, file: AttachedFile, max_image_bytes: int) -> str:
    """Return why a model cannot get this file, as a sentence; empty if no reason is known."""
    if takes(endpoint, file.kind) is False:
        return _kind_refusal(endpoint, file.kind)
    if file.url:
        return _address_refusal(endpoint, file)
    if isinstance(file, Image) and file.size > max_image_bytes:
        limit = format_attachment_size(max_image_bytes)
        return f"{endpoint.provider} takes no pictures of more than {limit}."
    if file.kind == "audio" and not endpoint.is_foreign:
        formats = endpoint.profile.audio_formats
        if formats and AUDIO_FORMATS.get(file.media_type) not in formats:
            return (
                f"{endpoint.provider} takes audio as {' or '.join(formats)} only, not as {file.media_type}."
            )
    return ""


def _kind_refusal(endpoint: Endpoint, kind: FileKind) -> str:
    profile = endpoint.profile
    refusal = f"{endpoint.name} takes no {NOUNS[kind]}"
    hears = profile.audio_models is not None and profile.audio_models.search(bare_name(endpoint.model))
    if kind == "audio" and profile.wire == "responses" and hears:
        return f"{refusal} over Responses: name it openai-chat/{endpoint.model}."
    return f"{refusal}."


def _address_refusal(endpoint: Endpoint, file: AttachedFile) -> str:
    noun = NOUNS[file.kind]
    if file.kind not in endpoint.profile.address_kinds:
        return (
            f"{endpoint.provider} reads no addresses of {noun}: attach the bytes, which a program can load"
            " with sandbur.fetch_attachment."
        )
    if file.kind == "document" and file.media_type != "application/pdf":
        return f"{endpoint.provider} reads no addresses of {file.media_type}, only of PDFs."
    return ""
