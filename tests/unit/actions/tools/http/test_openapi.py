"""Operations of OpenAPI descriptions as tools: what the model is told, and what is sent."""

import asyncio
import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate
from support.network.web_site import Seen, WebSite, page

from sandbur import openapi_tools
from sandbur.actions.ports import BadArguments, Tool, ToolContext, ToolOutcome
from sandbur.state.errors import ConfigError, SandburError

OLD: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [
        {
            "url": "https://{region}.pets.example/{base}",
            "variables": {
                "region": {"default": "eu", "enum": ["eu", "us"]},
                "base": {"default": "v1"},
            },
        }
    ],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "summary": "List pets.",
                "description": "In pages.",
                "parameters": [
                    {"$ref": "#/components/parameters/limit"},
                    {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {
                        "name": "ids",
                        "in": "query",
                        "explode": False,
                        "schema": {"type": "array", "items": {"type": "integer"}},
                    },
                    {
                        "name": "pipes",
                        "in": "query",
                        "style": "pipeDelimited",
                        "explode": False,
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                    {
                        "name": "filter",
                        "in": "query",
                        "style": "deepObject",
                        "explode": True,
                        "schema": {"type": "object", "properties": {"name": {"type": "string"}}},
                    },
                    {
                        "name": "where",
                        "in": "query",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    },
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string", "nullable": True}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                    {"name": "mood", "in": "cookie", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"description": "ok"}},
            },
            "post": {
                "operationId": "createPet",
                "summary": "Create a pet.",
                "requestBody": {"$ref": "#/components/requestBodies/pet"},
                "responses": {"201": {"description": "ok"}},
            },
        },
        "/pets/{pet.id}": {
            "parameters": [
                {"name": "pet.id", "in": "path", "required": True, "schema": {"type": "string"}},
                {"name": "lang", "in": "query", "description": "Of all.", "schema": {"type": "string"}},
            ],
            "get": {
                "parameters": [
                    {
                        "name": "lang",
                        "in": "query",
                        "description": "Of this.",
                        "required": True,
                        "schema": {"type": "string", "enum": ["en", "de"]},
                    },
                ],
                "responses": {"200": {"description": "ok"}},
            },
            "delete": {"operationId": "pets/delete", "responses": {"204": {"description": "gone"}}},
            "put": {
                "operationId": "putPet",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "schema": {"type": "object", "properties": {"name": {"type": "string"}}},
                        }
                    },
                },
                "responses": {"200": {"description": "ok"}},
            },
        },
        "/photos": {
            "post": {
                "operationId": "upload",
                "requestBody": {"content": {"multipart/form-data": {"schema": {"type": "object"}}}},
                "responses": {"200": {"description": "ok"}},
            }
        },
    },
    "components": {
        "parameters": {
            "limit": {
                "name": "limit",
                "in": "query",
                "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            }
        },
        "requestBodies": {
            "pet": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {"$ref": "#/components/schemas/Pet"},
                    }
                },
            }
        },
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["id", "name"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "name": {"type": "string", "example": "Rex", "x-order": 1},
                    "nickname": {"type": "string", "nullable": True, "enum": ["a", "b"]},
                    "mother": {"$ref": "#/components/schemas/Pet"},
                    "owner": {"$ref": "#/components/schemas/Owner"},
                },
            },
            "Owner": {"type": "object", "properties": {"email": {"type": "string"}}},
        },
    },
}

NEW: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Notes", "version": "1"},
    "servers": [{"url": "/api"}],
    "paths": {
        "/notes/{id}": {
            "patch": {
                "operationId": "changeNote",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": ["integer", "null"]}}
                ],
                "requestBody": {
                    "content": {
                        "application/merge-patch+json": {
                            "schema": {
                                "type": "object",
                                "properties": {
                                    "text": {"type": ["string", "null"]},
                                    "tree": {"$ref": "#/components/schemas/Tree"},
                                },
                            }
                        }
                    }
                },
                "responses": {"200": {"description": "ok"}},
            }
        }
    },
    "components": {
        "schemas": {
            "Tree": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}},
            }
        }
    },
}


def written(folder: Path, description: Mapping[str, Any]) -> Path:
    file = folder / "api.json"
    file.write_text(json.dumps(description))
    return file


def one_of(tools: tuple[Tool, ...], name: str) -> Tool:
    return next(one for one in tools if one.spec.name == name)


async def run(one: Tool, **arguments: Any) -> ToolOutcome:
    context = ToolContext("call", Path("/"), lambda text: None)
    return await one.run(one.parse(json.dumps(arguments)), context)


