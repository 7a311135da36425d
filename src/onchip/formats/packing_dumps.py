"""Packing problems that other tools print: TFLite Micro's plan, ExecuTorch's program, TVM's graph, XLA's allocations.

* TFLite Micro: the lines of `GreedyMemoryPlanner::PrintMemoryPlan`, in a text file.
* ExecuTorch: a program as JSON, by `flatc --json program.fbs -- model.pte` or `executorch.exir._serialize`.
* TVM: the JSON of the graph executor, by `lib.get_graph_json()`; it has no offsets, so that none are written.
* XLA: the CSV `allocinfo` of its memory space assignment, one line per allocation in the alternate memory.

Lifetimes and sizes are read, and the tool's own offsets are not.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd, prod
from pathlib import Path
from typing import Any, Final

from onchip.answer.packing import Buffer
from onchip.errors import InputError, UsageError
from onchip.formats.files import read_file, write_file
from onchip.formats.validation import Format, ensure_few_values

_ANY_JSON: Final = Format("JSON", 1, InputError)
_GREATEST_ALIGNMENT: Final = 1 << 12
"""Greatest alignment in bytes that offsets are taken to show; few offsets may share a greater divisor by chance."""
ALIGNMENT_BYTES: Final = 16
"""Alignment of tensors in TFLite Micro and ExecuTorch."""
_PLANNED: Final = re.compile(r"\(id=(\d+)\): size=(\d+), offset=-?\d+, first_used=(\d+) last_used=(\d+)")
_XLA_COLUMNS: Final = ("buffer_id", "size", "offset", "start_time", "end_time")
_MARKS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SCALARS: Final = "BYTE CHAR SHORT INT LONG HALF FLOAT DOUBLE COMPLEX32 COMPLEX64 COMPLEX128 BOOL QINT8 QUINT8 QINT32"
_BYTES: Final = (1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2)
_SCALAR_BYTES: Final = dict(zip([*_SCALARS.split(), "BFLOAT16"], _BYTES, strict=True))
_SCALAR_BYTES_BY_NUMBER: Final = dict(enumerate(_BYTES)) | {27: 2, 28: 4, 29: 8}
"""Bytes by the numbers of ExecuTorch; 27 to 29 are unsigned."""


@dataclass(frozen=True, slots=True)
class DumpedArena:
    """The buffers of one arena; `values` are the indices of the values in each buffer of an ExecuTorch program."""

    ids: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    place: tuple[int, int] = (0, 0)
    values: tuple[tuple[int, ...], ...] = ()


def read_micro_plan(path: Path) -> DumpedArena:
    """Read the lines of TFLite Micro's plan in a text; raises InputError if it has none."""
    found = _PLANNED.findall(read_file(path).decode(errors="replace"))
    if not found:
        expected = "lines such as `0 (id=0): size=64, offset=0, first_used=0 last_used=1`"
        raise InputError("it has no line of a TFLite Micro plan", file=str(path), expected=expected)
    with _damage_named(path, "TFLite Micro plan"):
        numbers = [tuple(map(int, line)) for line in found if int(line[1])]
        buffers = [Buffer(first, last + 1, size, alignment_bytes=ALIGNMENT_BYTES) for _, size, first, last in numbers]
        return DumpedArena(tuple(str(number) for number, *_ in numbers), tuple(buffers))


def write_micro_plan(ids: Sequence[str], buffers: Sequence[Buffer], offsets: Sequence[int | None], path: Path) -> None:
    """Write the lines as TFLite Micro prints them; -1 is the offset of a buffer outside. Raises UsageError for gaps."""
    if any(one.gaps for one in buffers):
        raise UsageError("a buffer has gaps", "output", ".csv or .json, which can state them")
    lines = [
        f"{_MARKS[at] if at < len(_MARKS) else '*'} (id={name if name.isdecimal() else at}): size={one.size_bytes}, "
        f"offset={-1 if offset is None else offset}, first_used={one.start} last_used={one.stop - 1}"
        for at, (name, one, offset) in enumerate(zip(ids, buffers, offsets, strict=True))
    ]
    write_file(path, ("\n".join(lines) + "\n").encode())


