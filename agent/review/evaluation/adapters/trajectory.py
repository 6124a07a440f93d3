"""The output of a run (`stream-json`) as a trajectory in ATIF, the format of harbor."""

from __future__ import annotations

from typing import Any

from harbor.models.trajectories import (
    Agent,
    FinalMetrics,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
)

_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cost_usd")


class TrajectoryBuilder:
    """Collects the events of a run, one after the other."""

    def __init__(self, model: str | None) -> None:
        self.session_id = ""
        self.status = "killed"
        """How the run ended; `killed` until the output says so."""
        self.used: dict[str, Any] = {}
        """The usage of the whole run, as the last event has it."""
        self._model = model
        self._version = "unknown"
        self._steps: list[Step] = []

    def add(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "init":
                self.session_id, self._version = event["session_id"], event["version"]
            case "message" if event["role"] == "user":
                self._append("user", event["content"])
            case "text":
                self._reply().message += event["delta"]
            case "thinking":
                step = self._reply()
                step.reasoning_content = (step.reasoning_content or "") + event["delta"]
            case "tool_use":
                call = ToolCall(
                    tool_call_id=event["call_id"], function_name=event["tool"], arguments=event["arguments"]
                )
                step = self._reply()
                step.tool_calls = [*(step.tool_calls or []), call]
            case "tool_result":
                self._add_result(event)
            case "usage":
                self._add_usage(event)
            case "result":
                self.status, self.used = event["status"], event["usage"]
            case _:
                pass

    def make_trajectory(self) -> Trajectory | None:
        """Return the trajectory; None for a run that had not begun."""
        if not self._steps:
            return None
        return Trajectory(
            session_id=self.session_id,
            agent=Agent(name="sandbur", version=self._version, model_name=self._model),
            steps=self._steps,
            final_metrics=FinalMetrics(
                total_prompt_tokens=self.used.get("input_tokens"),
                total_completion_tokens=self.used.get("output_tokens"),
                total_cached_tokens=self.used.get("cache_read_tokens"),
                total_cost_usd=self.used.get("cost_usd"),
                total_steps=len(self._steps),
            ),
            extra={"status": self.status},
        )

    def _append(self, source: Any, text: str) -> Step:
        self._steps.append(Step(step_id=len(self._steps) + 1, source=source, message=text))
        return self._steps[-1]

    def _reply(self) -> Step:
        """Return the step of the present reply of the model; a result ends a reply."""
        last = self._steps[-1] if self._steps else None
        if last is None or last.source != "agent" or last.observation is not None:
            return self._append("agent", "")
        return last

    def _add_result(self, event: dict[str, Any]) -> None:
        for step in reversed(self._steps):
            if any(call.tool_call_id == event["call_id"] for call in step.tool_calls or ()):
                result = ObservationResult(
                    source_call_id=event["call_id"],
                    content=event["content"],
                    extra={"outcome": event["outcome"]},
                )
                earlier = step.observation.results if step.observation is not None else []
                step.observation = Observation(results=[*earlier, result])
                return

    def _add_usage(self, event: dict[str, Any]) -> None:
        """Give the reply what it used; an event has the sums of the run so far."""
        own = {name: _subtract(event.get(name), self.used.get(name, 0)) for name in _COUNTS}
        self._reply().metrics = Metrics(
            prompt_tokens=own["input_tokens"],
            completion_tokens=own["output_tokens"],
            cached_tokens=own["cache_read_tokens"],
            cost_usd=own["cost_usd"],
        )
        self.used = {name: event.get(name) for name in _COUNTS}


def _subtract(now: Any, before: Any) -> Any:
    return None if now is None or before is None else now - before
