"""Read a `.pt2` file without running its code, and build a raw Graph: symbols bound, unused operators dropped.

`torch.export.load` unpickles sample inputs, and evaluates names and expressions of the file. Here only the tables of
the archive are read, and expressions that torch would evaluate are checked before.

Every operator of `torch.export` is a node, in execution order:

* A result in the bytes of an argument is no node: views, dropout at inference, and results that by their schema may be
  the argument (`contiguous`, `reshape`) even if they permute the elements. A result that changes the number of bytes (a
  copied slice, an expanded tensor, a cast) is a node, and so is a permutation if `as_onnx` is set.
* An operator in place reads the old tensor and writes a new tensor, which later readers of any view see.
* A buffer or an input that is written is a state: a network input, and its last value, called `NAME@next`, a network
  output.
* A slice of a parameter is a separate parameter; parameters over the same bytes are one.
* A weight that is dequantised first is the parameter in the file, followed by its scales.
* Operators without readers are dropped, and so are unread outputs that serve only the backward pass.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from logging import ERROR, NOTSET, disable
from pathlib import Path
from re import compile as pattern
from typing import Any, Final, TypeAlias
from warnings import catch_warnings, simplefilter

import torch
from torch.utils._pytree import tree_map

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, InputError, OpenDimensionsError
from onchip.formats.files import GREATEST_FILE_BYTES, read_file, too_large
from onchip.formats.states_and_loops import NEXT
from onchip.formats.torch.recording import Recording
from onchip.formats.torch.replay import STATES, ExportReplay, OpenShapes, ReplayOptions, Sizes, first_line
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.transform.rewrite.shared_bytes import state_written_by

Table: TypeAlias = Any
"""JSON of an archive, or torch's objects for it; neither has types."""
_Storages: TypeAlias = Callable[[str, str, int], torch.UntypedStorage]
"""Returns the storage of a number of bytes for an entry of a folder of the archive."""
GREATEST_TABLE_DEPTH: Final = 64
_EXPECTED: Final = "a whole .pt2 file, as torch.export.save writes it"
_MODEL: Final = pattern(r"models/([^/]+)\.json")
_NAME: Final = pattern(r"\w*")
_TARGET: Final = pattern(
    r"torch\.ops(?:\.(?!__)\w+){2,3}|torch\.ops\.aten\.__i?(?:and|or|xor|lshift|rshift)__\.[A-Za-z]+"
    r"|_operator\.[a-z]+_?|math\.[a-z]+|torch\.sym_[a-z]+"
)
_WORD: Final = pattern(r"[A-Za-z_]\w*|'[^']*'|\d+|[^\s\w']")
_SYMBOL: Final = pattern(r"'?[a-z]{1,2}\d{1,9}'?")
_OF_SIZES: Final = (
    "Symbol Integer Rational Half One NegativeOne Zero Mul Add Pow Max Min Mod PythonMod FloorDiv CleanDiv CeilDiv "
    "ModularIndexing IntTrueDiv FloatTrueDiv CeilToInt FloorToInt TruncToInt TruncToFloat RoundToInt ToFloat Identity "
    "Equality Unequality GreaterThan StrictGreaterThan LessThan StrictLessThan Not And Or Eq Ne "
    "positive nonnegative integer real True False true false ( ) , = + - * / < >"
)
"""Words that the expression of a size may contain, besides symbols and numbers."""
_OF_PT2E: Final = "torch.ops.quantized_decomposed."
_LONGEST_SIZE: Final = 2000
_GREATEST_POWER: Final = 4


def load_program(path: Path, *, with_weights: bool = False) -> torch.export.ExportedProgram:
    """Load the program of a file, with its weights or on the meta device; raises InputError."""
    with refused_if_damaged():
        model, weights, constants = _tables_of(path)
        _nothing_else_is_evaluated(model)
        return _program_of(model, weights, constants, partial(_storage_of, path if with_weights else None))


