"""The study file: networks, machines, parameters, objectives and options of a sweep, as YAML."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from re import split
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.errors import InputError
from onchip.formats.files import read_file
from onchip.formats.validation import Format, check_format, validate
from onchip.formats.yaml_documents import YamlDocument, parse_yaml

STUDY_FORMAT: Final = Format("onchip-study", 1, InputError)


class ParameterFields(TypedDict, total=False):
    """The values of a parameter: a `range` (`256KiB..8MiB`) in `steps` or doubling, or `values`.

    `path` is the field of the accelerator that varies, by default the name of the parameter. In a file the text of a
    range, or a list of values, may stand alone.
    """

    path: str
    """Field of the accelerator that varies, such as `memories.sram.capacity`."""
    range: str
    """First and last value."""
    steps: int
    """Number of values, evenly spaced."""
    doubling: bool
    """True if each value is twice the one before."""
    values: list[Any]
    """List of values."""


class CostTableFields(TypedDict):
    """A cost by the value of a parameter, or by the accelerator."""

    by: str
    """Name of the parameter, or `accelerator`."""
    table: dict[str, float]
    """Map from a value to the cost."""


class PointLimitFields(TypedDict, total=False):
    """Limits for computing one point; the memory limit is bytes, or text with a unit."""

    memory: int | str
    """Memory of the process that computes a point."""
    seconds: float
    """Seconds for one point."""


class StudyFields(TypedDict):
    """A study file. A list as the value of an option is an axis of the study, as parameters are."""

    format: Literal["onchip-study"]
    """Name of the format."""
    version: Literal[1]
    """Version of the format."""
    name: NotRequired[str]
    """Name of the study."""
    verb: NotRequired[Literal["plan", "map", "fuse", "schedule"]]
    """Command that answers a point; `plan` if absent."""
    networks: list[str]
    """Networks by name or file."""
    accelerators: NotRequired[list[str]]
    """Accelerators by name or file."""
    parameters: NotRequired[dict[str, ParameterFields]]
    """Parameters that vary, by name."""
    objectives: NotRequired[list[str]]
    """Objectives to minimise."""
    options: NotRequired[dict[str, Any]]
    """Options of the command."""
    constraints: NotRequired[list[str]]
    """Conditions that a point must meet, as expressions over parameters and figures."""
    costs: NotRequired[dict[str, str | CostTableFields]]
    """Costs of a point, as expressions or tables."""
    limits: NotRequired[PointLimitFields]
    """Limits for computing one point."""


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
