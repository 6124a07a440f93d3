"""Replay: runs a recorded session through the current program, offline, and reports the first difference."""

from ...extensions.extension import CommandEntry, Extension

EXTENSION = Extension(
    name="replay",
    about="replays of recorded runs with today's graph, and recorded runs as tests of a project",
    page="testing.md",
    folders=(
        "agent/history/replay",
        "agent/sdk/testing/recorded_runs.py",
        "ui/commands/past/replay.py",
        "ui/commands/past/replay_command.py",
        "ui/pytest_plugin.py",
    ),
    commands=(
        CommandEntry(
            name="replay",
            home=".ui.commands.past.replay_command:ReplayCommand",
            summary="walk a recorded run through today's graph, offline, and show the first difference",
            after="ui",
        ),
        CommandEntry(
            name="test",
            home=".ui.commands.past.replay_command:AddTestCommand",
            summary="turn a recorded run into a test of your project: sandbur test add ID",
            after="replay",
        ),
    ),
)