@contextmanager
def refused_if_damaged() -> Iterator[None]:
    """Raise the errors of reading a damaged file as an InputError of one line, and silence torch."""
    try:
        with catch_warnings():
            simplefilter("ignore")
            disable(ERROR)
            yield
    except InputError:
        raise
    except Exception as error:  # torch raises many unrelated types
        reason = next(iter(str(error).splitlines()), "")[:120] or type(error).__name__
        what = f"it is damaged, or of another torch than {torch.__version__} ({reason})"
        raise InputError(what, expected=_EXPECTED) from None
    finally:
        disable(NOTSET)


def _tables_of(path: Path) -> tuple[Table, Table, Table]:
    """Return the tables of the model, the weights and the constants; raises InputError for other archives."""
    if not path.is_file():
        read_file(path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if "serialized_exported_program.json" in names:
            raise InputError("it was saved by a torch before 2.8", expected="one that a newer torch saved")
        root = names[0].partition("/")[0] if names else ""
        inside = [name.removeprefix(f"{root}/") for name in names]
        models = [match[1] for name in inside if (match := _MODEL.fullmatch(name)) is not None]
        if len(models) != 1:
            raise InputError(f"it holds {len(models)} exported programs", expected="one")
        wanted = (
            f"models/{models[0]}.json",
            *(f"data/{of}/{models[0]}_{of}_config.json" for of in ("weights", "constants")),
        )
        model, weights, constants = (_table(archive, f"{root}/{name}") for name in wanted)
        return model, weights, constants


def _table(archive: zipfile.ZipFile, name: str) -> Table:
    with archive.open(name) as file:
        content = file.read(GREATEST_FILE_BYTES + 1)
    if len(content) > GREATEST_FILE_BYTES:
        raise too_large(GREATEST_FILE_BYTES)
    return json.loads(content)


def _nothing_else_is_evaluated(model: Table) -> None:
    """Raise InputError for targets that are not operators, and for malformed names and sizes."""
    for place, table in _objects(model):
        target, name, size = table.get("target"), table.get("name"), table.get("expr_str")
        if place == "nodes" and not (isinstance(target, str) and _TARGET.fullmatch(target)):
            raise InputError(f"a node of it runs {str(target)[:80]!r}", expected="an operator of torch.ops")
        if isinstance(name, str) and not _NAME.fullmatch(name):
            raise InputError(f"a name in it is {name[:80]!r}", expected="letters, digits and underscores")
        if isinstance(size, str) and not _is_size(size):
            raise InputError(f"a size in it is {size[:80]!r}", expected="one of numbers and symbols")


def _objects(table: Table) -> Iterator[tuple[str, Mapping[str, Table]]]:
    """Yield all objects of a table, with the name of their field; raises InputError if they nest too deeply."""
    waiting: list[tuple[str, Table, int]] = [("", table, 0)]
    while waiting:
        field, value, depth = waiting.pop()
        if depth > GREATEST_TABLE_DEPTH:
            raise InputError("its tables stand too deep inside each other", expected=f"at most {GREATEST_TABLE_DEPTH}")
        if isinstance(value, dict):
            yield field, value
            waiting.extend((name, each, depth + 1) for name, each in value.items())
        elif isinstance(value, list):
            waiting.extend((field, each, depth + 1) for each in value)


def _is_size(text: str) -> bool:
    words = _WORD.findall(text) if len(text) <= _LONGEST_SIZE else [""]
    powers = [at for at, word in enumerate(words) if word == "Pow" or words[at : at + 2] == ["*", "*"]]
    numbers = [word for word in words if word.isdecimal()]
    is_small = not powers or all(int(word) <= _GREATEST_POWER for word in numbers)
    allowed = frozenset(_OF_SIZES.split())
    known = all(word in allowed or word.isdecimal() or _SYMBOL.fullmatch(word) is not None for word in words)
    return known and is_small and all(len(word) < 20 for word in numbers) and len(powers) <= _GREATEST_POWER


def _storage_of(path: Path | None, folder: str, entry: str, size: int) -> torch.UntypedStorage:
    """Return a storage with the bytes of an entry, or without bytes on the meta device if no file is given.

    Raises InputError if the entry is absent or shorter than its tensors.
    """
    if path is None:
        return torch.UntypedStorage(size, device="meta")
    with zipfile.ZipFile(path) as archive:
        root = archive.namelist()[0].partition("/")[0]
        name = f"{root}/data/{folder}/{entry}"
        known = archive.NameToInfo.get(name)
        if known is None or known.file_size < size:
            found = "not there" if known is None else f"{known.file_size} bytes long"
            raise InputError(f"{name} is {found}", expected=f"the {size} bytes of its tensors")
        content = bytearray(archive.read(name)[:size])
    return torch.frombuffer(content, dtype=torch.uint8).untyped_storage() if size else torch.UntypedStorage(0)


def _program_of(model: Table, weights: Table, constants: Table, storages: _Storages) -> torch.export.ExportedProgram:
    from torch._export.serde import schema
    from torch._export.serde.serialize import ExportedProgramDeserializer, _dict_to_dataclass

    if any(node["target"].startswith(_OF_PT2E) for node in model["graph_module"]["graph"]["nodes"]):
        import torch.ao.quantization.fx._decomposed  # noqa: F401 (torch knows them only then)

    stated = _dict_to_dataclass(schema.ExportedProgram, model)
    stated_tensors = [_dict_to_dataclass(schema.PayloadConfig, one).config for one in (weights, constants)]
    folders = zip(stated_tensors, ("weights", "constants"), strict=True)
    held = [_tensors(each, folder, storages) for each, folder in folders]
    program: torch.export.ExportedProgram = ExportedProgramDeserializer().deserialize(stated, *held)
    return program


def _tensors(stated: Mapping[str, Table], folder: str, held: _Storages) -> dict[str, torch.Tensor]:
    """Return tensors by name; tensors of one entry of the archive share its storage."""
    from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE

    views: dict[str, tuple[str, torch.dtype, int, list[int], list[int]]] = {}
    entries: dict[str, int] = {}
    for name, payload in stated.items():
        if (meta := payload.tensor_meta) is None:
            raise InputError(f"{name!r} is an object of a class of its own", expected="tensors")
        dtype, start = _SERIALIZE_TO_TORCH_DTYPE[meta.dtype], meta.storage_offset.as_int
        sizes, strides = [each.as_int for each in meta.sizes], [each.as_int for each in meta.strides]
        views[name] = payload.path_name, dtype, start, sizes, strides
        stop = start + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1
        entries[payload.path_name] = max(entries.get(payload.path_name, 0), stop * dtype.itemsize)
    storages = {entry: held(folder, entry, size) for entry, size in entries.items()}
    found = {}
    for name, (entry, dtype, *extent) in views.items():
        tensor = torch.empty(0, dtype=dtype, device=storages[entry].device).set_(storages[entry], *extent)
        found[name] = torch.nn.Parameter(tensor, requires_grad=False) if stated[name].is_param else tensor
    return found


def exported(
    module: torch.nn.Module | torch.export.ExportedProgram, example_inputs: Sequence[object]
) -> torch.export.ExportedProgram:
    """Return the program of a module in inference mode, or the `ExportedProgram` itself; raises GraphError."""
    if isinstance(module, torch.export.ExportedProgram):
        return module
    parameter = next(iter(module.parameters()), None)
    device = parameter.device if parameter is not None else None
    inputs = tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, tuple(example_inputs))
    with _as_at_inference(module):
        try:
            return torch.export.export(module, inputs, strict=False)
        except Exception as error:
            place = f"module {type(module).__name__!r}"
            raise GraphError(f"torch.export refuses it: {first_line(error)}", place=place) from error


