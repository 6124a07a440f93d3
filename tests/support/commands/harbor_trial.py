"""A run of the harbor agent on this machine, for a Python that has harbor: harbor_trial.py FOLDER SUITE WHEEL

The environment executes commands in a folder, with the variables that begin with `TRIAL_`. Prints one JSON
object about the context, the trajectory and the tasks of the suite.
"""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import Any, override

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.agent.context import AgentContext
from harbor.models.task.config import EnvironmentConfig
from harbor.models.task.task import Task
from harbor.models.trajectories import Trajectory
from harbor.models.trial.paths import TrialPaths

from sandbur.harbor import SandburAgent

FOLDER, SUITE, WHEEL = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
ENV = {name.removeprefix("TRIAL_"): value for name, value in os.environ.items() if name.startswith("TRIAL_")}


class FolderEnvironment(BaseEnvironment):
    """Executes commands in a folder of this machine, with the paths of a container replaced."""

    @staticmethod
    @override
    def type() -> str:
        return "folder"

    @override
    def _validate_definition(self) -> None:
        pass

    @override
    async def start(self, force_build: bool) -> None:
        (FOLDER / "app").mkdir(parents=True)

    @override
    async def stop(self, delete: bool) -> None:
        pass

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        shutil.copy(source_path, self.translate(target_path))

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self.translate(target_dir))

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self.translate(source_path), target_path)

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self.translate(source_dir), target_dir)

    def translate(self, text: str) -> str:
        return text.replace("/installed-agent", f"{FOLDER}/installed-agent")

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        process = await asyncio.create_subprocess_exec(
            "/bin/bash", "-c", self.translate(command),
            cwd=FOLDER / "app", env={**ENV, **(env or {})},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, errors = await process.communicate()
        return ExecResult(stdout=output.decode(), stderr=errors.decode(), return_code=process.returncode or 0)


async def main() -> dict[str, Any]:
    logs = FOLDER / "logs"
    logs.mkdir(parents=True)
    environment = FolderEnvironment(
        FOLDER, "one", "one__env", TrialPaths(FOLDER / "trial"), EnvironmentConfig()
    )
    await environment.start(force_build=False)
    agent = SandburAgent(logs, model_name="demo", package=WHEEL, environment_logs_dir=PurePosixPath(logs))
    await agent.setup(environment)
    context = AgentContext()
    await agent.run("run `echo 42 > answer.txt`", environment, context)
    agent.populate_context_post_run(context)
    trajectory = Trajectory.model_validate_json((logs / "trajectory.json").read_text())
    return {
        "version": agent.version(),
        "answer": (FOLDER / "app" / "answer.txt").read_text(),
        "context": context.model_dump(exclude_none=True),
        "steps": [[one.source, one.message, len(one.tool_calls or ())] for one in trajectory.steps],
        "results": [
            one.content for step in trajectory.steps if step.observation for one in step.observation.results
        ],
        "tasks": [Task(path.parent).name for path in sorted(SUITE.rglob("task.toml"))],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
