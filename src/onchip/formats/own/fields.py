"""Fields that several answer files share: sources, bindings, layers, mappings, claims and instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, replace
from functools import cache
from math import isfinite
from pathlib import Path
from re import fullmatch
from typing import Annotated, Any, Final, Generic, NotRequired, TypeVar, cast, get_origin, get_type_hints

from typing_extensions import TypedDict

from onchip.answer.bindings import Bindings
from onchip.answer.document import Claim, Granularity, Reading, Source, as_written
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import Operand
from onchip.errors import InputError, errors_in_file
from onchip.formats.files import read_file, write_file
from onchip.formats.validation import (
    Doc,
    Format,
    ShapeT,
    check_format,
    errors_at,
    field_path,
    parse,
    placed,
    quoted,
    validate,
)
from onchip.formats.yaml_documents import parse_yaml
from onchip.ir.layer import Layer
from onchip.without_collecting import without_collecting

ContentT = TypeVar("ContentT")
MadeT = TypeVar("MadeT")


@dataclass(frozen=True, slots=True)
class FileKind(Generic[ShapeT, ContentT]):
    """A kind of file in both directions: its format, the shape of its fields, and the content that they state.

    Files are packed if their names end in `.gz`. With `is_yaml`, the errors of fields name their lines.
    """

    format: Format
    shape: type[ShapeT]
    of_fields: Callable[[ShapeT], ContentT]
    to_text: Callable[[ContentT], str]
    is_yaml: bool = False

    def read(self, path: Path) -> ContentT:
        """Read a file; raises InputError."""
        return self.of_text(read_file(path), str(path))

    @without_collecting()
    def of_text(self, text: str | bytes, file: str) -> ContentT:
        """Return the content of a text; `file` is its name in errors. Raises InputError with the field."""
        if not self.is_yaml:
            fields = parse(self.shape, self.format, text, file)
            with errors_in_file(file):
                return self.of_fields(fields)
        document = parse_yaml(text, self.format, file)
        with document.errors_in(file):
            check_format(document.value, self.format, file)
            return self.of_fields(validate(self.shape, document.value, self.format, file))

    def write(self, content: ContentT, path: Path) -> None:
        """Write a file; raises OutputError if it cannot be written, InputError for names that are not Unicode."""
        write_file(path, self.to_text(content).encode())


class SourceFields(TypedDict):
    """A graph or an accelerator; `sha256` may be absent in answers of other tools, `notes` are an accelerator's."""

    name: Annotated[str, Doc("Name of the graph or accelerator.")]
    sha256: NotRequired[Annotated[str, Doc("SHA-256 of its JSON with sorted keys and no spaces.")]]
    notes: NotRequired[Annotated[list[str], Doc("Features of the accelerator that its description leaves out.")]]


class PixelFields(TypedDict):
    """A tile of the last output of a fused group."""

    columns: Annotated[int, Doc("Columns of the tile in pixels.")]
    rows: Annotated[int, Doc("Rows of the tile in pixels.")]


class BindingFields(TypedDict):
    """Sizes, shapes and values for the open parts of a network file, by symbol or input."""

    dims: NotRequired[Annotated[dict[str, int], Doc("Map from a symbol to its size.")]]
    shapes: NotRequired[Annotated[dict[str, list[int]], Doc("Map from a network input to its shape.")]]
    values: NotRequired[dict[str, int | float | list[int | float]]]
    """Map from a network input to its constant value."""


class LoopFields(TypedDict, total=False):
    """Bounds of the loops; an absent loop runs once."""

    N: Annotated[int, Doc("Batch.")]
    K: Annotated[int, Doc("Output channels of one group.")]
    C: Annotated[int, Doc("Input channels of one group.")]
    P: Annotated[int, Doc("Output rows.")]
    Q: Annotated[int, Doc("Output columns.")]
    R: Annotated[int, Doc("Kernel rows.")]
    S: Annotated[int, Doc("Kernel columns.")]
    G: Annotated[int, Doc("Groups.")]


