"""The table of all workloads, by subject, in the order of the page."""

from typing import NamedTuple


class Workload(NamedTuple):
    """One measurement, which runs in a process and a folder of its own."""

    function: str
    """In which module of this folder, and its name; it takes a folder and the number."""
    number: int
    unit: str
    only_by_name: bool = False
    """It is long, counts and does not measure, or starts programs of others."""
    patience_s: int = 600


SUBJECTS: dict[str, dict[str, Workload]] = {
    "A turn": {
        "turns": Workload("turns:measure", 7, "rounds"),
        "turn_lengths": Workload("turns:measure_lengths", 3, "rounds"),
        "shell_commands": Workload("shell_commands:measure", 25, "rounds"),
        "middleware": Workload("observed_turns:measure_middleware", 1, "rounds"),
        "telemetry": Workload("observed_turns:measure_telemetry", 1, "rounds"),
        "flows": Workload("flows:measure", 5, "rounds"),
        "plan_steps": Workload("plan_steps:measure", 3, "rounds"),
        "python_code": Workload("python_code:measure", 3, "rounds"),
        "mcp": Workload("mcp:measure", 2000, "calls"),
        "tools": Workload("tools:measure", 400, "calls"),
        "verdicts": Workload("verdicts:measure", 400, "rounds"),
        "sdk": Workload("sdk:measure", 1, "rounds"),
    },
    "The start": {
        "whole_processes": Workload("startup:measure_whole_processes", 11, "rounds"),
        "startup": Workload("startup:measure_starts", 11, "rounds"),
        "printing_commands": Workload("startup:measure_printing", 11, "rounds"),
    },
    "The store": {
        "store_commits": Workload("store_commits:measure", 5, "rounds"),
        "network_commits": Workload("network_commits:measure", 5, "rounds"),
        "message_batches": Workload("network_commits:measure_batches", 3, "rounds"),
        "durable_commits": Workload("session_costs:measure_commits", 300, "commits"),
        "session_keys": Workload("session_keys:measure", 2000, "steps"),
        "session_costs": Workload("session_costs:measure", 100, "sessions"),
        "burr_persister": Workload("burr_persister:measure", 800, "steps"),
        "stored_sessions": Workload("stored_sessions:measure", 20_000, "sessions"),
        "session_search": Workload("stored_sessions:measure_search", 10_000, "sessions"),
        "sub_agent_sessions": Workload("stored_sessions:measure_children", 1000, "sub-agents"),
        "doctor": Workload("stored_sessions:measure_doctor", 20_000, "sessions"),
        "export": Workload("reports:measure_export", 5000, "turns"),
        "replay": Workload("reports:measure_replay", 800, "turns"),
        "reports": Workload("reports:measure_reports", 800, "turns"),
    },
    "Many sessions": {
        "crowd": Workload("crowd:measure_crowds", 1000, "sessions"),
        "many_sessions": Workload("crowd:measure_loop", 200, "sessions"),
        "sub_agents": Workload("sub_agents:measure", 100, "sub-agents"),
        "sub_agent_starts": Workload("sub_agent_starts:measure", 100, "starts"),
        "served_sessions": Workload("serve:measure_sessions", 9, "rounds"),
        "served_turns": Workload("served_turns:measure", 5, "rounds"),
        "claims": Workload("claims:measure", 100_000, "sessions"),
        "fleet_simulation": Workload(
            "fleet_simulation:measure", 10_000, "sessions", only_by_name=True, patience_s=1200
        ),
        "hops": Workload("hops:measure", 1, "calls"),
        "link_races": Workload("link_races:measure", 10_000, "tries", only_by_name=True),
    },
    "Files, documents and memory": {
        "search": Workload("search:measure", 20_000, "files"),
        "search_tools": Workload("search:measure_tools", 20_000, "files"),
        "copies": Workload("copies:measure", 10_000, "files"),
        "sandbox": Workload("sandbox:measure", 25, "rounds"),
        "documents": Workload("documents:measure", 100_000, "documents"),
        "document_ranks": Workload("documents:measure_ranks", 150, "questions"),
        "knowledge": Workload("knowledge:measure", 10_000, "files"),
        "knowledge_ranks": Workload("knowledge:measure_ranks", 150, "questions"),
        "static_memory": Workload("static_memory:measure", 100_000, "facts"),
        "recall": Workload("recall:measure", 60, "facts"),
        "recall_held_out": Workload("recall:measure_held_out", 60, "facts"),
        "recall_lengths": Workload("recall:measure_lengths", 100_000, "messages"),
    },
    "The screen": {
        "key_echo": Workload("key_echo:measure", 200, "keys"),
        "rendering": Workload("rendering:measure", 12_000, "characters"),
        "tracking_ui": Workload("tracking_ui:measure", 1, "rounds"),
    },
    "Beside other frameworks": {
        "turn_peers": Workload(
            "framework_peers:measure_turns", 3, "rounds", only_by_name=True, patience_s=3600
        ),
        "crowd_peers": Workload(
            "framework_peers:measure_crowds", 200, "sessions", only_by_name=True, patience_s=1800
        ),
        "sub_agent_peers": Workload(
            "sub_agents:measure_peers", 100, "sub-agents", only_by_name=True, patience_s=1200
        ),
        "http_peers": Workload("http_peers:measure", 40, "sessions", only_by_name=True),
        "step_peers": Workload(
            "framework_peers:measure_steps", 3, "rounds", only_by_name=True, patience_s=600
        ),
    },
    "Beside other terminal agents": {
        "start_peers": Workload("agent_starts:measure", 5, "rounds", only_by_name=True, patience_s=1200),
    },
}
"""Subject -> its workloads, each with its name."""
WORKLOADS = {name: one for subject in SUBJECTS.values() for name, one in subject.items()}
PEERS = {name for subject, found in SUBJECTS.items() if subject.startswith("Beside ") for name in found}
"""Those that start programs of others."""
