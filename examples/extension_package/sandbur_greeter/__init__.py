"""An extension of Sandbur in its own package. This module only declares the extension."""

from sandbur import CommandEntry, Extension, Setting, SlashEntry

EXTENSION = Extension(
    name="greeter",
    about="greets people by name, and counts the calls of a run",
    page="https://example.com/sandbur-greeter",
    settings=(
        Setting(
            "greeting",
            "Hello",
            "line",
            variable="GREETER_GREETING",
            about="how the tool `greet` greets",
        ),
    ),
    runtime="sandbur_greeter.runtime:GreeterRuntime",
    slash=(
        SlashEntry(
            name="greet",
            usage="NAME",
            summary="greet somebody",
            home="sandbur_greeter.slash:greet",
            editor="sandbur_greeter.slash:greet_in_editor",
        ),
    ),
    commands=(
        CommandEntry(
            name="greet",
            home="sandbur_greeter.command:GreetCommand",
            summary="greet somebody",
        ),
    ),
)