@contextmanager
def _as_at_inference(module: torch.nn.Module) -> Iterator[None]:
    """Enter eval mode, without gradients, and without attention's fast path, which hides its operators."""
    training = [each for each in module.modules() if each.training]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for each in training:
            each.training = True


_GREATEST_VISITS = 20_000
"""Limit on nodes visited while sizes are tried; the first sizes are always tried."""


@dataclass(frozen=True, slots=True)
class ReplayedProgram:
    """A raw graph, the recording of its program, and a map from recorded names to names in the graph."""

    graph: Graph
    recording: Recording
    renamed: Mapping[str, str]


def graph_of_program(
    program: torch.export.ExportedProgram, name: str, bindings: Bindings, options: ReplayOptions
) -> Graph:
    """Return the raw graph; raises UsageError for foreign bindings, OpenDimensionsError and GraphError."""
    return replayed_program(program, name, bindings, options).graph


def replayed_program(
    program: torch.export.ExportedProgram, name: str, bindings: Bindings, options: ReplayOptions
) -> ReplayedProgram:
    """Return the raw graph with its recording; raises as `graph_of_program` does."""
    shapes = OpenShapes.of(program)
    sizes = shapes.sizes(bindings)
    still_open = shapes.open_dimensions(sizes)
    if still_open:
        suggested = _sizes_that_do(program, shapes, sizes, options)
        dims = {symbol: suggested[symbol] for symbol in shapes.symbols if symbol not in sizes}
        raise OpenDimensionsError(still_open, replace(bindings, dims={**bindings.dims, **dims}))
    return _replayed(name, _recorded(program, replace(options, sizes=sizes)))


