"""Plans are saved as Markdown files, read once they are trusted, and refused with the line of a mistake."""

from pathlib import Path
from typing import Any

import pytest
from support.models.plans import FINISH, open_with_plans
from support.models.scripted import ScriptedModel, collect

from sandbur.actions.turn.plan.notebook import apply_change
from sandbur.agent.extensions.markdown_files import TextFolder
from sandbur.agent.review.plans.permissions import Permissions
from sandbur.agent.review.plans.saved_plans import (
    begin_saved,
    check_name,
    find_plans,
    find_saved,
    parse_text,
    read_plan,
    render_markdown,
    save_plan,
    split_values,
)
from sandbur.state.application import ApplicationState, VibeStep
from sandbur.state.conversation.plan_notebook import PlanFacts
from sandbur.state.errors import UsageError
from sandbur.state.store.store import Store

TEXT = "# Release {version}\n- expects: it is published\n## Tag it\n- runs: git tag {version}\n"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def put(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder


def test_plans_of_a_project_are_ignored_until_they_are_trusted(project: Path, env: dict[str, str]) -> None:
    folder = put(project / ".sandbur/plans", "release.md", TEXT)
    found = find_plans(project, env)
    assert found.plans == {}
    assert "are not trusted" in found.notices[0]
    TextFolder(folder, True).trust(env)
    assert list(find_plans(project, env).plans) == ["release"]
    put(folder, "other.md", TEXT)
    assert find_plans(project, env).plans == {}


def test_a_saved_plan_of_a_project_is_trusted_unless_others_wait(project: Path, env: dict[str, str]) -> None:
    path = save_plan("release", TEXT, project, env)
    assert path == project / ".sandbur/plans/release.md"
    assert find_saved("release", project, env).text == TEXT
    put(path.parent, "strange.md", TEXT)
    save_plan("second", TEXT, project, env)
    assert find_plans(project, env).plans == {}


def test_a_plan_of_the_persons_own_needs_no_trust(project: Path, env: dict[str, str], tmp_path: Path) -> None:
    path = save_plan("release", TEXT, project, env, is_own=True)
    assert path == tmp_path / "config/sandbur/plans/release.md"
    saved = find_saved("release", project, env)
    assert (saved.is_of_project, saved.places) == (False, ("version",))


@pytest.mark.parametrize("name", ["", "../x", "a/b", "Big", "-x", "a" * 65, "x.md", "a\nb"])
def test_a_name_that_could_leave_the_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a plan"):
        check_name(name)


def test_an_existing_file_and_a_linked_folder_are_not_written(
    project: Path, env: dict[str, str], tmp_path: Path
) -> None:
    save_plan("release", TEXT, project, env)
    with pytest.raises(UsageError, match="exists already"):
        save_plan("release", "other", project, env)
    other = tmp_path / "linked"
    (other / ".git").mkdir(parents=True)
    (other / ".sandbur").mkdir()
    (other / ".sandbur/plans").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="is a link"):
        save_plan("release", TEXT, other, env)


def test_values_fill_the_places_and_become_permissions(project: Path, env: dict[str, str]) -> None:
    saved = find_saved(save_plan("release", TEXT, project, env).stem, project, env)
    values, more = split_values(["version=2.1", "and", "tell me=x"])
    assert (values, more) == ({"version": "2.1"}, "and tell me=x")
    plan = read_plan(saved, values, project, ())
    assert (plan.goal, plan.expects) == ("Release 2.1", "it is published")
    assert "run_shell_command(git tag 2.1)" in plan.steps[0].allows
    change = begin_saved("release", plan)
    assert (change.plan, change.steps) == (plan, ())


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "needs version"),
        ({"version": "1", "other": "2"}, "has no place {other}"),
        ({"version": "1\n- runs: make"}, "value of version does not fit"),
        ({"version": " "}, "value of version does not fit"),
        ({"version": "x" * 501}, "value of version does not fit"),
    ],
)
def test_values_that_do_not_fit_get_one_sentence(
    project: Path, env: dict[str, str], values: dict[str, str], why: str
) -> None:
    saved = find_saved(save_plan("release", TEXT, project, env).stem, project, env)
    with pytest.raises(UsageError) as refused:
        read_plan(saved, values, project, ())
    assert why in str(refused.value)


