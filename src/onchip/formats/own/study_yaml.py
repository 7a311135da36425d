"""The study file: networks, machines, parameters, objectives and options of a sweep, as YAML."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from re import split
from typing import Annotated, Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.errors import InputError
from onchip.formats.files import read_file
from onchip.formats.validation import Doc, Format, check_format, validate
from onchip.formats.yaml_documents import YamlDocument, parse_yaml

STUDY_FORMAT: Final = Format("onchip-study", 1, InputError)


class ParameterFields(TypedDict, total=False):
    """The values of a parameter: a `range` (`256KiB..8MiB`) in `steps` or doubling, or `values`.

    `path` is the field of the accelerator that varies, by default the name of the parameter. In a file the text of a
    range, or a list of values, may stand alone.
    """

    path: Annotated[str, Doc("Field of the accelerator that varies, such as `memories.sram.capacity`.")]
    range: Annotated[str, Doc("First and last value.")]
    steps: Annotated[int, Doc("Number of values, evenly spaced.")]
    doubling: Annotated[bool, Doc("True if each value is twice the one before.")]
    values: Annotated[list[Any], Doc("List of values.")]


class CostTableFields(TypedDict):
    """A cost by the value of a parameter, or by the accelerator."""

    by: Annotated[str, Doc("Name of the parameter, or `accelerator`.")]
    table: Annotated[dict[str, float], Doc("Map from a value to the cost.")]


class PointLimitFields(TypedDict, total=False):
    """Limits for computing one point; the memory limit is bytes, or text with a unit."""

    memory: Annotated[int | str, Doc("Memory of the process that computes a point.")]
    seconds: Annotated[float, Doc("Seconds for one point.")]


class StudyFields(TypedDict):
    """A study file. A list as the value of an option is an axis of the study, as parameters are."""

    format: Annotated[Literal["onchip-study"], Doc("Name of the format.")]
    version: Annotated[Literal[1], Doc("Version of the format.")]
    name: NotRequired[Annotated[str, Doc("Name of the study.")]]
    verb: NotRequired[Literal["plan", "map", "fuse", "schedule"]]
    """Command that answers a point; `plan` if absent."""
    networks: Annotated[list[str], Doc("Networks by name or file.")]
    accelerators: NotRequired[Annotated[list[str], Doc("Accelerators by name or file.")]]
    parameters: NotRequired[Annotated[dict[str, ParameterFields], Doc("Parameters that vary, by name.")]]
    objectives: NotRequired[Annotated[list[str], Doc("Objectives to minimise.")]]
    options: NotRequired[Annotated[dict[str, Any], Doc("Options of the command.")]]
    constraints: NotRequired[list[str]]
    """Conditions that a point must meet, as expressions over parameters and figures."""
    costs: NotRequired[Annotated[dict[str, str | CostTableFields], Doc("Costs of a point, as expressions or tables.")]]
    limits: NotRequired[Annotated[PointLimitFields, Doc("Limits for computing one point.")]]


@dataclass(frozen=True, slots=True)
class StudyFile:
    """The fields of a study file, and the line of each."""

    fields: StudyFields
    document: YamlDocument
    file: str

    def located(self, error: InputError) -> InputError:
        """Return the error with the file, and with the line if its place is a field of the study."""
        place = error.place or ""
        if split(r"\W", place, maxsplit=1)[0] in StudyFields.__annotations__:
            error.place = self.document.place(place)
        return error.in_file(self.file)


def read_study_file(path: Path) -> StudyFile:
    """Read a study file; raises InputError with file, line and field."""
    file = str(path)
    document = parse_yaml(read_file(path), STUDY_FORMAT, file)
    try:
        check_format(document.value, STUDY_FORMAT, file)
        encoded = json.dumps(_spelled_out(document.value)).encode()
        return StudyFile(validate(StudyFields, encoded, STUDY_FORMAT, file), document, file)
    except InputError as error:
        head, _, last = (error.place or "").rpartition(".")
        is_alternative = last in ("str", "int", "CostTableFields")  # pydantic adds the alternative that it tried
        error.place = document.place(head if is_alternative else error.place or "")
        raise error.in_file(file) from None


def study_of_value(value: dict[str, object]) -> StudyFields:
    """Return the fields of a study given as a dict without format and version; raises InputError with the field."""
    whole = {"format": STUDY_FORMAT.name, "version": STUDY_FORMAT.version, **value}
    try:
        encoded = json.dumps(_spelled_out(whole), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"it is no study: {error}", expected="numbers, texts, lists and dictionaries") from None
    return validate(StudyFields, encoded, STUDY_FORMAT, "study")


def _spelled_out(value: Any) -> Any:  # noqa: ANN401 - YAML
    """Return the study with fields for parameters that are written as a range or a list alone."""
    parameters = value.get("parameters")
    if not isinstance(parameters, dict):
        return value
    return value | {"parameters": {name: _parameter(one) for name, one in parameters.items()}}


def _parameter(value: object) -> object:
    if isinstance(value, list):
        return {"values": value}
    return {"range": value} if isinstance(value, str) else value
