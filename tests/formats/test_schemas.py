from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

from support.schemas import SCHEMA_FOLDER, schema_files

Json: TypeAlias = Any


def objects_of(schema: Json) -> Iterator[dict[str, Json]]:
    """Yield every part of a schema that describes an object with fields."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from objects_of(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects_of(part)


def test_the_schema_files_are_up_to_date() -> None:
    """Regenerate them with PYTHONPATH=src:tests python -m support.schemas."""
    written = {path.name: path.read_text(encoding="utf-8") for path in SCHEMA_FOLDER.glob("*.json")}
    assert written == schema_files()


@pytest.mark.parametrize("name", ["graph", "plan", "accelerator", "mapping", "strategy", "schedule", "study"])
def test_no_object_allows_unknown_fields(name: str) -> None:
    schema = json.loads((SCHEMA_FOLDER / f"onchip-{name}.schema.json").read_bytes())
    objects = list(objects_of(schema))
    assert len(objects) >= 3
    for part in objects:
        assert part["additionalProperties"] is False or "properties" not in part
    assert schema["additionalProperties"] is False
    assert schema["properties"]["format"]["const"] == f"onchip-{name}"
    assert schema["properties"]["version"]["const"] == 1


@pytest.mark.parametrize("name", ["plan", "schedule"])
def test_an_instruction_is_one_of_four(name: str) -> None:
    schema = json.loads((SCHEMA_FOLDER / f"onchip-{name}.schema.json").read_bytes())
    instruction = schema["$defs"]["InstructionFields"]
    assert set(instruction["properties"]) == {"allocate", "copy", "compute", "free"}
    assert (instruction["minProperties"], instruction["maxProperties"]) == (1, 1)
