"""State fields as JSON and back; histories are written as references into the message log."""

from functools import cache
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter

from state.messages import Message
from state.transcript import LogBook


@cache
def _adapters(model: type[BaseModel]) -> dict[str, TypeAdapter[Any]]:
    # The annotation alone loses the Field metadata, which stored fields do not use.
    fields = model.model_fields.items()
    return {name: TypeAdapter(cast(type[Any], field.annotation)) for name, field in fields}


def encode_field(model: type[BaseModel], name: str, value: Any, book: LogBook) -> str:
    adapter = _adapters(model)[name]
    return adapter.dump_json(value, context={"log_book": book}).decode()


def decode_fields(model: type[BaseModel], fields: dict[str, Any], book: LogBook) -> dict[str, Any]:
    """Return every field of `model`; fields that an older version did not write get their defaults."""
    empty = model()
    values = {name: getattr(empty, name) for name in model.model_fields}
    adapters = _adapters(model)
    known = {name: value for name, value in fields.items() if name in adapters}
    values |= {
        name: adapters[name].validate_python(value, context={"log_book": book})
        for name, value in known.items()
    }
    return values


def encode_message(message: Message) -> str:
    return message.model_dump_json(exclude_none=True)


def decode_message(body: str) -> Message:
    return Message.model_validate_json(body)