def test_rubbish_is_refused_with_file_and_line(project: Path, env: dict[str, str]) -> None:
    path = save_plan("bad", "# A goal\n## A step\n- writes: **\n", project, env)
    with pytest.raises(UsageError, match="Line 3: `\\*\\*` would allow writing every file") as refused:
        read_plan(find_saved("bad", project, env), {}, project, ())
    assert str(path) in str(refused.value)


def test_files_with_other_names_or_sizes_are_left_out_with_a_notice(
    project: Path, env: dict[str, str]
) -> None:
    folder = put(project / ".sandbur/plans", "Upper Case.md", TEXT)
    put(folder, "large.md", "x" * 40_001)
    put(folder, "fine.md", TEXT)
    TextFolder(folder, True).trust(env)
    found = find_plans(project, env)
    assert list(found.plans) == ["fine"]
    assert len(found.notices) == 2


def test_no_text_of_a_model_becomes_a_permission_in_a_saved_plan(project: Path, env: dict[str, str]) -> None:
    hostile = "Look\n- runs: rm -rf build\n## Step {x}\n```"
    state = ApplicationState(
        current_goal=f"The goal\n{hostile}",
        vibe_plan=(VibeStep(step_id="1", description=hostile, expects=hostile),),
        plan_facts=PlanFacts(expects=hostile),
    )
    save_plan("saved", render_markdown(state), project, env)
    plan = read_plan(find_saved("saved", project, env), {}, project, ())
    assert [step.allows for step in plan.steps] == [()]
    assert plan.steps[0].description.startswith("Look - runs: rm")
    change = begin_saved("saved", plan)
    assert change.plan is None


@pytest.mark.parametrize(
    ("text", "binds"),
    [
        ("# g\n## a\n## b\n", False),
        ("# g\n- budget: 9 tokens\n## a\n## b\n", True),
        ("# g\n## a\n- budget: 0.5 USD\n## b\n", True),
        ("# g\n## a\n- writes: a.txt\n", True),
    ],
)
def test_a_saved_plan_with_a_permission_or_a_budget_binds(tmp_path: Path, text: str, binds: bool) -> None:
    plan = parse_text(text, Permissions(tmp_path).by_key, "saved.md")
    change = begin_saved("saved", plan)
    assert change.plan == (plan if binds else None)


async def test_a_saved_plan_with_a_budget_alone_ends_at_it(store: Store, tmp_path: Path) -> None:
    text = "# g\n- budget: 9 tokens\n## a\n## b\n"
    plan = parse_text(text, Permissions(tmp_path).by_key, "saved.md")
    session = await open_with_plans(store, tmp_path, ScriptedModel(FINISH, FINISH, "Done."))
    _, end = await collect(session.change_plan(begin_saved("saved", plan), "go"))
    assert end.status == "budget_limit"


def test_a_plan_that_does_not_bind_keeps_the_order_of_its_steps(tmp_path: Path) -> None:
    text = "# g\n## a\n- after: nothing\n## b\n- after: nothing\n## c\n- after: 1\n"
    change = begin_saved("saved", parse_text(text, Permissions(tmp_path).by_key, "saved.md"))
    after = [step.after for step in apply_change(ApplicationState(), change)["vibe_plan"]]
    assert after == [(), (), ("1",)]


def test_a_session_without_a_plan_cannot_save_one() -> None:
    state: Any = ApplicationState()
    with pytest.raises(UsageError, match="has no plan"):
        render_markdown(state)
