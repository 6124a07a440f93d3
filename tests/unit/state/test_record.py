"""Stored values do not change under anybody's hands."""

import copy

import pytest
from pydantic import ValidationError

from sandbur.state.application import VibeStep


def test_a_changed_copy_leaves_the_original_alone() -> None:
    step = VibeStep(step_id="1", description="look")
    changed = step.model_copy(update={"status": "failed"})
    assert (step.status, changed.status) == ("pending", "failed")


def test_a_deep_copy_is_the_same_object() -> None:
    step = VibeStep(step_id="1", description="look")
    assert copy.deepcopy(step) is step


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError):
        VibeStep.model_validate({"step_id": "1", "description": "x", "surprise": 1})
