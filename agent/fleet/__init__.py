"""Workers: processes that share the sessions of one store, and run those that wait."""

from ..extensions.extension import CommandEntry, Extension

EXTENSION = Extension(
    name="fleet",
    about="workers that run the waiting sessions of one store, on any number of machines",
    page="fleet.md",
    folders=("agent/fleet", "ui/commands/runs/fleet"),
    commands=(
        CommandEntry(
            name="worker",
            home=".ui.commands.runs.fleet.command:WorkerCommand",
            summary="run the waiting sessions of a store, together with other workers",
            after="resume",
        ),
        CommandEntry(
            name="fleet",
            home=".ui.commands.runs.fleet.fleet_command:FleetCommand",
            summary="keep workers on a Ray cluster: up, status, drain, down",
            after="worker",
        ),
    ),
)
