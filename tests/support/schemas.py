"""JSON schemas of the file formats, for editors and other tools, generated from the TypedDicts that the readers use.

`PYTHONPATH=src:tests python -m support.schemas` writes the schema files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import is_typeddict

from onchip.formats import own
from onchip.formats.files import write_file
from onchip.formats.own.accelerator_yaml import ACCELERATOR_FORMAT, AcceleratorFields
from onchip.formats.own.graph_json import GRAPH_FORMAT, GraphFields
from onchip.formats.own.mapping_yaml import MAPPING_FORMAT, MappingFileFields
from onchip.formats.own.plan_json import PLAN_FORMAT, PlanFields
from onchip.formats.own.schedule_json import SCHEDULE_FORMAT, ScheduleFields
from onchip.formats.own.strategy_json import STRATEGY_FORMAT, StrategyFields
from onchip.formats.validation import Format
from onchip.sweeps import study
from onchip.sweeps.study import STUDY_FORMAT, StudyFields

SCHEMA_FOLDER: Final = Path(own.__file__).parent / "schemas"
_FORMATS: Final = (
    (GRAPH_FORMAT, GraphFields),
    (PLAN_FORMAT, PlanFields),
    (ACCELERATOR_FORMAT, AcceleratorFields),
    (MAPPING_FORMAT, MappingFileFields),
    (STRATEGY_FORMAT, StrategyFields),
    (SCHEDULE_FORMAT, ScheduleFields),
    (STUDY_FORMAT, StudyFields),
)


def schema_files() -> dict[str, str]:
    """Return a map from schema file name to its text."""
    return {f"{form.name}.schema.json": _schema(form, shape) for form, shape in _FORMATS}


def write_schemas(folder: Path = SCHEMA_FOLDER) -> None:
    """Write the JSON schemas of onchip's formats into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in schema_files().items():
        write_file(folder / name, text.encode())


def _schema(file_format: Format, shape: Any) -> str:  # noqa: ANN401 - pydantic marks the type
    _describe_fields()
    schema = _without_titles(TypeAdapter(shape).json_schema())
    for name, refine in _REFINEMENTS.items():
        if name in schema.get("$defs", {}):
            refine(schema["$defs"])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": file_format.name}
    return json.dumps(head | schema, indent=2) + "\n"


def _describe_fields() -> None:
    """Let pydantic take the docstrings of all fields; readers do without, because that parses the sources."""
    for name, module in list(sys.modules.items()):
        for shape in vars(module).values() if name.startswith((own.__name__, study.__name__)) else ():
            if is_typeddict(shape):
                shape.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


def _without_titles(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """Drop the titles that pydantic gives every field; a field may itself be called title."""
    if isinstance(schema, dict):
        return {
            key: _without_titles(value) for key, value in schema.items() if key != "title" or isinstance(value, dict)
        }
    return [_without_titles(entry) for entry in schema] if isinstance(schema, list) else schema


def _refine_tensors(definitions: dict[str, Any]) -> None:
    definitions["TensorFields"]["oneOf"] = [{"required": ["shape", "bits"]}, {"required": ["bytes"]}]
    definitions["TensorFields"]["dependentRequired"] = {
        "shape": ["bits"],
        "bits": ["shape"],
        "part_of": ["region"],
        "region": ["part_of"],
    }


def _refine_attributes(definitions: dict[str, Any]) -> None:
    value = {"$ref": "#/$defs/AttributeValue"}
    scalars = ["boolean", "integer", "number", "string", "null"]
    definitions["AttributeValue"] = {"anyOf": [{"type": scalars}, {"type": "array", "items": value}]}
    definitions["OperatorFields"]["properties"]["attributes"] = {"type": "object", "additionalProperties": value}


def _refine_instructions(definitions: dict[str, Any]) -> None:
    definitions["InstructionFields"] |= {"minProperties": 1, "maxProperties": 1}


def _refine_parameters(definitions: dict[str, Any]) -> None:
    spelled_out = definitions["ParameterFields"]
    definitions["ParameterFields"] = {"anyOf": [spelled_out, {"type": "string"}, {"type": "array"}]}


_REFINEMENTS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "TensorFields": _refine_tensors,
    "OperatorFields": _refine_attributes,
    "InstructionFields": _refine_instructions,
    "ParameterFields": _refine_parameters,
}

if __name__ == "__main__":
    write_schemas()