async def mirror(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(page("ok"))


@pytest.mark.parametrize("description", [OLD, NEW])
def test_the_descriptions_of_these_tests_are_valid(description: dict[str, Any]) -> None:
    validate(deepcopy(description))


def test_chosen_operations_are_tools_in_their_order(tmp_path: Path) -> None:
    file = written(tmp_path, OLD)
    tools = openapi_tools(file, ["pets/delete", "GET /pets/*", "*Pets"])
    assert [(one.spec.name, one.effect) for one in tools] == [
        ("listPets", "read"), ("get_pets_pet_id", "read"), ("pets_delete", "idempotent"),
    ]  # fmt: skip
    assert tools[0].spec.description == "List pets.\nIn pages."
    said = {"createPet": "idempotent"}
    (created,) = openapi_tools(file, ["createPet"], effects=said)  # type: ignore[arg-type]
    assert (created.effect, created.traits.description) == (
        "idempotent", "it sends POST https://eu.pets.example/v1/pets",
    )  # fmt: skip


def test_parameters_of_path_and_operation_are_one_schema(tmp_path: Path) -> None:
    (one,) = openapi_tools(written(tmp_path, OLD), ["GET /pets/{pet.id}"])
    assert one.spec.parameters == {
        "type": "object",
        "properties": {
            "pet_id": {"type": "string"},
            "lang": {"type": "string", "enum": ["en", "de"], "description": "Of this."},
        },
        "required": ["pet_id", "lang"],
        "additionalProperties": False,
    }


def test_a_part_of_a_path_that_nobody_describes_is_a_text(tmp_path: Path) -> None:
    (one,) = openapi_tools(written(tmp_path, changed(OLD, **{"/x/{y}/z": {"get": operation()}})), ["odd"])
    assert one.spec.parameters["properties"] == {"y": {"type": "string"}}
    assert one.subject(one.parse('{"y": "a/b"}')) == "https://eu.pets.example/v1/x/a%2Fb/z"


def test_the_body_is_the_schema_without_what_only_answers_hold(tmp_path: Path) -> None:
    (one,) = openapi_tools(written(tmp_path, OLD), ["createPet"])
    schema = one.spec.parameters
    assert schema["required"] == ["body"]
    pet = schema["$defs"]["Pet"]
    assert pet["required"] == ["name"]
    assert set(pet["properties"]) == {"name", "nickname", "mother", "owner"}
    assert pet["properties"]["name"] == {"type": "string"}
    assert pet["properties"]["nickname"] == {"type": ["string", "null"], "enum": ["a", "b", None]}
    assert pet["properties"]["owner"] == {"type": "object", "properties": {"email": {"type": "string"}}}
    one.parse('{"body": {"name": "Rex", "nickname": null, "mother": {"name": "Lea"}}}')
    with pytest.raises(BadArguments, match="nickname"):
        one.parse('{"body": {"name": "Rex", "mother": {"name": "Lea", "nickname": "c"}}}')


def test_limits_of_3_0_are_those_of_json_schema(tmp_path: Path) -> None:
    (one,) = openapi_tools(written(tmp_path, OLD), ["listPets"])
    properties = one.spec.parameters["properties"]
    assert properties["limit"] == {"type": "integer", "exclusiveMinimum": 0}
    assert properties["X-Trace"]["type"] == ["string", "null"]
    assert "Authorization" not in properties


async def test_every_style_is_sent_as_it_is_described(tmp_path: Path) -> None:
    async with WebSite({"/v1/pets": mirror}) as site:
        tools = openapi_tools(
            written(tmp_path, OLD), ["listPets"], base_url=f"{site.url}/v1/",
            headers={"Authorization": "Bearer ${KEY}"}, query={"limit": 7}, env={"KEY": "a-long-secret"},
        )  # fmt: skip
        (one,) = tools
        assert "limit" not in one.spec.parameters["properties"]
        ended = await run(
            one, tag=["a", "b&c"], ids=[1, 2], pipes=["x", "y"], filter={"name": "R x"}, where={"a": [1]},
            mood="good; bad", **{"X-Trace": "t1"},
        )  # fmt: skip
    assert ended.content == "HTTP 200\nok"
    (seen,) = site.seen
    assert seen.target == (
        "/v1/pets?tag=a&tag=b%26c&ids=1,2&pipes=x%7Cy&filter%5Bname%5D=R%20x"
        "&where=%7B%22a%22%3A%5B1%5D%7D&limit=7"
    )
    assert seen.headers["x-trace"] == "t1"
    assert seen.headers["authorization"] == "Bearer a-long-secret"
    assert seen.headers["cookie"] == "mood=good%3B%20bad"


async def test_bodies_are_json_of_their_type_or_forms(tmp_path: Path) -> None:
    async with WebSite({"/v1/pets/a%2Fb": mirror, "/api/notes/3": mirror}) as site:
        (form,) = openapi_tools(written(tmp_path, OLD), ["putPet"], base_url=f"{site.url}/v1")
        await run(form, pet_id="a/b", body={"name": "R&x"})
        (patch,) = openapi_tools(written(tmp_path, NEW), ["changeNote"], base_url=f"{site.url}/api")
        await run(patch, id=3, body={"text": None, "tree": {"children": [{}]}})
    assert (site.seen[0].method, site.seen[0].body) == ("PUT", b"name=R%26x")
    assert site.seen[1].headers["content-type"] == "application/merge-patch+json"
    assert json.loads(site.seen[1].body) == {"text": None, "tree": {"children": [{}]}}


def changed(description: dict[str, Any], **paths: Any) -> dict[str, Any]:
    return {**description, "paths": {**description["paths"], **paths}}


def operation(**more: Any) -> dict[str, Any]:
    return {"operationId": "odd", "responses": {}, **more}


def parameter(**more: Any) -> dict[str, Any]:
    return operation(parameters=[{"name": "p", "in": "query", "schema": {"type": "string"}, **more}])


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"swagger": "2.0"}, "odd", "is not an OpenAPI 3 description"),
    (OLD, "upload", "takes multipart/form-data as its body, and neither JSON nor a form"),
    (OLD, "listPet", "has no operation `listPet`. Did you mean `listPets`?"),
    (
        NEW,
        "changeNote",
        "is at '/api', which must start with http:// or https://. Set `base_url` to its address.",
    ),
    (
        changed(OLD, **{"/x": {"get": parameter(style="matrix")}}),
        "odd",
        "of the style matrix, which cannot be sent",
    ),
    (
        changed(OLD, **{"/x": {"get": parameter(**{"in": "body"})}}),
        "odd",
        "in `body`, which is not a",
    ),
    (
        changed(OLD, **{"/x": {"get": parameter(**{"in": "path"})}}),
        "odd",
        "has a path parameter `p` that its path",
    ),
    (
        changed(OLD, **{"/x": {"get": parameter(schema={"$ref": "#/nowhere"})}}),
        "odd",
        "refers to #/nowhere, which is not there",
    ),
    (
        changed(OLD, **{"/x": {"get": parameter(schema={"$ref": "other.json#/a"})}}),
        "odd",
        "refers to other.json#/a, which is not in this file",
    ),
    (
        {**changed(OLD, **{"/x": {"$ref": "#/a"}}), "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}},
        "listPets",
        "the reference #/a of the path /x refers to itself",
    ),
    (
        changed(OLD, **{"/x": {"get": operation(operationId="listPets")}}),
        "listPets",
        "There are two tools called listPets:",
    ),
]


