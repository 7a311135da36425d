"""The problem file of Timeloop as a Layer: a convolution by its loops (as in CoSA), or an einsum of any shape (0.4)."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NotRequired

from typing_extensions import TypedDict

from onchip.errors import InputError, NetworkWarning
from onchip.formats.timeloop.components import read_document
from onchip.formats.validation import Format, quoted, validate
from onchip.ir.layer import Layer
from onchip.ops.contractions import MetAxis, contraction
from onchip.ops.windows import NoLayerError

AXES: Final = (("P", "R"), ("Q", "S"))
INPUT_NAMES, WEIGHT_NAMES = ("Inputs", "Input", "A"), ("Weights", "Weight", "B")


class CoefficientFields(TypedDict):
    """A stride or dilation of the projections."""

    name: str
    default: int


class DataSpaceFields(TypedDict):
    """A tensor; each rank of its projection is a sum of products: `[[R, Wdilation], [P, Wstride]]`."""

    name: str
    projection: list[list[list[str]]]
    read_write: NotRequired[bool | int | str]


class ShapeFields(TypedDict):
    """An einsum, by the dimensions that lead to another element of each of its tensors."""

    name: NotRequired[str]
    dimensions: list[str]
    data_spaces: list[DataSpaceFields]
    coefficients: NotRequired[list[CoefficientFields]]
    flatten: NotRequired[Any]


NAMED_SHAPES: Final[Mapping[str, ShapeFields]] = {
    "cnn_layer": {
        "dimensions": ["R", "S", "P", "Q", "C", "K", "N"],
        "coefficients": [{"name": name, "default": 1} for name in ("Wstride", "Hstride", "Wdilation", "Hdilation")],
        "data_spaces": [
            {"name": "Weights", "projection": [[["C"]], [["K"]], [["R"]], [["S"]]]},
            {
                "name": "Inputs",
                "projection": [
                    [["N"]],
                    [["C"]],
                    [["R", "Wdilation"], ["P", "Wstride"]],
                    [["S", "Hdilation"], ["Q", "Hstride"]],
                ],
            },
            {"name": "Outputs", "projection": [[["N"]], [["K"]], [["Q"]], [["P"]]], "read_write": True},
        ],
    },
    "gemm_abz": {
        "dimensions": ["M", "N", "K"],
        "data_spaces": [
            {"name": "A", "projection": [[["M"]], [["K"]]]},
            {"name": "B", "projection": [[["N"]], [["K"]]]},
            {"name": "Z", "projection": [[["M"]], [["N"]]], "read_write": True},
        ],
    },
}
"""Timeloop's own shapes (problem-shapes) that are one layer, by their names in small letters."""


@dataclass(frozen=True, slots=True)
class _Window:
    """A rank of the input along which a filter slides over outputs."""

    output: str
    filter: str | None
    stride: int
    dilation: int


def layer_of(shape: ShapeFields, instance: Mapping[str, object]) -> Layer:
    """Return the layer of a shape and the sizes of its dimensions; raises InputError with the field's path."""
    if "flatten" in shape:
        raise InputError("it flattens dimensions", "shape.flatten", "dimensions as they are")
    sizes = {name: _size(instance, name) for name in shape["dimensions"]}
    coefficients = {one["name"]: _size(instance, one["name"], one["default"]) for one in shape.get("coefficients", ())}
    return _Einsum(shape, sizes, coefficients).layer()


def _size(instance: Mapping[str, object], name: str, default: int | None = None) -> int:
    size = instance.get(name, default)
    if size is None:
        raise InputError(f"dimension {name} has no size", "instance", f"{name}: a whole number")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InputError(f"{name} is {size!r}", f"instance.{name}", "a whole number from 1")
    return size


