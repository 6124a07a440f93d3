"""What is relied on of Burr's internal tracking interface; a newer Burr that changes it fails by name."""

import inspect
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from burr.tracking.common import models
from burr.tracking.server import backend, schema

from sandbur.agent.history.tracking.burr_backend import StoreBackend
from sandbur.ui.web.server import EXAMPLES

ROUTES = {
    "GET /ready",
    "GET /api/v0/metadata/app_spec",
    "GET /api/v0/projects",
    "GET /api/v0/{project_id}/{partition_key}/apps",
    "GET /api/v0/{project_id}/{app_id}/{partition_key}/apps",
    "POST /api/v0/{project_id}/{app_id}/{partition_key}/{sequence_id}/annotations",
    "PUT /api/v0/{project_id}/{annotation_id}/update_annotations",
    "GET /api/v0/{project_id}/annotations",
    "GET /api/v0/ready",
    "GET /api/v0/indexing_jobs",
    "GET /api/v0/version",
    "GET /manifest.json",
    "GET /{rest_of_path:path}",
}

METHODS = {
    "BackendBase.lifespan": ["self", "app"],
    "BackendBase.list_projects": ["self", "request"],
    "BackendBase.list_apps": ["self", "request", "project_id", "partition_key", "limit", "offset"],
    "BackendBase.get_application_logs": ["self", "request", "project_id", "app_id", "partition_key"],
    "BackendBase.supports_demos": ["self"],
    "AnnotationsBackendMixin.create_annotation": [
        "self", "annotation", "project_id", "partition_key", "app_id", "step_sequence_id",
    ],
    "AnnotationsBackendMixin.update_annotation": ["self", "annotation", "project_id", "annotation_id"],
    "AnnotationsBackendMixin.get_annotations": [
        "self", "project_id", "partition_key", "app_id", "step_sequence_id",
    ],
}  # fmt: skip
FIELDS: dict[type[Any], set[str]] = {
    schema.Project: {"name", "id", "last_written", "created", "num_apps", "uri"},
    schema.ApplicationSummary: {
        "app_id", "partition_key", "first_written", "last_written", "num_steps", "tags", "parent_pointer",
        "spawning_parent_pointer",
    },
    schema.ApplicationLogs: {"application", "children", "steps", "parent_pointer", "spawning_parent_pointer"},
    schema.Step: {"step_start_log", "step_end_log", "spans", "attributes", "streaming_events"},
    schema.Span: {"begin_entry", "end_entry"},
    schema.AnnotationCreate: {"span_id", "step_name", "tags", "observations"},
    schema.AnnotationUpdate: {"span_id", "step_name", "tags", "observations"},
    schema.AnnotationOut: {
        "span_id", "step_name", "tags", "observations", "id", "project_id", "app_id", "partition_key",
        "step_sequence_id", "created", "updated",
    },
    models.ActionModel: {"type", "name", "reads", "writes", "code", "inputs", "optional_inputs"},
    models.TransitionModel: {"type", "from_", "to", "condition"},
    models.ApplicationModel: {"type", "entrypoint", "actions", "transitions"},
    models.PointerModel: {"type", "app_id", "sequence_id", "partition_key"},
    models.ChildApplicationModel: {"type", "child", "event_time", "event_type", "sequence_id"},
    models.BeginEntryModel: {"type", "start_time", "action", "inputs", "sequence_id"},
    models.EndEntryModel: {"type", "end_time", "action", "result", "exception", "state", "sequence_id"},
    models.BeginSpanModel: {
        "type", "start_time", "action_sequence_id", "span_id", "span_name", "parent_span_id",
        "span_dependencies",
    },
    models.EndSpanModel: {"type", "end_time", "action_sequence_id", "span_id"},
    models.AttributeModel: {"type", "key", "action_sequence_id", "span_id", "value", "tags", "time_logged"},
    models.InitializeStreamModel: {"type", "action_sequence_id", "span_id", "stream_init_time"},
    models.FirstItemStreamModel: {"type", "action_sequence_id", "span_id", "first_item_time"},
    models.EndStreamModel: {"type", "action_sequence_id", "span_id", "end_time", "items_streamed"},
}  # fmt: skip
TYPES = {
    models.ActionModel: "action",
    models.TransitionModel: "transition",
    models.ApplicationModel: "application",
    models.PointerModel: "pointer_data",
    models.ChildApplicationModel: "child_application_data",
    models.BeginEntryModel: "begin_entry",
    models.EndEntryModel: "end_entry",
    models.BeginSpanModel: "begin_span",
    models.EndSpanModel: "end_span",
    models.AttributeModel: "attribute",
    models.InitializeStreamModel: "begin_stream",
    models.FirstItemStreamModel: "first_item_stream",
    models.EndStreamModel: "end_stream",
}


