"""Trials whose copies were changed, without a run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.commands.command import Command
from support.required import lacks

from sandbur.actions.workspace.copies.difference import Difference
from sandbur.actions.workspace.copies.namespace import launch_words
from sandbur.agent.review.trials.making import TrialRequest, make_trial
from sandbur.agent.review.trials.outcome import end_trial, read_differences
from sandbur.agent.review.trials.trial import Trial, TrialPlace

WITHOUT_RIGHTS = (
    ("setpriv", "--bounding-set", "-all,+setfcap", "--inh-caps", "-all") if os.geteuid() == 0 else ()
)
"""The start of the words of a program for which root is a user like others."""
_READ = """
import json, sys
from pathlib import Path
from sandbur.agent.review.trials.outcome import read_differences
from sandbur.agent.review.trials.trial import TrialPlace
place = TrialPlace(Path(sys.argv[1]), sys.argv[2])
(found,) = read_differences(place, place.load())
changes = {one.path: one.kind for one in found.files}
print(json.dumps([changes, {one.path: one.reason for one in found.skipped}]))
"""


class TrialWork:
    """A workspace with a trial, in whose copy commands run."""

    def __init__(self, folder: Path, may_overlay: bool, may_mount: bool = True) -> None:
        self.home, self.root = folder / "data", folder / "a:b,c\\d é" / "work"
        self.home.mkdir(mode=0o700)
        self.root.mkdir(parents=True)
        self._may_overlay, self._may_mount = may_overlay, may_mount
        self._trial: Trial | None = None

    @property
    def trial(self) -> Trial:
        if self._trial is None:
            request = TrialRequest(
                "t1", "a task", self.root, may_overlay=self._may_overlay, may_mount=self._may_mount
            )
            made = make_trial(self.home, request)
            self._trial = made.trial
            if self._may_overlay and self._trial.kind != "overlay":
                lacks(f"no overlay: {made.notices}")
        return self._trial

    @property
    def place(self) -> TrialPlace:
        return TrialPlace(self.home, self.trial.id)

    def run(self, script: str, *, is_bare: bool = False) -> str:
        """Run a script in the copy; `is_bare`: as a user who is not root."""
        words = launch_words(
            self.trial.mount_name,
            self.place.mounts(self.trial),
            self.trial.path_inside(self.root),
            ("/bin/sh", "-ec", script),
            self.place.lock,
        )
        done = subprocess.run(
            [*(WITHOUT_RIGHTS if is_bare else ()), *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def difference(self) -> Difference:
        (found,) = read_differences(self.place, self.trial)
        return found

    @property
    def changes(self) -> dict[str, str]:
        return {file.path: file.kind for file in self.difference.files}

    def read_without_rights(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return path -> kind of the changes, and path -> reason of the skipped ones, as a user finds them
        who is not root.
        """
        words = (*WITHOUT_RIGHTS, sys.executable, "-c", _READ, str(self.home), self.trial.id)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        changes, skipped = json.loads(done.stdout)
        return changes, skipped


def make_ended_trial(
    home: Path,
    workspace: Path,
    change: Callable[[Path], None],
    trial_id: str = "t1",
    add_dirs: tuple[Path, ...] = (),
) -> Trial:
    """Make a trial of a folder, change its copy and end the trial."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    request = TrialRequest(trial_id, "a task", workspace, may_overlay=False)
    trial = make_trial(home, request).trial
    change(Path(trial.folders[0].copy_path))
    end_trial(TrialPlace(home, trial.id), trial)
    return TrialPlace(home, trial.id).load()


def list_files(folder: Path) -> dict[str, str]:
    """Return the text of each file below a folder, of a link: its target, by relative path."""
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def make_trial_command(tmp_path: Path) -> Command:
    """Return the command in a folder with one file, `a.txt`, and a data folder beside it."""
    folder = tmp_path / "work"
    folder.mkdir()
    made = Command(folder)
    made.env |= {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data")}
    (folder / "a.txt").write_text("one\n")
    return made


def list_trials_of(command: Command) -> list[dict[str, str]]:
    return command.run("try", "list", "--json").lines
