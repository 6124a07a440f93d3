"""Skills: instructions for kinds of work. A model reads a skill when it begins such work."""

from ..extension import Extension, SlashEntry

EXTENSION = Extension(
    name="skills",
    about="instructions for kinds of work, as folders with a SKILL.md",
    page="skills.md",
    folders=("agent/extensions/skills", "ui/chat/slash/skills.py"),
    runtime=".agent.extensions.skills.skills_runtime:SkillsRuntime",
    # A new session needs the runtime even without skills, because it asks for trust in the folder.
    is_used=lambda settings, session: session is None or bool(session.skills),
    slash=(
        SlashEntry(
            name="skill",
            usage="[NAME [TASK]]",
            summary="list the skills, or use one",
            home=".ui.chat.slash.skills:use_skill",
            editor=".ui.chat.slash.skills:use_skill_in_editor",
            group="Context",
            after="uncompact",
            complete=".ui.chat.slash.skills:list_skill_choices",
        ),
    ),
)
