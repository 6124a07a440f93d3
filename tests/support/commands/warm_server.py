"""Forks `sandbur` from a process that has imported what it needs: warm_server.py SOCKET.

A short command spends most of its time with imports. A forked command is a separate process with its own
streams, folder and environment, and runs the same `main`, but its modules are already imported.
"""

import atexit
import gc
import json
import os
import random
import runpy
import selectors
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module, reload
from typing import Any, NoReturn

MODULES = (
    "sandbur.ui.cli.main",
    "sandbur.ui.cli.arguments",
    "sandbur.ui.cli.failure_reports",
    "sandbur.ui.headless.headless",
    "sandbur.ui.headless.json_output",
    "sandbur.ui.cli.open_session",
    "sandbur.ui.terminal.lines",
    "sandbur.ui.terminal.live",
    "sandbur.ui.terminal.text.markdown_blocks",
    "sandbur.ui.terminal.render",
    "sandbur.agent.runtime.runtime",
    "sandbur.agent.session.session",
    "sandbur.agent.graph",
    "sandbur.agent.runtime.prompts",
    "sandbur.agent.runtime.wiring",
    "sandbur.agent.session.secrets",
    "sandbur.agent.config.data_folder",
    "sandbur.agent.knowledge.memory.memory_runtime",
    "sandbur.agent.knowledge.memory.memory_tool",
    "sandbur.agent.knowledge.memory.page_file",
    "sandbur.agent.knowledge.retrieval.retrieval_runtime",
    "sandbur.agent.review.plans.plan_tool",
    "sandbur.agent.review.plans.plans_runtime",
    "sandbur.agent.review.plans.propose_plan",
    "sandbur.agent.review.trials.trials_runtime",
    "sandbur.agent.policy.gate",
    "sandbur.agent.policy.hidden_files",
    "sandbur.agent.policy.shell.destructive_commands",
    "sandbur.agent.policy.shell.far_options",
    "sandbur.agent.policy.shell.read_paths",
    "sandbur.agent.policy.shell.repository",
    "sandbur.agent.policy.shell.seen_commands",
    "sandbur.agent.models.demo.demo_model",
    "sandbur.agent.models.connect",
    "sandbur.agent.models.transport.http",
    "sandbur.agent.models.wires.openai_chat",
    "sandbur.agent.models.wires.openai_responses",
    "sandbur.agent.models.wires.anthropic_messages",
    "sandbur.actions.tools.builtin",
    "sandbur.actions.tools.files.edit_file",
    "sandbur.actions.tools.files.glob",
    "sandbur.actions.tools.files.grep",
    "sandbur.actions.tools.files.list_directory",
    "sandbur.actions.tools.files.read_file",
    "sandbur.actions.tools.files.write_file",
    "sandbur.actions.tools.web.http_request",
    "sandbur.actions.tools.web.web_fetch",
    "sandbur.actions.tools.web.web_search",
    "sandbur.actions.tools.files.search.engine",
    "sandbur.actions.tools.shell.failure_hints",
    "sandbur.actions.tools.shell.language.operands",
    "sandbur.actions.tools.shell.language.scripts",
    "sandbur.actions.tools.shell.command_runner",
    "sandbur.actions.tools.shell.execution.process",
    "sandbur.actions.tools.shell.sandbox.wall",
    "sandbur.actions.tools.shell.read_only",
    "sandbur.actions.tools.shell.tool",
    "sandbur.actions.tools.files.disk",
    "sandbur.actions.workspace.snapshot",
    "sandbur.agent.history.timeline",
    "sandbur.state.databases.group_commit",
    "sandbur.state.databases.sqlite.sqlite_database",
    "sandbur.agent.agents.agents_runtime",
    "sandbur.agent.extensions.skills.skills_runtime",
    "sandbur.state.maintenance.verify",
    "sandbur.ui.commands.sessions.session_table",
    "sandbur.ui.cli.process_start",
    "sandbur.ui.terminal.sized_console",
    "rich.markdown",
    "rich.table",
    "httpx2",
    "anyio._backends._asyncio",
    "httpcore2",
    "h11",
    "truststore",
    "genai_prices.data",
    "genai_prices.data_snapshot",
    "genai_prices.data_units",
    "encodings.idna",
)  # fmt: skip
MODULES_OF_COMMANDS = {
    "acp": ("sandbur.ui.acp.editor_server", "sandbur.agent.extensions.mcp.connection"),
    "mcp": ("sandbur.ui.commands.mcp.run_tools", "sandbur.agent.extensions.mcp.connection"),
    "sessions": ("sandbur.agent.knowledge.retrieval.library", "sandbur.agent.knowledge.retrieval.citations"),
    "replay": ("sandbur.agent.sdk.agent", "sandbur.agent.sdk.testing.recorded_runs"),
}
"""First word of a command -> modules that it imports later than those that declare and run it. All of these
are imported at the first request for such a command.
"""
MODULES_OF_VICTIMS = (
    "sandbur.agent.sdk.agent",
    "sandbur.testing",
    "sandbur.actions.tools.python.tool",
    "sandbur.actions.tools.functions.decorator",
    "sandbur.actions.tools.functions.function_tool",
    "sandbur.agent.agents.hub.hub",
    "sandbur.agent.agents.workflows.kinds",
    "sandbur.agent.extensions.flows.router",
    "sandbur.agent.extensions.hooks.hooks_runtime",
    "sandbur.agent.extensions.middleware.agent_hooks",
    "sandbur.agent.extensions.middleware.middleware_stack",
    "sandbur.agent.knowledge.memory.memory",
    "sandbur.state.databases.servers.network",
    "docstring_parser",
    "jsonschema_rs",
    "pydantic.experimental.arguments_schema",
)
"""Further modules, which are imported at the first request for a program of `support/victims`."""
MODULES_OF_STORES = {
    "postgresql": ("sandbur.state.databases.servers.postgres", "psycopg"),
    "mysql": ("sandbur.state.databases.servers.mysql",),
}
"""Start of a store's URL -> further modules, which are imported at the first request for such a store."""


