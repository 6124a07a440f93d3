"""Flows: messages of a registered form are answered without a question to the model."""

from ...config.setting import Setting
from ..extension import CommandEntry, Extension, SlashEntry

EXTENSION = Extension(
    name="flows",
    about="messages of a registered form are answered without a question to the model",
    page="flows.md",
    folders=("agent/extensions/flows", "ui/commands/flows"),
    settings=(
        Setting(
            "flows",
            {},
            "tables",
            "entries",
            about="what messages of a registered form start without the model, by name",
            reader=".agent.extensions.flows.tables:FlowsReader",
            of_command=True,
            after="hooks",
        ),
    ),
    runtime=".agent.extensions.flows.flows_runtime:FlowsRuntime",
    of_agent=lambda definition: bool(definition.flows),
    commands=(
        CommandEntry(
            name="flows",
            home=".ui.commands.flows.command:FlowsCommand",
            summary="list the flows of this folder, or test which one a text would start",
            after="policy",
        ),
    ),
    slash=(
        SlashEntry(
            name="flow",
            usage="[NAME [TEXT]]",
            summary="list the flows, or start one",
            home=".ui.commands.flows.slash:start_flow",
            group="Context",
            after="uncompact",
            complete=".ui.commands.flows.slash:list_flow_choices",
            waits=True,
        ),
    ),
)