def xla_allocations(path: Path) -> DumpedArena | None:
    """Return the allocations of XLA's memory space assignment; None if the first line of a CSV file is not theirs.

    Times are inclusive, and may be negative: before the program starts. A buffer may have several allocations, which
    are numbered. The alignment is the greatest power of two that divides all of XLA's offsets.
    """
    content = read_file(path)
    if not content.startswith(",".join(_XLA_COLUMNS).encode()):
        return None
    with _damage_named(path, "XLA allocation table"):
        lines = list(csv.DictReader(content.decode().splitlines()))
        rows = [tuple(int(line[name]) for name in _XLA_COLUMNS) for line in lines if int(line["size"])]
        divisor = gcd(*(offset for _, _, offset, _, _ in rows))
        alignment = min(divisor & -divisor, _GREATEST_ALIGNMENT) or 1
        begin = min((start for *_, start, _ in rows), default=0)
        ids = [f"{number}#{at}" for at, (number, *_) in enumerate(rows)]
        buffers = [Buffer(start - begin, stop - begin + 1, size, None, alignment) for _, size, _, start, stop in rows]
        return DumpedArena(tuple(ids), tuple(buffers))


def foreign_json(path: Path) -> tuple[DumpedArena, ...]:
    """Return the arenas of a program of ExecuTorch or a graph of TVM; none for other JSON. Raises InputError."""
    program = _json_of(path)
    if "execution_plan" in program:
        with _damage_named(path, "ExecuTorch program"):
            return tuple(_program_arenas(program))
    if {"arg_nodes", "node_row_ptr"} <= program.keys():
        with _damage_named(path, "TVM graph"):
            return (_graph_arena(program),)
    return ()


def write_program(source: Path, offsets: Sequence[int], path: Path) -> None:
    """Write the program of `source` with these offsets and the sizes of its arenas."""
    program, left = _json_of(source), iter(offsets)
    for arena in _program_arenas(program):
        plan, end = program["execution_plan"][arena.place[0]], 0
        for buffer, values, offset in zip(arena.buffers, arena.values, left, strict=False):
            end = max(end, offset + buffer.size_bytes)
            for value in values:
                where = plan["values"][value]["val"]["allocation_info"]
                where |= {"memory_offset_low": offset % 2**32, "memory_offset_high": offset >> 32}
        plan["non_const_buffer_sizes"][arena.place[1]] = end
    write_file(path, json.dumps(program, indent=1).encode())


def _json_of(path: Path) -> dict[str, Any]:
    """Return the object in a file of ExecuTorch or TVM, an empty one for any other file."""
    content = read_file(path)
    if b'"execution_plan"' not in content and b'"arg_nodes"' not in content:
        return {}
    ensure_few_values(content, _ANY_JSON, str(path))
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):  # the reader of onchip's own format names the error
        return {}
    return value if isinstance(value, dict) else {}


