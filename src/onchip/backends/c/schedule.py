"""The C99 tables that a schedule has beside a plan's: where each operator reads and writes what, and its mappings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.schedule import ScheduledMapping
from onchip.arch.memory import Operand
from onchip.backends.c.header import header_of
from onchip.backends.c.names import string
from onchip.backends.c.program import CProgram
from onchip.backends.c.source import row, source_of, table
from onchip.ir.layer import Layer

_TITLE: Final = (
    "A schedule, written by onchip: how a network uses the memories of an accelerator, and runs on its array."
)
_TYPES: Final = """
/* What a tensor is to the operator that reads or writes it; OTHER is read beside what its loop nests read. */
enum {stem}_operand_kind {{
    {prefix}_OPERAND_INPUT, {prefix}_OPERAND_WEIGHT, {prefix}_OPERAND_OUTPUT, {prefix}_OPERAND_OTHER,
    {prefix}_OPERAND_WORKSPACE
}};

/* A tensor while an operator runs; in memory 0, DRAM, it is streamed from there, or to there. */
struct {stem}_operand {{
    enum {stem}_operand_kind kind;
    uint32_t tensor;
    uint32_t memory;
}};

/* How an operator runs: on `operands` entries of the operands, by `nests` mappings one after the other. */
struct {stem}_run {{
    uint32_t stack;
    uint32_t first_operand;
    uint32_t operands;
    uint32_t first_nest;
    uint32_t nests;
}};

/* The mapping by which a loop nest of an operator runs. */
struct {stem}_nest {{
    uint32_t mapping;
}};

/* A loop over one of N, K, C, P, Q, R, S, G; those along a dimension of the array, which is named, run side by side. */
struct {stem}_loop {{
    char loop;
    uint32_t size;
    const char *along;
}};

/* A memory keeps, of an operand, the tile that the innermost `loops` loops touch. */
struct {stem}_tile {{
    enum {stem}_operand_kind kind;
    const char *memory;
    uint32_t loops;
}};

/* A loop nest, innermost loop first. `bounds` are those of N, K, C, P, Q, R, S, G; the loops named `ragged` may run
   beyond theirs: what lies there is not executed. Stride and dilation have height, width; padding has top, left,
   bottom, right. */
struct {stem}_mapping {{
    uint32_t first_loop;
    uint32_t loops;
    uint32_t first_tile;
    uint32_t tiles;
    uint32_t bounds[8];
    uint32_t stride[2];
    uint32_t dilation[2];
    uint32_t padding[4];
    const char *ragged;
}};

{declarations}
"""


class OperandKind(StrEnum):
    """What a tensor is to an operator: as its loop nests see it, else read beside that, or its workspace."""

    INPUT = "input"
    WEIGHT = "weight"
    OUTPUT = "output"
    OTHER = "other"
    WORKSPACE = "workspace"


@dataclass(frozen=True, slots=True)
class TensorInUse:
    """A tensor while an operator runs, and the memory in which it is: DRAM, if it is streamed."""

    kind: OperandKind
    tensor: str
    memory: str


@dataclass(frozen=True, slots=True)
class OperatorRun:
    """How an operator runs: its stack, its tensors, and the numbers of its mappings, one after the other."""

    stack: int
    tensors: tuple[TensorInUse, ...]
    mappings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CSchedule:
    """A program, with a run for each of its operators, in their order, and the mappings that they run by."""

    program: CProgram
    runs: tuple[OperatorRun, ...]
    mappings: tuple[ScheduledMapping, ...]

    def header(self) -> str:
        """The header; raises PlanError for numbers beyond 64 bits."""
        stem, prefix = self.program.stem, self.program.prefix
        counts = "\n".join(f"#define {prefix}_{one.count} {len(one.rows)}u" for one in self._tables if one.count)
        declarations = "\n".join(f"extern const {one.declaration};" for one in self._tables)
        types = _TYPES.strip("\n").format(stem=stem, prefix=prefix, declarations=declarations)
        return header_of(self.program, _TITLE, (counts, types))

    def source(self, header_name: str) -> str:
        """The source; raises PlanError for numbers beyond 64 bits and names beyond a C string."""
        tables = [table(one.declaration, one.rows) for one in self._tables]
        return source_of(self.program, header_name, tables)

    @property
    def _tables(self) -> tuple[_CTable, ...]:
        stem, prefix = self.program.stem, self.program.prefix
        mappings = [one.mapping for one in self.mappings]
        made = (
            ("run", "runs", "", _runs(self.runs)),
            ("operand", "operands", "OPERANDS", self._operands()),
            ("nest", "nests", "NESTS", (row(f"{number}u") for run in self.runs for number in run.mappings)),
            ("loop", "loops", "LOOPS", _loops(mappings)),
            ("tile", "tiles", "TILES", _tiles(prefix, mappings)),
            ("mapping", "mappings", "MAPPINGS", _mappings(self.mappings)),
        )
        return tuple(
            _CTable(f"struct {stem}_{kind} {stem}_{name}", prefix, count, tuple(rows))
            for kind, name, count, rows in made
        )

    def _operands(self) -> Iterator[str]:
        tensors, memories = self.program.tensor_identifier, self.program.memory_identifier
        for run in self.runs:
            for one in run.tensors:
                kind = f"{self.program.prefix}_OPERAND_{one.kind.upper()}"
                yield row(kind, tensors[one.tensor], memories[one.memory])


@dataclass(frozen=True, slots=True)
class _CTable:
    """`count` names the constant that says how many rows there are; the first table has one for each operator."""

    head: str
    prefix: str
    count: str
    rows: tuple[str, ...]

    @property
    def declaration(self) -> str:
        size = f"{self.prefix}_{self.count or 'OPERATORS'}"
        return f"{self.head}[{size} + !{size}]"


def _runs(runs: Iterable[OperatorRun]) -> Iterator[str]:
    operand, nest = 0, 0
    for run in runs:
        yield row(*(f"{each}u" for each in (run.stack, operand, len(run.tensors), nest, len(run.mappings))))
        operand, nest = operand + len(run.tensors), nest + len(run.mappings)


def _loops(mappings: Iterable[LayerMapping]) -> Iterator[str]:
    for mapping in mappings:
        for loop in mapping.nest:
            yield row(f"'{loop.dimension}'", f"{loop.size}u", string(loop.along or ""))


def _tiles(prefix: str, mappings: Iterable[LayerMapping]) -> Iterator[str]:
    for mapping in mappings:
        for operand in Operand:
            for kept in mapping.kept(operand):
                yield row(f"{prefix}_OPERAND_{operand.value.upper()}", string(kept.memory), f"{kept.loops}u")


def _mappings(mappings: Iterable[ScheduledMapping]) -> Iterator[str]:
    loop, tile = 0, 0
    for one in mappings:
        loops, tiles = len(one.mapping.nest), sum(len(one.mapping.kept(operand)) for operand in Operand)
        numbers = (f"{each}u" for each in (loop, loops, tile, tiles))
        yield row(*numbers, *map(_numbers, _extents(one.layer)), string("".join(one.mapping.ragged)))
        loop, tile = loop + loops, tile + tiles


def _extents(layer: Layer) -> tuple[Sequence[int], ...]:
    return tuple(layer.bounds.values()), layer.stride, layer.dilation, layer.padding


def _numbers(values: Sequence[int]) -> str:
    return row(*(f"{value}u" for value in values))