@pytest.mark.parametrize("name", METHODS)
def test_burr_asks_its_backend_with_these_parameters(name: str) -> None:
    owner, _, method = name.partition(".")
    theirs = inspect.signature(getattr(getattr(backend, owner), method))
    ours = inspect.signature(getattr(StoreBackend, method))
    assert list(theirs.parameters) == METHODS[name]
    assert list(ours.parameters) == METHODS[name]


def test_burr_asks_its_backend_nothing_else() -> None:
    asked = {
        f"{owner.__name__}.{name}"
        for owner in (backend.BackendBase, backend.AnnotationsBackendMixin)
        for name in owner.__abstractmethods__  # pyright: ignore[reportAttributeAccessIssue]
    }
    assert asked == {*METHODS, "BackendBase.settings_model"} - {
        "BackendBase.lifespan",
        "BackendBase.supports_demos",
    }


@pytest.mark.parametrize("model", FIELDS, ids=lambda model: model.__name__)
def test_burr_logs_have_these_fields(model: type[Any]) -> None:
    assert set(model.model_fields) == FIELDS[model]


@pytest.mark.parametrize("model", TYPES, ids=lambda model: model.__name__)
def test_burr_logs_carry_these_types(model: type[Any]) -> None:
    assert model.model_fields["type"].default == TYPES[model]


def test_burr_knows_forks_and_spawned_children() -> None:
    annotation = models.ChildApplicationModel.model_fields["event_type"].annotation
    assert annotation is not None
    assert set(annotation.__args__) == {"fork", "spawn_start"}


def test_burr_makes_its_backend_from_the_environment() -> None:
    code = inspect.getsource(backend.BackendBase.create_from_env)
    assert 'os.environ.get("BURR_BACKEND_IMPL"' in code
    assert "cls.from_settings(" in code
    assert backend.BurrSettings.model_config["env_prefix"] == "burr_"
    assert set(StoreBackend.settings_model().model_fields) == {"store", "tenant"}


@pytest.fixture
def server_code() -> str:
    """Read it: importing it makes a backend and imports every example."""
    found = find_spec("burr.tracking.server.run")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_text("utf-8")


def test_burr_serves_these_routes(server_code: str) -> None:
    found = re.findall(r'@ui_app\.(get|post|put|delete|patch)\(\s*"([^"]+)"', server_code)
    assert {f"{method.upper()} {path}" for method, path in found} == ROUTES


def test_burr_imports_these_examples(server_code: str) -> None:
    found = re.findall(r'import_module\("burr\.examples\.([^"]+)\.server"\)', server_code)
    assert sorted(found) == sorted(EXAMPLES)
    assert server_code.count("include_router(") == len(EXAMPLES)


def test_burr_makes_its_server_in_this_way(server_code: str) -> None:
    assert "def create_burr_ui_app(serve_static: bool" in server_code
    assert "\nbackend = BackendBase.create_from_env()\n" in server_code
    assert 'SENTINEL_PARTITION_KEY = "__none__"' in server_code
    assert server_code.index('"/{rest_of_path:path}"') > server_code.index("include_router(counter")