def _sizes_that_do(
    program: torch.export.ExportedProgram, shapes: OpenShapes, sizes: Sizes, options: ReplayOptions
) -> Sizes:
    """Return sizes for all symbols with which the program runs, or the first candidate if it runs with none."""
    candidates = list(shapes.candidates(sizes))
    for candidate in candidates[: max(1, _GREATEST_VISITS // max(1, len(program.graph.nodes)))]:
        try:
            _recorded(program, replace(options, sizes=candidate))
        except InputError:
            continue
        return candidate
    return candidates[0]


def _recorded(program: torch.export.ExportedProgram, options: ReplayOptions) -> Recording:
    """Return the recording of a run; a second run is necessary if the first finds inputs written in place."""
    states = frozenset(one.target for one in program.graph_signature.output_specs if one.kind in STATES)
    replay = ExportReplay(program, options, states)
    recording = replay.recording()
    if replay.written_in_place <= states:
        return recording
    return ExportReplay(program, options, states | replay.written_in_place).recording()


def _replayed(name: str, recording: Recording) -> ReplayedProgram:
    operators = _needed_operators(recording)
    used = {tensor for operator in operators for tensor in (*operator.reads, *operator.outputs)}
    tensors = {
        tensor.name: tensor for tensor in recording.tensors.values() if tensor.name in used or tensor.role is Role.INPUT
    }
    for _, tensor_name in recording.states:
        tensors[tensor_name] = replace(tensors[tensor_name], role=Role.OUTPUT)
    for output_name, tensor_name in recording.outputs:
        tensor = tensors[tensor_name]
        aliases = (*tensor.aliases, recording.unique_name(output_name)) if tensor.role is Role.OUTPUT else ()
        tensors[tensor_name] = replace(tensor, role=Role.OUTPUT, aliases=aliases)
    new = {tensor: recording.unique_name(f"{state}{NEXT}") for state, tensor in recording.states}
    named = tuple(replace(tensor, name=new.get(tensor.name, tensor.name)) for tensor in tensors.values())
    renamed = tuple(
        replace(
            operator,
            inputs=tuple(new.get(one, one) for one in operator.inputs),
            outputs=tuple(new.get(one, one) for one in operator.outputs),
        )
        for operator in operators
    )
    graph = Graph(name, named, renamed, tuple(_states(recording, tensors, new, renamed)))
    return ReplayedProgram(graph, recording, new)


def _states(
    recording: Recording, tensors: Mapping[str, Tensor], new: Mapping[str, str], operators: Sequence[Operator]
) -> Iterator[State]:
    """Yield the states whose next value is a separate tensor with an equal number of bytes."""
    writers = {name: operator for operator in operators for name in operator.outputs}
    for state, tensor in recording.states:
        if state in tensors and tensors[state].size_bytes == tensors[tensor].size_bytes:
            yield state_written_by(writers[new[tensor]], state, new[tensor])


def _needed_operators(recording: Recording) -> list[Operator]:
    needed = {tensor for _, tensor in (*recording.states, *recording.outputs)}
    operators: list[Operator] = []
    for operator in reversed(recording.operators):
        if needed.isdisjoint(operator.outputs):
            continue
        needed.update(operator.reads)
        written = tuple(output for output in operator.outputs if output in needed or output not in recording.optional)
        operators.append(replace(operator, outputs=written))
    return operators[::-1]
