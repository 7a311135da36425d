"""The bytes of a TFLite file as plain tables; whatever they hold, it ends in tables or in one line.

The flatbuffers package follows offsets wherever they lead. Here what all tables list together has a bound, and
what leads outside the file is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from onchip.errors import GraphError, InputError
from onchip.formats.files import read_file

Accessor: TypeAlias = Any
"""What the generated schema reads a table with; it has no types."""
GREATEST_MODEL_BYTES: Final = 2**30
GREATEST_COUNT: Final = 2**17
"""The tensors, the operators or the buffers of a file; with more, no plan is found anyhow."""
_GREATEST_WORK: Final = 2**23  # names and lists of all tables together: many may share one long list
_GREATEST_RANK: Final = 16
_IDENTIFIER: Final = b"TFL3"
_EXPECTED: Final = "a whole TFLite model"


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes [start, stop) of the file."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor as the file states it; `content` is where a constant's bytes lie, `place` where its table stands."""

    name: str
    element_type: int
    shape: tuple[int, ...]
    content: ByteRange | None
    is_variable: bool
    is_sparse: bool
    buffer: int
    place: int


@dataclass(frozen=True, slots=True)
class FileOperator:
    """An operator as the file states it, its operands as indices of its subgraph's tensors; -1 is an absent one.

    `kind` is the schema's name (`CONV_2D`), of a custom operator `custom.` and its code. `table` reads the rest of it;
    None of one that stands in no file.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: Accessor = field(compare=False)


@dataclass(frozen=True, slots=True)
class FileSubgraph:
    """A graph of the file: the first is the network, others are bodies of control flow."""

    name: str
    tensors: tuple[FileTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[FileOperator, ...]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """All of a file: its bytes, and what they say; `metadata` are byte ranges by name.

    Of a large model some buffers may lie behind the flatbuffer: `has_outer_buffers`.
    """

    content: bytes = field(repr=False)
    subgraphs: tuple[FileSubgraph, ...]
    metadata: tuple[tuple[str, ByteRange | None], ...]
    table: Accessor = field(compare=False, repr=False)
    has_outer_buffers: bool = False


def load_model_file(path: Path) -> ModelFile:
    """Read a file; raises InputError for one that is not a whole TFLite model."""
    return model_file(read_file(path, GREATEST_MODEL_BYTES))


def model_file(content: bytes) -> ModelFile:
    """The tables of a file's bytes; raises InputError for what is not a whole TFLite model."""
    with refused_if_damaged():
        if len(content) < 8 or content[4:8] != _IDENTIFIER:
            raise InputError("it is no TFLite model (bytes 4 to 8 are not TFL3)", expected=_EXPECTED)
        return _Reader(content).model()


