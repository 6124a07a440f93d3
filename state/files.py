"""What a call changes in files, so that it can be checked and undone."""

from state.record import Record


class FileChange(Record):
    """One file before and after a call. A link counts as a file whose content is its target."""

    path: str
    """Absolute, links on the way resolved."""
    before: str | None
    """SHA-256 of the old content; None if there was no file, or if its content is not known."""
    before_mode: int | None
    """Permission bits, with those of `S_IFLNK` for a link; None if there was no file."""
    after: str | None
    """SHA-256 of the new content; None if the file is gone, or if its content is not known."""
    after_mode: int | None = None
    """As `before_mode`; None too if it is not known."""
    new_folders: int = 0
    """How many folders, from the file's own upwards, were not there before."""
    is_restorable: bool = True
    """False if it is not known well enough what was there before."""
