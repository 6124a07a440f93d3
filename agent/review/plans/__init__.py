"""Plans that bind: a person approves a plan with what it may do, and the gate holds every call to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...config.setting import Setting
from ...extensions.extension import CommandEntry, Extension, SlashEntry

if TYPE_CHECKING:
    from ....state.session import SessionSettings
    from ...config.settings import Settings


def _is_used(settings: Settings, session: SessionSettings | None) -> bool:
    """Return whether a session has a tool of this extension, or a new one may get one by the settings."""
    if session is not None:
        return bool(session.plan_tools)
    return any(settings.of(row.key) for row in EXTENSION.settings)


EXTENSION = Extension(
    name="plans",
    about="the model proposes plans that name what they may do; an approved plan binds its calls",
    page="plans.md",
    folders=("agent/review/plans", "ui/commands/review/plan"),
    settings=(
        Setting(
            "plan_proposals",
            True,
            "switch",
            variable="SANDBUR_PLAN_PROPOSALS",
            about="whether the model may propose a plan that names what it may do, for your approval",
            after="agents_per_run",
        ),
        Setting(
            "plan_notebook",
            False,
            "switch",
            variable="SANDBUR_PLAN_NOTEBOOK",
            about="whether the model has a tool to revise, end and reopen its plans",
            after="plan_proposals",
        ),
    ),
    is_used=_is_used,
    runtime=".agent.review.plans.plans_runtime:PlansRuntime",
    commands=(
        CommandEntry(
            name="plan",
            home=".ui.commands.review.plan.command:PlanCommand",
            summary="list or show saved plans, carry one out, or save the plan of a session",
            after="agents",
        ),
    ),
    slash=(
        SlashEntry(
            name="plan",
            usage="[TASK|skip N|list|save|use]",
            summary="show the plan, have one proposed, or use a saved one",
            home=".ui.commands.review.plan.slash:manage_plan",
            group="Session",
            after="expand",
            complete=".ui.commands.review.plan.slash:list_plan_choices",
            waits=True,
        ),
    ),
)
