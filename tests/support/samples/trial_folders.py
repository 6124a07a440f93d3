"""Trials whose copies were changed, without a run."""

from collections.abc import Callable
from pathlib import Path

from sandbur.agent.trials.making import TrialRequest, make_trial
from sandbur.agent.trials.outcome import end_trial
from sandbur.agent.trials.trial import Trial, TrialPlace


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
