"""Keeps the placeholders that a model sees in place of secrets from getting into files."""

from actions.masking.masker import PLACEHOLDER
from actions.tools.file_text import FileText
from actions.tools.files import FileProblem


def refuse_placeholders(name: str, text: str, old: FileText | None) -> None:
    """Raise a `FileProblem` if `text` has a placeholder that the file itself does not have."""
    found = {match[0] for match in PLACEHOLDER.finditer(text)}
    if found and old is not None:
        before = old.text if old.text is not None else old.content.decode("latin-1")
        found = {placeholder for placeholder in found if placeholder not in before}
    if found:
        raise FileProblem(
            f"{name} has {min(found)} in it, which stands for a secret that you were not shown; writing it"
            " would destroy the real value. Nothing was changed. Change the text around it with edit_file, in"
            " pieces without it, or move the value with a shell command."
        )


def placeholder_note(old: str) -> str:
    """Say why a piece with a placeholder is not found; empty if that is not the reason."""
    found = PLACEHOLDER.search(old)
    return (
        ""
        if found is None
        else f" It has {found[0]} in it, for a secret that the file really has: leave it out."
    )