@dataclass(frozen=True, slots=True)
class _Einsum:
    shape: ShapeFields
    sizes: Mapping[str, int]
    coefficients: Mapping[str, int]

    def layer(self) -> Layer:
        """Return the layer.

        Windows are P, Q, R, S. A dimension of all tensors is G, one of the output and one other tensor is N or K, and
        any other is C. Raises InputError for dimensions that fit no loop.
        """
        at_output, at_input, at_weight = self._tensors()
        output, weight = (self._plain(at) if at is not None else frozenset[str]() for at in (at_output, at_weight))
        windows = self._windows(at_input, output, weight)
        slid = {name for one in windows.values() for name in (one.output, one.filter) if name is not None}
        read, is_alone = frozenset(self._dimensions(at_input)), at_weight is None
        axes = [
            MetAxis(size, name in read, name not in output if is_alone else name in weight, name in output)
            for name, size in self.sizes.items()
            if name not in slid
        ]
        try:
            plain = contraction(axes)
        except NoLayerError as error:
            expected = "dimensions that two data spaces share"
            raise InputError(f"of its dimensions {error}", "shape.data_spaces", expected) from None
        rows, columns = (windows.get(axis, _Window("", None, 1, 1)) for axis in (0, 1))
        p, r, q, s = (self.sizes.get(name or "", 1) for one in (rows, columns) for name in (one.output, one.filter))
        strides, dilations = (rows.stride, columns.stride), (rows.dilation, columns.dilation)
        return replace(plain, p=p, q=q, r=r, s=s, stride=strides, dilation=dilations, has_weight=not is_alone)

    def _tensors(self) -> tuple[int, int, int | None]:
        """Return the places of the output, the input and the weight among the data spaces."""
        spaces = self.shape["data_spaces"]
        written = [at for at, one in enumerate(spaces) if str(one.get("read_write", False)).lower() in ("true", "1")]
        read = [at for at in range(len(spaces)) if at not in written]
        if len(written) != 1 or not 1 <= len(read) <= 2:
            detail = f"{len(written)} data spaces are written and {len(read)} are read"
            raise InputError(detail, "shape.data_spaces", "one with read_write, and one or two others")
        for at, space in enumerate(spaces):
            names = Counter(self._dimensions(at))
            unknown = [name for name in names if name not in self.sizes]
            twice = [name for name, times in names.items() if times > 1]
            if unknown or twice:
                detail = f"{space['name']} is indexed by {', '.join(unknown or twice)}"
                what = "which is no dimension" if unknown else "twice"
                place = f"shape.data_spaces[{at}].projection"
                raise InputError(f"{detail}, {what}", place, "each dimension at most once")
        if len(read) == 1:
            return written[0], read[0], None
        is_input = [
            spaces[at]["name"] in INPUT_NAMES or any(len(rank) > 1 for rank in spaces[at]["projection"]) for at in read
        ]
        is_weight = [spaces[at]["name"] in WEIGHT_NAMES for at in read]
        if (is_input[1] and not is_input[0]) or (is_weight[0] and not is_weight[1]):
            read.reverse()
        return written[0], read[0], read[1]

    def _dimensions(self, at: int) -> Iterator[str]:
        for rank in self.shape["data_spaces"][at]["projection"]:
            for term in rank:
                yield from term[:1]

    def _plain(self, at: int) -> frozenset[str]:
        """Return the dimensions of a tensor that no window slides over; raises InputError for one with sums."""
        for rank in self.shape["data_spaces"][at]["projection"]:
            if len(rank) != 1 or len(rank[0]) != 1:
                name = self.shape["data_spaces"][at]["name"]
                place = f"shape.data_spaces[{at}].projection"
                raise InputError(f"{name} is indexed by a sum", place, "sums for the input alone")
        return frozenset(self._dimensions(at))

    def _windows(self, at: int, output: frozenset[str], weight: frozenset[str]) -> dict[int, _Window]:
        """Return the windows of the input by axis: 0 for height, 1 for width."""
        found = []
        for rank in self.shape["data_spaces"][at]["projection"]:
            terms = [(term[0], self._factor(term, at)) for term in rank]
            outputs = [term for term in terms if term[0] in output and term[0] not in weight]
            filters = [term for term in terms if term[0] not in output]
            is_slid = len(terms) == 2 or (len(terms) == 1 and terms[0][1] > 1)
            if not is_slid and len(terms) == 1:
                continue
            if len(outputs) != 1 or len(filters) != len(terms) - 1 or len(filters) > 1:
                detail = f"a sum of {', '.join(name for name, _ in terms) or 'nothing'} slides over nothing"
                place = f"shape.data_spaces[{at}].projection"
                raise InputError(detail, place, "a dimension of the output and one that is summed up")
            name, dilation = filters[0] if filters else (None, 1)
            found.append(_Window(outputs[0][0], name, outputs[0][1], dilation))
        if len(found) > len(AXES):
            detail = f"{len(found)} windows slide over the input"
            raise InputError(detail, f"shape.data_spaces[{at}].projection", "at most two")
        return self._by_axis(found)

    @staticmethod
    def _by_axis(windows: Sequence[_Window]) -> dict[int, _Window]:
        """Map axes to windows: by the names of their dimensions, or else in order."""
        named = [
            next((at for at, axis in enumerate(AXES) if {one.output, one.filter} & set(axis)), -1) for one in windows
        ]
        if sorted(set(named)) == sorted(named) and -1 not in named:
            return dict(zip(named, windows, strict=True))
        return dict(enumerate(windows))

    def _factor(self, term: Sequence[str], at: int) -> int:
        """Return the coefficient of a term, 1 where it has none."""
        place = f"shape.data_spaces[{at}].projection"
        if not 1 <= len(term) <= 2:
            raise InputError(f"a product has {len(term)} factors", place, "a dimension and a coefficient")
        if len(term) == 1:
            return 1
        if term[1] not in self.coefficients:
            raise InputError(f"{term[1]} is no coefficient", place, "one of `coefficients`")
        return self.coefficients[term[1]]


