"""Tells the words of a person in a message from the texts that the message brings: files and skills."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from .attachments import Document
from .messages import Message

_FILE = re.compile(r"\n*<(file|folder) path=[^\n]*>\n.*?\n</\1>", re.DOTALL)
"""A file that a person named with @: the chat writes its content into the message."""
_SKILL = "[Skill "
"""How a message begins that holds the text of a skill."""


class PersonText(NamedTuple):
    """The text of a message whose origin is a person."""

    own: str
    """What the person wrote."""
    files: Sequence[str] = ()
    """The texts of the files and folders that the person attached, and which others may have written."""
    skill: str = ""
    """The text of a skill, if the message is one."""

    @property
    def brought(self) -> Sequence[str]:
        return (*self.files, self.skill) if self.skill else self.files


def split_person_text(text: str) -> PersonText:
    if text.startswith(_SKILL):
        return PersonText("", skill=text)
    if (own := remove_files(text)) is text:
        return PersonText(text)
    return PersonText(own, [found[0].strip() for found in _FILE.finditer(text)])


def remove_files(text: str) -> str:
    """Return a message without the texts of attached files; the same object if it has none."""
    return _FILE.sub("", text) if "\n</f" in text else text


def list_brought_texts(message: Message) -> Sequence[str]:
    """Return the texts in a message of a person that others may have written, also those of documents."""
    documents = [block for block in message.blocks if isinstance(block, Document) and block.is_text]
    contents = [(one.read() or b"").decode("utf-8", "replace") for one in documents]
    return [*split_person_text(message.text).brought, *contents]
