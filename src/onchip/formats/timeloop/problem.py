"""The problem file of Timeloop as a Layer: a convolution by its loops (as in CoSA), or an einsum of any shape (0.4)."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.errors import InputError, NetworkWarning
from onchip.formats.files import read_file
from onchip.formats.timeloop.document import read_document
from onchip.formats.timeloop.shape import NAMED_SHAPES, ShapeFields, layer_of, named_sizes
from onchip.formats.validation import Format, quoted, validate
from onchip.ir.layer import Layer

PROBLEM: Final = Format("Timeloop problem", 3, InputError)
SPARSE: Final = frozenset({"densities", "commonDensity"})


class ProblemFields(TypedDict):
    """The loops of a convolution; W is the axis of P and R, H that of Q and S, as in Timeloop's own shape."""

    shape: NotRequired[Literal["cnn-layer", "cnn_layer"]]
    version: NotRequired[str | int | float]
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


class ShapedFields(TypedDict):
    """An instance of a shape, which stands here or is one of Timeloop's own."""

    version: NotRequired[str | int | float]
    name: NotRequired[str]
    shape: ShapeFields
    instance: dict[str, Any]


class ProblemFileFields(TypedDict):
    """The problem by its name; it may also be all of the file."""

    problem: ProblemFields


class ShapedFileFields(TypedDict):
    """The problem by its name."""

    problem: ShapedFields


def read_timeloop_problem(path: Path) -> Layer:
    """Read a problem file, 8 bits an element; raises InputError with line and field."""
    return timeloop_problem(read_file(path), str(path))


def timeloop_problem(text: str | bytes, file: str) -> Layer:
    """Read `text`, of which other parts than the problem are passed over; raises InputError that names `file`.

    Images are as large as the loops reach, unpadded. Warns with NetworkWarning of what an instance states in vain.
    """
    document = read_document(text, PROBLEM, file)
    value = document.value
    is_flat = isinstance(value, dict) and "problem" not in value
    problem = value if is_flat else value["problem"] if isinstance(value, dict) else value
    try:
        if isinstance(problem, dict) and "instance" in problem:
            shape = _shape_of(problem.get("shape", "cnn_layer"))
            encoded = json.dumps({"problem": {**problem, "shape": shape}}).encode()
            return _shaped(validate(ShapedFileFields, encoded, PROBLEM, file)["problem"], file)
        encoded = json.dumps({"problem": problem}).encode()
        return _layer(validate(ProblemFileFields, encoded, PROBLEM, file)["problem"])
    except InputError as error:
        place = error.place or ""
        error.place = document.place(place.removeprefix("problem.") if is_flat else place)
        raise error.in_file(file) from None


def _with_underscores(value: object) -> object:
    """Return a shape with `data-spaces` and `read-write` of 0.3 spelled as in 0.4."""
    if isinstance(value, dict):
        names = {"data-spaces": "data_spaces", "read-write": "read_write"}
        return {names.get(name, name): _with_underscores(part) for name, part in value.items()}
    return [_with_underscores(part) for part in value] if isinstance(value, list) else value


def _shape_of(given: object) -> object:
    """Return a shape, of Timeloop's own by its name; raises InputError for another name."""
    if not isinstance(given, str):
        return _with_underscores(given)
    shape = NAMED_SHAPES.get(given.lower().replace("-", "_"))
    if shape is None:
        expected = f"a shape in the file, or one of {', '.join(NAMED_SHAPES)}"
        raise InputError(f"it is {quoted(given)}", place="problem.shape", expected=expected)
    return shape


def _shaped(fields: ShapedFields, file: str) -> Layer:
    instance = fields["instance"]
    try:
        layer = layer_of(fields["shape"], instance)
    except InputError as error:
        place = f"problem.{error.place}" if error.place and error.place != "layer" else "problem"
        raise InputError(error.what, place=place, expected=error.expected) from None
    if sparse := sorted(SPARSE & instance.keys()):
        warnings.warn(f"{file}: its {sparse[0]} are not modelled: all tensors are dense", NetworkWarning, stacklevel=2)
    names = named_sizes(fields["shape"]) | SPARSE
    if unread := [name for name in instance if name not in names and instance[name] not in (0, 1)]:
        what = f"{', '.join(unread)} in its instance names no dimension or coefficient and is not read, as in Timeloop"
        warnings.warn(f"{file}: {what}", NetworkWarning, stacklevel=2)
    return layer


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