PROBLEM: Final = Format("Timeloop problem", 3, InputError)
SPARSE: Final = frozenset({"densities", "commonDensity"})


class ShapedFields(TypedDict):
    """An instance of a shape, which the file states or Timeloop defines."""

    version: NotRequired[str | int | float]
    name: NotRequired[str]
    shape: ShapeFields
    instance: dict[str, Any]


class ShapedFileFields(TypedDict):
    """The problem by its name; the file may also be the problem itself."""

    problem: ShapedFields


def timeloop_problem(text: str | bytes, file: str) -> Layer:
    """Read the problem in `text`, and ignore other parts; raises InputError that names `file`.

    A problem without an instance has the sizes of a convolution; W is the axis of P and R, H that of Q and S. Images
    are as large as the loops reach, unpadded. Warns with NetworkWarning of unused values of an instance.
    """
    document = read_document(text, PROBLEM, file)
    value = document.value
    is_flat = isinstance(value, dict) and "problem" not in value
    problem = value if is_flat else value["problem"] if isinstance(value, dict) else value
    is_plain = isinstance(problem, dict) and "instance" not in problem
    try:
        if is_plain:
            sizes = {name: size for name, size in problem.items() if name not in ("shape", "version")}
            problem = {"shape": problem.get("shape", "cnn_layer"), "instance": sizes}
        if isinstance(problem, dict):
            problem = {**problem, "shape": _shape_of(problem.get("shape", "cnn_layer"))}
        fields = validate(ShapedFileFields, {"problem": problem}, PROBLEM, file)
        return _shaped(fields["problem"], file, is_plain=is_plain)
    except InputError as error:
        place = (error.place or "").replace("problem.instance", "problem") if is_plain else error.place or ""
        error.place = document.place(place.removeprefix("problem").removeprefix(".") if is_flat else place)
        raise error.in_file(file) from None


def _with_underscores(value: object) -> object:
    """Return a shape with `data-spaces` and `read-write` of 0.3 spelled as in 0.4."""
    if isinstance(value, dict):
        names = {"data-spaces": "data_spaces", "read-write": "read_write"}
        return {names.get(name, name): _with_underscores(part) for name, part in value.items()}
    return [_with_underscores(part) for part in value] if isinstance(value, list) else value


def _shape_of(given: object) -> object:
    """Return a shape, or Timeloop's own by its name; raises InputError for another name."""
    if not isinstance(given, str):
        return _with_underscores(given)
    shape = NAMED_SHAPES.get(given.lower().replace("-", "_"))
    if shape is None:
        expected = f"a shape in the file, or one of {', '.join(NAMED_SHAPES)}"
        raise InputError(f"it is {quoted(given)}", "problem.shape", expected)
    return shape


def _shaped(fields: ShapedFields, file: str, *, is_plain: bool) -> Layer:
    instance, shape = fields["instance"], fields["shape"]
    known = SPARSE | {*shape["dimensions"], *(one["name"] for one in shape.get("coefficients", ()))}
    for name in instance if is_plain else ():
        if name not in known:
            raise InputError("the field is unknown", f"problem.{name}", "only fields of the format")
    try:
        layer = layer_of(shape, instance)
    except InputError as error:
        place = f"problem.{error.place}" if error.place and error.place != "layer" else "problem"
        raise InputError(error.what, place, error.expected) from None
    if sparse := sorted(SPARSE & instance.keys()):
        warnings.warn(f"{file}: its {sparse[0]} are not modelled: all tensors are dense", NetworkWarning, stacklevel=2)
    if unread := [name for name in instance if name not in known and instance[name] not in (0, 1)]:
        what = f"{', '.join(unread)} in its instance names no dimension or coefficient and is not read, as in Timeloop"
        warnings.warn(f"{file}: {what}", NetworkWarning, stacklevel=2)
    return layer