@pytest.mark.parametrize(("description", "wanted", "sentence"), BAD, ids=[sentence for *_, sentence in BAD])
def test_what_does_not_fit_is_one_sentence(
    description: dict[str, Any], wanted: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        openapi_tools(written(tmp_path, description), [wanted])
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("asked", "sentence"), [
    ({"operations": []}, "`operations`"),
    ({"operations": ["listPets"], "timeout_s": 0}, "`timeout`"),
    ({"operations": ["listPets"], "ask": "sometimes"}, "`ask`"),
    ({"operations": ["listPets"], "base_url": "https://{host}/"}, "has a placeholder in its `base_url`"),
    ({"operations": ["listPets"], "effects": {"noPets": "read"}}, "has no operation `noPets`"),
    ({"operations": ["listPets"], "headers": {"Host": "x"}}, "has a header `Host` that cannot be sent"),
])  # fmt: skip
def test_what_is_asked_and_does_not_fit_is_one_sentence(
    asked: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(SandburError) as caught:
        openapi_tools(written(tmp_path, OLD), **asked)
    assert sentence in str(caught.value)


def test_a_long_chain_of_references_that_ends_where_it_began_is_read(tmp_path: Path) -> None:
    schemas = {
        f"S{n}": {"type": "object", "properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}}}
        for n in range(300)
    }
    schemas["S300"] = {"$ref": "#/components/schemas/S0"}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    description = {
        **OLD, "paths": {"/x": {"post": operation(requestBody=body)}}, "components": {"schemas": schemas},
    }  # fmt: skip
    (one,) = openapi_tools(written(tmp_path, description), ["odd"])
    one.parse('{"body": {"next": {"next": {}}}}')