@contextmanager
def _damage_named(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise error.in_file(str(path)) from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"[:120]
        raise InputError(f"it is no whole {what} ({reason})", file=str(path), expected=f"a {what}") from None


def _program_arenas(program: dict[str, Any]) -> Iterator[DumpedArena]:
    """Yield the arenas of each method.

    Values at one address are one buffer if they live at once, or if the later one is not written first: it is a view,
    for which nothing runs. A value with an initial state lives for ever.
    """
    for number, plan in enumerate(program["execution_plan"]):
        values, (lives, written) = plan["values"], _lives(plan)
        places: dict[int, dict[int, list[int]]] = {}
        for at, value in enumerate(values):
            tensor = value.get("val") or {}
            if (
                value.get("val_type") == "Tensor"
                and tensor.get("allocation_info")
                and at in lives
                and _bytes_of(tensor)
            ):
                where = tensor["allocation_info"]
                offset = where.get("memory_offset_low", 0) + (where.get("memory_offset_high", 0) << 32)
                places.setdefault(where["memory_id"], {}).setdefault(offset, []).append(at)
        for memory, by_offset in sorted(places.items()):
            groups = [group for at_one in by_offset.values() for group in _of_one_buffer(at_one, lives, written)]
            spans = [(min(lives[at][0] for at in group), max(lives[at][1] for at in group) + 1) for group in groups]
            sizes = [max(_bytes_of(values[at]["val"]) for at in group) for group in groups]
            each = zip(spans, sizes, strict=True)
            buffers = [Buffer(*span, size, alignment_bytes=ALIGNMENT_BYTES) for span, size in each]
            ids = tuple(f"{plan['name']}.{group[0]}" for group in groups)
            yield DumpedArena(ids, tuple(buffers), (number, memory), tuple(map(tuple, groups)))


def _lives(plan: dict[str, Any]) -> tuple[dict[int, tuple[int, int]], set[int]]:
    """Return the first and the last instruction of each value, from 1, and the values that a kernel writes first.

    Inputs live from 0. A kernel writes its last argument, or the tensors of that list.
    """
    values = plan["values"]
    instructions = [one for chain in plan["chains"] for one in chain.get("instructions", ())]
    end = len(instructions) + 1
    uses = [(0, plan.get("inputs", ())), *enumerate(map(_operands, instructions), start=1), (end, plan["outputs"])]
    tensors = [(at, one["val"]) for at, one in enumerate(values) if one.get("val_type") == "Tensor"]
    uses += [(step, [at for at, one in tensors if one.get("data_buffer_idx", 0) > 0]) for step in (0, end)]
    lives, written = dict[int, tuple[int, int]](), set[int]()
    for step, operands in sorted(uses, key=lambda use: use[0]):
        is_kernel = 0 < step < end and instructions[step - 1]["instr_args_type"] == "KernelCall"
        for operand in operands:
            listed = values[operand].get("val") or {}
            inside = listed.get("items", ()) if str(values[operand].get("val_type")).endswith("TensorList") else ()
            for at in (operand, *inside):
                written |= (
                    {at} if is_kernel and operand == operands[-1] and lives.get(at, (step,))[0] == step else set()
                )
                lives[at] = lives.get(at, (step, step))[0], step
    return lives, written


def _operands(instruction: dict[str, Any]) -> Sequence[int]:
    kind, arguments = instruction["instr_args_type"], instruction["instr_args"]
    if kind == "JumpFalseCall":
        expected = "a program without control flow"
        raise InputError("it jumps, so that lives do not follow from the order", "chains", expected)
    if kind == "MoveCall":
        return arguments.get("move_from", 0), arguments.get("move_to", 0)
    return arguments.get("args", ()) if kind != "FreeCall" else (arguments.get("value_index", 0),)


def _bytes_of(tensor: dict[str, Any]) -> int:
    scalar = tensor.get("scalar_type", 0)
    size = _SCALAR_BYTES_BY_NUMBER[scalar] if isinstance(scalar, int) else _SCALAR_BYTES[scalar]
    return int(size * prod(tensor.get("sizes", ())))


def _of_one_buffer(values: Iterable[int], lives: dict[int, tuple[int, int]], written: set[int]) -> Iterator[list[int]]:
    group, last = list[int](), 0
    for at in sorted(values, key=lives.__getitem__):
        if group and at in written and lives[at][0] > last:
            yield group
            group = []
        group.append(at)
        last = max(last, lives[at][1]) if len(group) > 1 else lives[at][1]
    yield group


def _graph_arena(graph: dict[str, Any]) -> DumpedArena:
    """Return the results of a TVM graph's operators; a `__nop` is a view, and inputs have memory of their own."""
    nodes, rows = graph["nodes"], graph["node_row_ptr"]
    shapes, types = (graph["attrs"][name][1] for name in ("shape", "dltype"))
    base, lives = dict[int, int](), dict[int, list[int]]()
    for step, node in enumerate(nodes):
        read = [base.get(rows[one[0]] + one[1], rows[one[0]] + one[1]) for one in node["inputs"]]
        for entry in read:
            lives.get(entry, [0, 0])[1] = step
        for entry in range(rows[step], rows[step + 1]):
            if node["op"] != "null" and node.get("attrs", {}).get("func_name") == "__nop":
                base[entry] = read[0]
            elif node["op"] != "null" and prod(shapes[entry]):
                lives[entry] = [step, step]
    for node, output, *_ in graph["heads"]:
        lives.get(base.get(rows[node] + output, rows[node] + output), [0, 0])[1] = len(nodes)
    names = {rows[at] + output: (at, output) for at in range(len(nodes)) for output in range(rows[at + 1] - rows[at])}
    bits = {entry: int((re.search(r"\d+", types[entry]) or ["8"])[0]) for entry in lives}
    ids = tuple(f"{nodes[names[entry][0]]['name']}.{names[entry][1]}" for entry in lives)
    sizes = [prod(shapes[entry]) * -(-bits[entry] // 8) for entry in lives]
    return DumpedArena(
        ids, tuple(Buffer(start, stop + 1, size) for (start, stop), size in zip(lives.values(), sizes, strict=True))
    )
