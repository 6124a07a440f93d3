"""Sandbur as an agent of harbor: installed in the container of a task, where it runs without questions."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.agents.model_connection import ModelConnectionSpec
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.utils.trajectory_utils import format_trajectory_json
from typing_extensions import override

from .trajectory import TrajectoryBuilder

_VENV = "/installed-agent/sandbur"
_HAS_PYTHON = "python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))'"
_EVENTS = "sandbur.jsonl"
_ENDED_IN_ORDER = "0|3|4"
"""The exit codes of runs whose work is worth a check: done, stopped by a denied call, goal not reached."""


class SandburAgent(BaseInstalledAgent):
    """The agent of the command: `harbor run --agent sandbur.harbor:SandburAgent -m PROVIDER/MODEL ...`.

    `--agent-kwarg package=...` says what pip installs: a requirement, an address, or the path of a wheel on
    this machine, which is copied into the container. The container needs Python 3.11 or newer.
    """

    capabilities = AgentCapabilities(atif=True, resume=True)
    MODEL_CONNECTION = ModelConnectionSpec(passthrough=True)

    def __init__(self, logs_dir: Path, *arguments: Any, package: str = "sandbur", **more: Any) -> None:
        super().__init__(logs_dir, *arguments, **more)  # pyright: ignore[reportUnknownMemberType]
        self._package = package

    @staticmethod
    @override
    def name() -> str:
        return "sandbur"

    @override
    def get_version_command(self) -> str | None:
        return f"{_VENV}/bin/sandbur --version"

    @override
    def parse_version(self, stdout: str) -> str:
        return stdout.strip().rpartition(" ")[2]

    @override
    async def install(self, environment: BaseEnvironment) -> None:
        if (await environment.exec(command=_HAS_PYTHON)).return_code:
            await self.ensure_system_dependencies(environment, ("python3", "python_venv"))
        package = self._package
        if Path(package).is_file():
            package = f"/installed-agent/{Path(package).name}"
            await environment.upload_file(self._package, package)
        elif self._version:
            package = f"{package}=={self._version}"
        install = f"python3 -m venv {_VENV} && {_VENV}/bin/pip install --quiet {shlex.quote(package)}"
        await self.exec_as_root(environment, command=f"{install} && {_VENV}/bin/sandbur --version")

    @override
    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        model = f"-m {shlex.quote(self.model_name)} " if self.model_name else ""
        resume = "-c " if self._resume else ""
        logs = self.environment_logs_dir
        events = shlex.quote((logs / _EVENTS).as_posix())
        command = (
            f"{_VENV}/bin/sandbur {resume}--yolo --sandbox off {model}--output-format stream-json"
            f" -p {shlex.quote(instruction)} </dev/null >>{events}; code=$?;"
            f" case $code in {_ENDED_IN_ORDER}) ;; *) exit $code ;; esac"
        )
        env = {**self.model_connection.env, "SANDBUR_HOME": (logs / "sandbur").as_posix()}
        await self.exec_as_agent(environment, command=command, env=env)

    @override
    def populate_context_post_run(self, context: AgentContext) -> None:
        """Take tokens and cost from the output, and write the trajectory for the viewer of harbor."""
        trace = TrajectoryBuilder(self.model_name)
        for event in _read_events(self.logs_dir / _EVENTS):
            trace.add(event)
        context.n_input_tokens = trace.used.get("input_tokens")
        context.n_output_tokens = trace.used.get("output_tokens")
        context.n_cache_tokens = trace.used.get("cache_read_tokens")
        context.cost_usd = trace.used.get("cost_usd")
        context.metadata = {"session_id": trace.session_id, "status": trace.status}
        if (trajectory := trace.make_trajectory()) is not None:
            text = format_trajectory_json(trajectory.to_json_dict())
            (self.logs_dir / "trajectory.json").write_text(text)


def _read_events(path: Path) -> list[dict[str, Any]]:
    """Return the lines of an output; a killed run leaves an incomplete last line."""
    events: list[dict[str, Any]] = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events