class BitsFields(TypedDict):
    """Bits per element; `partial` is the width of the accumulator."""

    input: Annotated[int, Doc("Input.")]
    weight: Annotated[int, Doc("Weight.")]
    output: Annotated[int, Doc("Output.")]
    partial: Annotated[int, Doc("Accumulator.")]


class LayerFields(TypedDict):
    """A layer; K and C are those of one group, and absent fields have the defaults of `Layer`."""

    loops: Annotated[LoopFields, Doc("Loop bounds.")]
    stride: NotRequired[Annotated[list[int], Doc("Stride along rows and columns.")]]
    dilation: NotRequired[Annotated[list[int], Doc("Dilation along rows and columns.")]]
    padding: NotRequired[Annotated[list[int], Doc("Padding at top, left, bottom and right.")]]
    bits: NotRequired[Annotated[BitsFields, Doc("Bits per element.")]]
    has_weight: NotRequired[Annotated[bool, Doc("False if the weight operand is another feature map.")]]


class KeptFields(TypedDict):
    """A memory, and the number of innermost loops that its tile spans."""

    memory: Annotated[str, Doc("Name of the memory.")]
    loops: Annotated[int, Doc("Number of innermost loops of the nest that the tile spans.")]


class NestFields(TypedDict):
    """A loop nest, innermost loop first, nearest memories first; loops in `ragged` end short."""

    nest: list[str]
    """Loops, innermost first: `K4` runs in time, `K4@lane` along the dimension `lane` of the array."""
    input: NotRequired[list[KeptFields]]
    """Memories that hold the input, nearest the MACs first, without DRAM."""
    weight: NotRequired[Annotated[list[KeptFields], Doc("Memories that hold the weight, in the same order.")]]
    output: NotRequired[Annotated[list[KeptFields], Doc("Memories that hold the output, in the same order.")]]
    ragged: NotRequired[list[str]]
    """Loops whose factors multiply to more than the bound, so that the last iteration ends short."""


class AllocateFields(TypedDict):
    """Start of a residency at an offset in bytes; `is_state` if it holds a state of the previous inference."""

    tensor: Annotated[str, Doc("Name of the tensor.")]
    memory: Annotated[str, Doc("Name of the memory.")]
    offset_bytes: Annotated[int, Doc("Offset in the memory in bytes.")]
    is_state: NotRequired[Annotated[bool, Doc("True if the residency holds a state of the previous inference.")]]


class CopyFields(TypedDict):
    """A transfer of the bytes of a tensor."""

    tensor: Annotated[str, Doc("Name of the tensor.")]
    source: Annotated[str, Doc("Memory that is read, or `dram`.")]
    target: Annotated[str, Doc("Memory that is written, or `dram`.")]


class FreeFields(TypedDict):
    """End of the residency of a tensor in a memory."""

    tensor: Annotated[str, Doc("Name of the tensor.")]
    memory: Annotated[str, Doc("Name of the memory.")]


class InstructionFields(TypedDict, total=False):
    """An instruction: exactly one of the fields is present; `compute` names an operator."""

    allocate: Annotated[AllocateFields, Doc("Start of a residency.")]
    copy: Annotated[CopyFields, Doc("Transfer of a tensor.")]
    compute: Annotated[str, Doc("Name of the operator that runs.")]
    free: Annotated[FreeFields, Doc("End of a residency.")]


