"""`docs/guarded-files.md` names every secret file and every protected place, and none that is not known."""

import re

from support.places import ROOT

from sandbur.actions.workspace.protected.protected_places import (
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    PROTECTED_PATHS,
)
from sandbur.actions.workspace.protected.secret_files import (
    SECRET_FILES,
    SECRET_FOLDERS,
    SYSTEM_SECRETS,
    is_secret_file,
)

PAGE = (ROOT / "docs" / "guarded-files.md").read_text("utf-8")
LISTS = (SECRET_FOLDERS, SECRET_FILES, SYSTEM_SECRETS, PROTECTED_FOLDERS, PROTECTED_PATHS, PROTECTED_FILES)


def test_the_page_has_every_line_of_the_lists_and_no_other() -> None:
    blocks = re.findall(r"```\n(.*?)\n```", PAGE, re.S)
    listed = [tuple(re.split(r"   |\n", block)) for block in blocks]
    assert listed == list(LISTS)


def test_the_names_in_its_text_are_known() -> None:
    paragraph = PAGE.split("These names count in any folder:")[1].split("\n\n")[0]
    for name in re.findall(r"`([^`]+)`", paragraph):
        assert is_secret_file(f"/srv/{name.replace('*', 'x')}"), name