@contextmanager
def refused_if_damaged() -> Iterator[None]:
    """Whatever reading in vain raises is an InputError of one line."""
    try:
        yield
    except (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise InputError(f"it is damaged: an offset or a count leads outside ({reason})", expected=_EXPECTED) from None


class _Reader:
    """Walks through the tables of `content` once, within a bound on what they may list together."""

    def __init__(self, content: bytes) -> None:
        import tflite

        self._schema = tflite
        self._content = content
        self._left = _GREATEST_WORK
        self._kinds = _names(tflite.BuiltinOperator)
        self._model = tflite.Model.GetRootAs(content)
        self._buffers: tuple[ByteRange | None, ...] = ()
        self._codes: tuple[str, ...] = ()
        self._has_outer = False

    def model(self) -> ModelFile:
        model = self._model
        self._buffers = tuple(self._buffer(model.Buffers(at)) for at in self._range(model.BuffersLength(), "buffers"))
        codes = self._range(model.OperatorCodesLength(), "operator codes")
        self._codes = tuple(self._kind(model.OperatorCodes(at)) for at in codes)
        places = self._range(model.SubgraphsLength(), "subgraphs")
        if not places:
            raise InputError("it has no subgraph", expected=_EXPECTED)
        subgraphs = tuple(self._subgraph(model.Subgraphs(at), at) for at in places)
        return ModelFile(self._content, subgraphs, tuple(self._metadata()), model, self._has_outer)

    def _metadata(self) -> Iterator[tuple[str, ByteRange | None]]:
        for at in self._range(self._model.MetadataLength(), "metadata"):
            entry = self._model.Metadata(at)
            buffer = entry.Buffer()
            yield self._text(entry.Name()), self._buffers[buffer] if buffer < len(self._buffers) else None

    def _subgraph(self, table: Accessor, index: int) -> FileSubgraph:
        tensors = tuple(self._tensor(table.Tensors(at)) for at in self._range(table.TensorsLength(), "tensors"))
        count = len(tensors)
        name = self._text(table.Name())
        place = f"subgraph {index}"
        inputs = self._operands(table.InputsLength(), table.InputsAsNumpy, count, place)
        outputs = self._operands(table.OutputsLength(), table.OutputsAsNumpy, count, place)
        steps = self._range(table.OperatorsLength(), "operators")
        operators = tuple(self._operator(table.Operators(at), at, count) for at in steps)
        return FileSubgraph(name, tensors, inputs, outputs, operators)

    def _tensor(self, table: Accessor) -> FileTensor:
        rank = table.ShapeLength()
        name = self._text(table.Name())
        if rank > _GREATEST_RANK:
            raise GraphError(
                f"it has {rank} dimensions", place=f"tensor {name!r}", expected=f"at most {_GREATEST_RANK}"
            )
        shape = tuple(int(size) for size in table.ShapeAsNumpy()) if rank else ()
        buffer = table.Buffer()
        if buffer >= max(len(self._buffers), 1):
            what = f"its buffer is {buffer} of {len(self._buffers)}"
            raise GraphError(what, place=f"tensor {name!r}", expected="one of the file's")
        content = self._buffers[buffer] if self._buffers else None
        is_sparse = table.Sparsity() is not None
        return FileTensor(
            name, table.Type(), shape, content, bool(table.IsVariable()), is_sparse, buffer, table._tab.Pos
        )

    def _operator(self, table: Accessor, index: int, tensors: int) -> FileOperator:
        code = table.OpcodeIndex()
        place = f"operator {index}"
        if code >= len(self._codes):
            raise GraphError(f"its code is {code} of {len(self._codes)}", place=place, expected="one of the file's")
        inputs = self._operands(table.InputsLength(), table.InputsAsNumpy, tensors, place)
        outputs = self._operands(table.OutputsLength(), table.OutputsAsNumpy, tensors, place)
        return FileOperator(self._codes[code], inputs, tuple(at for at in outputs if at >= 0), table)

    def _operands(self, length: int, read: Callable[[], Accessor], tensors: int, place: str) -> tuple[int, ...]:
        self._spend(length)
        if not length:
            return ()
        operands = tuple(int(index) for index in read())
        if wrong := [index for index in operands if not -1 <= index < tensors]:
            what = f"it names tensor {wrong[0]} of {tensors}"
            raise GraphError(what, place=place, expected="one of its subgraph's")
        return operands

    def _kind(self, code: Accessor) -> str:
        # Codes above 127 do not fit the older field, which then says 127.
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        kind = self._kinds.get(number, f"BUILTIN_{number}")
        return f"custom.{self._text(code.CustomCode()) or 'unnamed'}" if kind == "CUSTOM" else kind

    def _buffer(self, table: Accessor) -> ByteRange | None:
        """Where a buffer's bytes lie: within the flatbuffer, or behind it; None for an empty one."""
        size, start = table.DataLength(), 0
        if size:
            start = table._tab.Vector(table._tab.Offset(4))
        elif table.Offset() > 1 and table.Size():
            start, size = table.Offset(), table.Size()
            self._has_outer = True
        if not 0 <= start <= start + size <= len(self._content):
            raise InputError(
                f"a buffer of {size} bytes begins at byte {start} of {len(self._content)}", expected=_EXPECTED
            )
        return ByteRange(start, start + size) if size else None

    def _range(self, length: int, what: str) -> range:
        if length > GREATEST_COUNT:
            raise InputError(f"it lists {length} {what}", expected=f"at most {GREATEST_COUNT}")
        self._spend(length)
        return range(length)

    def _text(self, text: bytes | None) -> str:
        self._spend(len(text or b"") // 16)
        return (text or b"").decode(errors="backslashreplace").replace("\x00", "")

    def _spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise InputError("its tables list more than a network has", expected=f"at most {_GREATEST_WORK} entries")


def _names(enumeration: type) -> dict[int, str]:
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}