class Server:
    """Listens at a socket until its stdin ends."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """Answer requests. Return the request in each forked child, and None in the server at its end."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == 0:
                    return None
                if key.fileobj is self._listener:
                    request = self._accept()
                    if request is not None:
                        return request
                else:
                    self._handle_end(key)

    def _accept(self) -> dict[str, Any] | None:
        connection, _ = self._listener.accept()
        size, fds, _, _ = socket.recv_fds(connection, 8, 3, socket.MSG_WAITALL)
        with connection.makefile("rb") as stream:
            request = json.loads(stream.read(int.from_bytes(size, "big")))
        import_command(request["words"])
        for name in modules_of(request):
            import_module(name)
        assert threading.active_count() == 1
        pid = os.fork()
        if pid == 0:
            return self._become(request, fds, connection)
        for fd in fds:
            os.close(fd)
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(f"{pid}\n".encode())
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))
        return None

    def _become(self, request: dict[str, Any], fds: list[int], connection: socket.socket) -> dict[str, Any]:
        """Turn a fork into a process as the command line would have started it."""
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data[1].close()
                os.close(key.fd)
        for each in (self._selector, self._listener, connection):
            each.close()
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
            os.close(fd)
        return request

    def _handle_end(self, key: selectors.SelectorKey) -> None:
        pid, connection = key.data
        self._selector.unregister(key.fd)
        os.close(key.fd)
        _, status = os.waitpid(pid, 0)
        # A test that failed has closed its connection.
        with connection, suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def import_command(words: Sequence[str]) -> None:
    """Import the modules that declare and run a command, as the command itself does at its start."""
    from sandbur.ui.cli.grammar import COMMANDS, command_class

    if words and words[0] in COMMANDS:
        command = command_class(words[0])
        package = command.__module__.rpartition(".")[0]
        for home in (command.HOME, *(action.home for action in command.ACTIONS.values())):
            if home:
                import_module(f".{home.rpartition('.')[0]}", package)


def modules_of(request: dict[str, Any]) -> tuple[str, ...]:
    words = request["words"]
    is_victim = f"{os.sep}victims{os.sep}" in (request["program"] or "")
    of_call = MODULES_OF_VICTIMS if is_victim else MODULES_OF_COMMANDS.get((*words, "")[0], ())
    urls = (request["env"].get("SANDBUR_STORE", ""), *words)
    kinds = {kind for kind in MODULES_OF_STORES if any(url.startswith(f"{kind}:") for url in urls)}
    return of_call + tuple(name for kind in kinds for name in MODULES_OF_STORES[kind])


def compute_constants() -> None:
    """Compute cached values that are the same in every process: schemas of tools and states, and patterns."""
    from sandbur.actions.masking.late_pattern import LatePattern
    from sandbur.actions.masking.masker import TextMasker
    from sandbur.actions.tools.registry import load_declared_traits
    from sandbur.state.application import ApplicationState
    from sandbur.state.store.deltas import decode_fields

    load_declared_traits()
    TextMasker().find_spans(b"")
    decode_fields(ApplicationState, {}, book=None)
    for pattern in [each for each in gc.get_objects() if isinstance(each, LatePattern)]:
        assert pattern.compiled


def main() -> None:
    # `python -m sandbur.ui.cli.main` has its folder there.
    del sys.path[0]
    for name in MODULES:
        import_module(name)
    from sandbur.state.process import crashpoints

    compute_constants()
    gc.collect()
    gc.freeze()
    request = Server(sys.argv[1]).serve()
    if request is None:
        return
    if request["leads_session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    reload(crashpoints)  # they are armed by the environment, once
    random.seed()
    sys.path.insert(0, request["cwd"])
    sys.argv = ["sandbur", *request["words"]]
    if request["program"]:
        # Python adds the entries of PYTHONPATH to the search path of every program.
        paths = request["env"]["PYTHONPATH"].split(os.pathsep)
        sys.path[:0] = [os.path.dirname(request["program"]), *paths]  # noqa: PTH120
        runpy.run_path(request["program"], run_name="__main__")
        _end(0)
    from sandbur.ui.cli.main import main as run

    _end(run())


def _end(code: int) -> NoReturn:
    """End the process with the usual flushes, but without the slow clean-up of all modules."""
    threading._shutdown()
    atexit._run_exitfuncs()
    os._exit(code)


if __name__ == "__main__":
    main()