def present(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def written(shape: type, value: object, /, **others: object) -> dict[str, object]:
    """Return the fields of a TypedDict: `others`, and else the attributes of the same names.

    An optional field is absent if it is None or the default of the value's class; without a default, if it is empty.
    """
    known = {**getattr(type(value), "__dataclass_fields__", {}), **dict.fromkeys(others)}
    fields: dict[str, object] = {}
    for name, is_optional in _names_of(shape):
        found = others[name] if name in others else getattr(value, name)
        default = getattr(known[name], "default", MISSING)
        is_absent = found == default if default is not MISSING else not (found or isinstance(found, int | float))
        if not is_optional or not (found is None or is_absent):
            fields[name] = list(found) if isinstance(found, tuple) else found
    return fields


@cache
def _names_of(shape: type) -> tuple[tuple[str, bool], ...]:
    """Return the names of a TypedDict's fields, and True for those that may be absent."""
    return tuple(
        (name, get_origin(kind) is NotRequired) for name, kind in get_type_hints(shape, None, None, True).items()
    )


def made(kind: type[MadeT], fields: Mapping[str, Any], /, **others: object) -> MadeT:
    """Return a dataclass with the fields of its names, lists as tuples, and `others`; absent fields have defaults."""
    names: tuple[str, ...] = kind.__match_args__  # type: ignore[attr-defined]  # every dataclass has them
    return kind(**{name: _tupled(fields[name]) for name in names if name in fields and name not in others} | others)


def _tupled(value: object) -> object:
    return tuple(map(_tupled, value)) if isinstance(value, list | tuple) else value


def source_of(fields: SourceFields, place: str, error: type[InputError]) -> Source:
    """Return the source; raises `error` for a malformed hash."""
    sha256 = fields.get("sha256")
    if sha256 is not None and not fullmatch("[0-9a-f]{64}", sha256):
        raise error(f"it is {quoted(sha256)}", f"{place}.sha256", "64 hexadecimal digits")
    return made(Source, fields)


def reading_of(fields: BindingFields, error: type[InputError], bits: int | None = None) -> Reading:
    """Return the reading with the fields that all answers have; `bits` stands for an absent number of bits.

    Raises `error` for an impossible size.
    """
    given = cast("Mapping[str, Any]", fields)
    widths: dict[str, Any] = {"bits": given.get("bits", bits), "partial_bits": given.get("partial_bits")}
    check_sizes(widths, error)
    reading = Reading.of(bindings_of(fields, error), given.get("granularity", Granularity.FUSED))
    return replace(reading, **widths)


def bindings_of(fields: BindingFields, error: type[InputError]) -> Bindings:
    """Return the bindings; raises `error` for a negative size and for a value without finite numbers."""
    dims, shapes = fields.get("dims", {}), fields.get("shapes", {})
    sizes = {f"dims.{name}": size for name, size in dims.items()}
    sizes |= {f"shapes.{name}[{axis}]": size for name, shape in shapes.items() for axis, size in enumerate(shape)}
    check_sizes(sizes, error, least=0)
    values = {
        name: tuple(value) if isinstance(value, list) else (value,) for name, value in fields.get("values", {}).items()
    }
    for name, value in values.items():
        if not value or not all(isfinite(number) for number in value):
            what = "it has no numbers" if not value else "a number of it is not finite"
            raise error(what, f"reading.values.{name}", "a finite number, or some")
    return Bindings(dims, {name: tuple(shape) for name, shape in shapes.items()}, values)


def binding_fields(bindings: Bindings) -> dict[str, object]:
    """Return the fields of the bindings: `dims` always, as in the first files, the others if they are not empty."""
    values = {name: value[0] if len(value) == 1 else list(value) for name, value in sorted(bindings.values.items())}
    shapes = {name: list(shape) for name, shape in sorted(bindings.shapes.items())}
    return present({"dims": dict(sorted(bindings.dims.items())), "shapes": shapes or None, "values": values or None})


def check_sizes(sizes: Mapping[str, int | None], error: type[InputError], least: int = 1) -> None:
    """Raise `error` if a size of `reading` is below `least`; None is no size."""
    for name, size in sizes.items():
        if size is not None and size < least:
            raise error(f"it is {size}", f"reading.{name}", f"at least {least}")


def claim_fields(claim: Claim) -> dict[str, object]:
    """Return the fields that the claims of all answers have, but the method."""
    return {
        "status": claim.status,
        "objective": claim.objective,
        "objective_value": as_written(claim.objective_value),
        "lower_bound": as_written(claim.lower_bound),
    }


def layer_of(fields: LayerFields, place: str) -> Layer:
    """Return the layer; raises MappingError with the field if no layer can have these sizes."""
    given = cast("Mapping[str, Any]", fields)
    sizes = {name: given[name] for name in _LENGTHS if name in given}
    for name, values in sizes.items():
        if len(values) != _LENGTHS[name]:
            raise MappingError(f"it has {len(values)} entries", f"{place}.{name}", str(_LENGTHS[name]))
    arguments: dict[str, Any] = {loop.lower(): bound for loop, bound in given["loops"].items()}
    arguments |= {name: tuple(values) for name, values in sizes.items()}
    arguments |= {f"{operand}_bits": bits for operand, bits in given.get("bits", {}).items()}
    try:
        return Layer(**arguments, has_weight=given.get("has_weight", True))
    except InputError as error:
        raise placed(MappingError(error.what, error.place, error.expected), place) from None


_LENGTHS: Final = {"stride": 2, "dilation": 2, "padding": 4}


def layer_fields(layer: Layer) -> dict[str, object]:
    """Return the fields of a layer that differ from those of `Layer()`."""
    loops = {loop: bound for loop, bound in layer.bounds.items() if bound > 1}
    bits, plain = (
        {part: getattr(one, f"{part}_bits") for part in ("input", "weight", "output", "partial")}
        for one in (layer, Layer())
    )
    return written(LayerFields, layer, loops=loops, bits=None if bits == plain else bits)


def mapping_of(fields: NestFields, place: str) -> LayerMapping:
    """Return the mapping, of any layer; raises MappingError with the field for an impossible mapping."""
    nest = tuple(_loop(text, f"{place}.nest[{i}]") for i, text in enumerate(fields["nest"]))
    given = cast("Mapping[str, Any]", fields)
    kept = [tuple(Kept(**entry) for entry in given.get(operand, ())) for operand in Operand]
    with errors_at(place):
        return LayerMapping(nest, *kept, ragged=tuple(fields.get("ragged", ())))


def mapping_fields(mapping: LayerMapping) -> dict[str, object]:
    """Return the fields of a mapping, without operands that no memory keeps and without an empty `ragged`."""
    nest = [str(loop) for loop in mapping.nest]
    kept = {str(operand): [written(KeptFields, each) for each in mapping.kept(operand)] for operand in Operand}
    return written(NestFields, mapping, nest=nest, **kept)


_INSTRUCTIONS: Final[Mapping[str, Any]] = {"allocate": Allocate, "copy": Copy, "free": Free}


def instructions_of(entries: Iterable[Mapping[str, Any]], error: type[InputError]) -> Iterable[Instruction]:
    """Yield the instructions; raises `error` for an entry that does not have exactly one field."""
    for index, entry in enumerate(entries):
        if len(entry) != 1:
            what, place = f"it has {' and '.join(entry) or 'no field'}", field_path(("instructions", index))
            raise error(what, place, "one of allocate, copy, compute, free")
        ((name, value),) = entry.items()
        yield Compute(value) if name == "compute" else _INSTRUCTIONS[name](**value)


def instruction_fields(instruction: Instruction) -> dict[str, object]:
    """Return the fields of an instruction."""
    if isinstance(instruction, Compute):
        return {"compute": instruction.operator}
    fields = {name: getattr(instruction, name) for name in type(instruction).__match_args__}
    if not fields.get("is_state", True):
        del fields["is_state"]
    return {type(instruction).__name__.lower(): fields}


def _loop(text: str, place: str) -> Loop:
    """Parse `K4`, or `K4@lane` along a dimension of the array; raises MappingError."""
    match = fullmatch(r"([A-Z])([0-9]{1,18})(?:@(.+))?", text)
    if match is None:
        raise MappingError(f"{quoted(text)} is no loop", place, "one like K4, or K4@lane side by side")
    with errors_at(place):
        return Loop(match[1], int(match[2]), match[3])
