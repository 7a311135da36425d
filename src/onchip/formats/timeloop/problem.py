"""The problem file of Timeloop (as in ucb-bar/cosa, configs/workloads) as a Layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.errors import InputError
from onchip.formats.files import read_file
from onchip.formats.validation import Format, validate
from onchip.formats.yaml_nodes import parse_yaml
from onchip.ir.layer import Layer

PROBLEM: Final = Format("Timeloop problem", 3, InputError)


class ProblemFields(TypedDict):
    """The loops of a convolution; W is the axis of P and R, H that of Q and S, as in Timeloop's own shape."""

    shape: NotRequired[Literal["cnn-layer"]]
    N: int
    K: int
    C: int
    P: int
    Q: int
    R: int
    S: int
    Wstride: NotRequired[int]
    Hstride: NotRequired[int]
    Wdilation: NotRequired[int]
    Hdilation: NotRequired[int]


class ProblemFileFields(TypedDict):
    """The problem by its name; it may also be all of the file."""

    problem: ProblemFields


def read_timeloop_problem(path: Path) -> Layer:
    """What a problem file says, 8 bits an element; raises InputError with line and field."""
    return timeloop_problem(read_file(path), str(path))


def timeloop_problem(text: str | bytes, file: str) -> Layer:
    """What `text` says; raises InputError that names `file`. Images are as large as the loops reach, unpadded."""
    document = parse_yaml(text, PROBLEM, file)
    is_flat = isinstance(document.value, dict) and "problem" not in document.value
    value = {"problem": document.value} if is_flat else document.value
    try:
        fields = validate(ProblemFileFields, json.dumps(value).encode(), PROBLEM, file)["problem"]
        return _layer(fields)
    except InputError as error:
        place = error.place or ""
        error.place = document.place(place.removeprefix("problem.") if is_flat else place)
        raise error.in_file(file) from None


def _layer(fields: ProblemFields) -> Layer:
    try:
        return Layer(
            fields["N"],
            fields["K"],
            fields["C"],
            fields["P"],
            fields["Q"],
            fields["R"],
            fields["S"],
            stride=(fields.get("Wstride", 1), fields.get("Hstride", 1)),
            dilation=(fields.get("Wdilation", 1), fields.get("Hdilation", 1)),
        )
    except InputError as error:
        raise InputError(error.what, place="problem", expected=error.expected) from None
