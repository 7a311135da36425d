"""The cost of Computes and Copies of a tiny schedule, written from docs/schedule.md, for every mapping of every nest.

A network is rows of small numbers: tensors by number, tile operators by their operands. From `src` it uses the tile
graph and its nests (the verifier derives them separately) and the cost of one mapping of a layer, which other tests
compare with its execution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import islice, pairwise, product
from math import ceil, inf, prod

from onchip.answer.layer_mapping import LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes, ScheduledStack
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access
from onchip.ir.graph import Graph
from onchip.ir.layer import RELEVANT, Axis, Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.model.layer.tables import CostStatus, LayerCosts
from onchip.model.program.compute_cost import nest_cost
from onchip.ops.layers_of import Precision
from onchip.ops.views import views_that_join
from onchip.transform.groups.tiled import tile_graph
from oracles.mapspace import all_mappings
from oracles.packing import TooLargeError
from oracles.wide_mapspace import best_mappings


def workspace(problem: LayerProblem, mapping: LayerMapping, memory: str) -> int:
    """Return the bytes of all tiles in the memory, with double buffering, and of wider sums at their home."""
    layer, bits = problem.layer, 0
    is_doubled = any(one.double_buffered for one in problem.levels if one.memory.name == memory)
    for operand in layer.operands:
        is_wide = operand == "output" and arrives_incomplete(mapping, memory)
        for kept in mapping.kept(operand):
            if kept.memory == memory:
                elements, changes = tile_elements(layer, mapping, operand, kept.loops)
                wide = layer.partial_bits if is_wide else layer.bits(operand)
                bits += elements * wide * (2 if is_doubled and changes else 1)
        if is_wide and problem.home(operand) == memory:
            bits += layer.elements(operand) * (layer.partial_bits - layer.output_bits)
    return -(-bits // 8)


def tile_elements(layer: Layer, mapping: LayerMapping, operand: str, cut: int) -> tuple[int, bool]:
    """Return the most elements of an operand's tile in a memory for all units, and True if the tile changes."""
    nest = mapping.nest
    is_inside = [at < cut or loop.along is not None for at, loop in enumerate(nest)]
    sizes = dict.fromkeys(layer.bounds, 1)
    for loop, inside in zip(nest, is_inside, strict=True):
        sizes[loop.dimension] *= loop.size if inside else 1
    changes = any(
        loop.size > 1 and loop.dimension in RELEVANT[operand] and not inside
        for loop, inside in zip(nest, is_inside, strict=True)
    )
    if operand != "input":
        return prod(sizes[loop] for loop in RELEVANT[operand]), changes
    found = sizes["N"] * sizes["C"] * sizes["G"]
    for axis in layer.axes:
        digits = tuple(
            (loop.dimension == axis.output_loop, loop.size, _step(nest, at), is_inside[at])
            for at, loop in enumerate(nest)
            if loop.dimension in (axis.output_loop, axis.filter_loop) and loop.size > 1
        )
        found *= longest_block(axis, digits)
    return found, changes


@lru_cache(maxsize=100_000)
def longest_block(axis: Axis, digits: tuple[tuple[bool, int, int, bool], ...]) -> int:
    """Return the most positions from the first to the last touched, over all tiles, without padding.

    Each digit: True for an output (else a tap), its size, its weight in the index, True if the tile spans it.
    """
    outside = [one for one in digits if not one[3]]
    inside = [one for one in digits if one[3]]
    most = 0
    for above in product(*(range(size) for _, size, _, _ in outside)):
        places = set()
        for within in product(*(range(size) for _, size, _, _ in inside)):
            index = {True: 0, False: 0}
            for (is_output, _, step, _), digit in zip((*outside, *inside), (*above, *within), strict=True):
                index[is_output] += step * digit
            places.add(index[True] * axis.stride + index[False] * axis.dilation - axis.padding)
        most = max(most, min(max(places), axis.size - 1) - max(min(places), 0) + 1)
    return most


def _step(nest: Sequence[Loop], at: int) -> int:
    """Return the weight of a loop's digit: inner loops of the same dimension are less significant."""
    return prod(inner.size for inner in nest[:at] if inner.dimension == nest[at].dimension)


def arrives_incomplete(mapping: LayerMapping, memory: str) -> bool:
    """Return True if a temporal reduction loop remains above the tile that sums arrive from.

    Spatial ones add up on the way.
    """
    below = 0
    for kept in mapping.kept("output"):
        if kept.memory == memory:
            break
        below = kept.loops
    above = [loop for loop in mapping.nest[below:] if loop.along is None]
    return any(loop.size > 1 and loop.dimension not in RELEVANT["output"] for loop in above)


MOST_MAPPINGS = 2500
"""Most mappings of one nest with one choice of homes."""
MOST_UNEVEN_MAPPINGS = 3000
"""Most uneven mappings of one nest with one choice of homes: most of a second."""
MOST_RAGGED_MAPPINGS = 300
"""Most imperfect mappings of one nest with one choice of homes: a second, as each is costed separately."""
Rooms = tuple[int, ...]
"""Bytes in each addressed memory, nearest the MACs first."""


@dataclass(frozen=True)
class ToyTensor:
    name: str
    size_bytes: int
    row_bits: int
    is_parameter: bool
    is_given: bool
    is_output: bool


@dataclass(frozen=True)
class ToyOperand:
    """An operand; `kind` determines its possible homes, `role` its part in the nest, and `tensors` are its bands."""

    kind: str
    role: str
    tensors: tuple[int, ...]


@dataclass(frozen=True)
class ToyOperator:
    name: str
    nests: tuple[Layer, ...]
    operands: tuple[ToyOperand, ...]
    stack: int
    declared_bytes: int = 0
    most_bits: int | None = None
    """Most bits that it reads of any operand, for operators that extract elements."""

    @property
    def reads(self) -> list[ToyOperand]:
        return [one for one in self.operands if one.kind != "output"]

    @property
    def writes(self) -> list[ToyOperand]:
        return [one for one in self.operands if one.kind == "output"]


@dataclass(frozen=True)
class ToyMemory:
    name: str
    holds: frozenset[str]
    capacity: int
    alignment: int


@dataclass(frozen=True)
class Choice:
    """A way to run a Compute: its mappings, its figures, and its workspaces."""

    energy_fj: int
    cycles: int
    read_bits: int
    written_bits: int
    room: Rooms
    mappings: tuple[tuple[Layer, Homes, LayerMapping], ...] = ()

    @property
    def traffic_bytes(self) -> int:
        return -(-self.read_bits // 8) - (-self.written_bits // 8)


@dataclass
class NestFronts:
    """The Pareto-optimal mappings of nests over all figures; each nest's mappings are enumerated once.

    With `uneven` these include mappings with level boundaries per operand, and imperfect factors. `misses_some` is True
    if some nest has too many of these.
    """

    uneven: bool = False
    misses_some: bool = False
    known: dict[tuple[Layer, Homes, bool], list[tuple[Choice, float]]] = field(default_factory=dict)

    def of(self, problem: LayerProblem, memories: Sequence[str]) -> list[tuple[Choice, float]]:
        """Return one mapping per set of figures, with its energy in pJ; raises TooLargeError for too many."""
        key = problem.layer, problem.homes, problem.weight_is_an_input
        if key not in self.known:
            self.known[key] = _front(problem, self._mappings(problem), memories)
        return self.known[key]

    def _mappings(self, problem: LayerProblem) -> list[LayerMapping]:
        if self.uneven:
            mappings = list(islice(best_mappings(problem), MOST_UNEVEN_MAPPINGS + 1))
            is_listed = len(mappings) <= MOST_UNEVEN_MAPPINGS
            if is_listed and sum(bool(one.ragged) for one in mappings) <= MOST_RAGGED_MAPPINGS:
                return mappings
            self.misses_some = True
            if is_listed:
                return [one for one in mappings if not one.ragged]
        mappings = list(islice(all_mappings(problem), MOST_MAPPINGS + 1))
        if len(mappings) > MOST_MAPPINGS:
            raise TooLargeError
        return mappings


def _front(
    problem: LayerProblem, mappings: Sequence[LayerMapping], memories: Sequence[str]
) -> list[tuple[Choice, float]]:
    found: dict[tuple[object, ...], tuple[Choice, float]] = {}
    for mapping, figures in _figures(problem, mappings, memories):
        made = ((problem.layer, problem.homes, mapping),)
        found.setdefault(figures, (Choice(0, *figures[1:], made), figures[0]))
    return _best(list(found.values()))


class Toy:
    """A tiny network in stacks (by default each operator runs alone and whole) on a tiny machine.

    Concatenations that need not be made are omitted, unless `makes_joins`.
    """

    def __init__(
        self,
        network: Graph,
        accelerator: Accelerator,
        precision: Precision,
        stacks: Sequence[ScheduledStack] = (),
        fronts: NestFronts | None = None,
        *,
        makes_joins: bool = False,
    ) -> None:
        self.stacks = tuple(stacks) or tuple(ScheduledStack((one.name,)) for one in network.operators)
        tiles = tile_graph(network, self.stacks, precision, () if makes_joins else views_that_join(network))
        self.network, self.accelerator, self.fronts = network, accelerator, fronts or NestFronts()
        graph = self.graph = tiles.graph
        sizes = set(accelerator.array.sizes) if accelerator.array else set()
        single = [one for one in accelerator.levels if one.serves is None or sizes <= set(one.serves)]
        self.memories = [
            ToyMemory(one.name, frozenset(map(str, one.holds)), one.capacity_bytes, one.alignment_bytes)
            for one in (level.memory for level in single)
        ]
        self.tensors = [
            ToyTensor(
                tensor.name,
                tensor.size_bytes,
                tensor.shape[-1] * tensor.bits if tensor.shape and tensor.bits else tensor.size_bytes * 8,
                tensor.role is Role.PARAMETER,
                tensor.role in (Role.PARAMETER, Role.INPUT),
                tensor.role is Role.OUTPUT,
            )
            for tensor in graph.tensors
        ]
        self.operators = []
        for operator in graph.operators:
            nests = tiles.operators[operator.name].nests
            self.operators.append(
                ToyOperator(
                    operator.name,
                    nests,
                    tuple(self._operands(operator, nests)),
                    tiles.operators[operator.name].stack,
                    operator.workspace_bytes,
                    self._most_bits(operator),
                )
            )
        self.known: dict[tuple[int, tuple[str | None, ...]], list[Choice]] = {}

    def _most_bits(self, operator: Operator) -> int | None:
        """Return the bits that an extracting operator reads: the bits that it writes, in whole bytes."""
        if operator.kind not in ("Slice", "Gather"):
            return None
        written = [self.graph.tensor[name] for name in operator.outputs]
        return 8 * -(-sum(prod(one.shape or ()) * (one.bits or 0) for one in written) // 8)

    def _operands(self, operator: Operator, nests: Sequence[Layer]) -> Iterator[ToyOperand]:
        """Yield the distinct inputs, then the outputs; in element-wise nests the larger operand is the input."""
        joined = {} if operator.tile is None else {one.part: one.whole for one in operator.tile.joined}
        read = self._bands(operator.reads, joined)
        weights = [base for base, bands in read.items() if self.tensors[bands[0]].is_parameter] or list(read)[1:]
        if operator.kind != "Conv" and nests and all(nests[0].bounds[loop] == 1 for loop in "KCRS"):
            weights = sorted(read, key=lambda base: -self.network.tensor[base].size_bytes)[1:]
        for base, bands in read.items():
            kind = "weight" if self.tensors[bands[0]].is_parameter else "input"
            is_weight = bool(nests) and nests[0].has_weight and base in weights
            yield ToyOperand(
                kind, "weight" if is_weight else "other" if base in weights and nests else "input", tuple(bands)
            )
        for bands in self._bands(operator.outputs, {}).values():
            yield ToyOperand("output", "output", tuple(bands))

    def _bands(self, names: Sequence[str], joined: Mapping[str, str]) -> dict[str, list[int]]:
        """Return the numbers of bands by tensor of the network; parts count as bands of their concatenation."""
        numbers, found = {tensor.name: at for at, tensor in enumerate(self.tensors)}, dict[str, list[int]]()
        for name in dict.fromkeys(names):
            base = self.graph.tensor[name].part_of or name
            found.setdefault(joined.get(base, base), []).append(numbers[name])
        return found

    def bytes_of(self, operand: ToyOperand) -> int:
        """Return the bytes of all its bands."""
        return sum(self.tensors[one].size_bytes for one in operand.tensors)

    # Copies

    def may_hold(self, memory: int, tensor: int) -> bool:
        wanted = {"weight"} if self.tensors[tensor].is_parameter else {"input", "output"}
        return bool(wanted & self.memories[memory].holds)

    def copy_fj(self, tensor: int, source: int, target: int) -> int:
        """Return the energy of a copy in fJ; memories are numbered, and DRAM's number is the greatest."""
        bits, hops = self.tensors[tensor].size_bytes * 8, self._hops(tensor, source, target)
        return round(sum(self.access_fj(a, bits, reads=True) + self.access_fj(b, bits, reads=False) for a, b in hops))

    def copy_cycles(self, tensor: int, source: int, target: int) -> int:
        """Return the cycles of the set-up and the slowest hop."""
        bits, hops = self.tensors[tensor].size_bytes * 8, self._hops(tensor, source, target)
        slowest = max(max(self.cycles(a, bits, reads=True), self.cycles(b, bits, reads=False)) for a, b in hops)
        return slowest + (self.accelerator.dma.setup_cycles if self.accelerator.dma else 0)

    def _hops(self, tensor: int, source: int, target: int) -> list[tuple[int, int]]:
        low, high = sorted((source, target))
        way = [low, *(one for one in range(low + 1, high) if self.may_hold(one, tensor)), high]
        return list(pairwise(way if low == source else way[::-1]))

    def access_fj(self, memory: int, bits: int, *, reads: bool) -> Fraction:
        """Return the energy in fJ, in shortest accesses, with the decimal numbers of the file."""
        access = self._access(memory)
        shortest = access.shortest_access_bits or access.access_bits
        energy = Fraction(str(access.read_energy_pj if reads else access.write_energy_pj)) * 1000
        return -(-bits // shortest) * energy * shortest / access.access_bits

    def _access(self, memory: int) -> Access:
        found = self.accelerator.dram.access if self.accelerator.dram else None
        if memory < len(self.memories):
            (level,) = [one for one in self.accelerator.levels if one.memory.name == self.memories[memory].name]
            found = level.access
        if found is None:
            raise ValueError("nothing says what an access costs")
        return found

    def cycles(self, memory: int, bits: int, *, reads: bool) -> int:
        ports = self.accelerator.dram.ports if self.accelerator.dram else ()
        if memory < len(self.memories):
            (level,) = [one for one in self.accelerator.levels if one.memory.name == self.memories[memory].name]
            ports = level.ports
        wanted = ("read" if reads else "write", "read_write")
        rate = sum(port.bits_per_cycle for port in ports if port.direction in wanted)
        return -(-bits // rate) if ports and bits else 0

    # Computes

    def choices(self, number: int, homes: tuple[str | None, ...]) -> list[Choice]:
        """Return all ways to run an operator whose operands have these homes (None: streamed)."""
        if (number, homes) not in self.known:
            operator = self.operators[number]
            found = self._of_nests(operator, homes) if operator.nests else [self._without_nest(operator, homes)]
            self.known[number, homes] = [replace(one, room=self.with_declared(operator, one.room)) for one in found]
        return self.known[number, homes]

    def with_declared(self, operator: ToyOperator, room: Rooms) -> Rooms:
        """Return the workspaces plus the operator's declared one, in the last memory."""
        return (*room[:-1], room[-1] + operator.declared_bytes)

    def _of_nests(self, operator: ToyOperator, homes: tuple[str | None, ...]) -> list[Choice]:
        problems = [self.problem(operator, layer, homes) for layer in operator.nests]
        fronts = [self.fronts.of(one, [memory.name for memory in self.memories]) for one in problems]
        found = []
        for parts in product(*fronts):
            energy_pj = 0.0
            for _, one in parts:
                energy_pj += one
            figures = [one for one, _ in parts]
            found.append(
                Choice(
                    round(energy_pj * 1000),
                    sum(one.cycles for one in figures),
                    sum(one.read_bits for one in figures),
                    sum(one.written_bits for one in figures),
                    tuple(max(one) for one in zip(*(one.room for one in figures), strict=True)),
                    tuple(mapping for one in figures for mapping in one.mappings),
                )
            )
        return found

    def problem(self, operator: ToyOperator, layer: Layer, homes: tuple[str | None, ...]) -> LayerProblem:
        """Return the mapping problem of a nest of an operator whose operands have these homes."""
        at = {one.role: home for one, home in zip(operator.operands, homes, strict=True)}
        weight = at.get("weight", at["input"]) if layer.has_weight else None
        is_input = layer.has_weight and all(one.kind == "input" for one in operator.reads)
        return LayerProblem(layer, self.accelerator, Homes(at["input"], weight, at["output"]), {}, is_input)

    def room(self, problem: LayerProblem, mapping: LayerMapping) -> Rooms:
        """Return the bytes of the mapping's workspaces."""
        return tuple(workspace(problem, mapping, memory.name) for memory in self.memories)

    def _without_nest(self, operator: ToyOperator, homes: tuple[str | None, ...]) -> Choice:
        """Return the cost of one pass over each operand at its home, with a row of each streamed one as workspace."""
        names, dram = [one.name for one in self.memories], len(self.memories)
        energy, moved, rows = Fraction(0), dict[tuple[int, bool], int](), [0] * dram
        for one, home in zip(operator.operands, homes, strict=True):
            tensor, reads = self.tensors[one.tensors[0]], one.kind != "output"
            memory = dram if home is None else names.index(home)
            bits = self.bytes_of(one) * 8
            bits = min(bits, operator.most_bits) if reads and operator.most_bits is not None else bits
            energy += self.access_fj(memory, bits, reads=reads)
            moved[memory, reads] = moved.get((memory, reads), 0) + bits
            holding = [at for at, other in enumerate(self.memories) if one.kind in other.holds]
            if home is None and holding:
                rows[holding[-1]] += tensor.row_bits
        cycles = [
            sum(self.cycles(memory, moved.get((memory, reads), 0), reads=reads) for reads in (True, False))
            for memory in range(dram + 1)
        ]
        from_dram, to_dram = moved.get((dram, True), 0), moved.get((dram, False), 0)
        return Choice(round(energy), max(cycles), from_dram, to_dram, self._pieces(rows, operator.declared_bytes))

    def _pieces(self, rows: list[int], declared_bytes: int) -> tuple[int, ...]:
        """Return the bytes of rows in each memory; rows that do not fit take the remaining bytes, at least one."""
        left = [memory.capacity for memory in self.memories]
        left[-1] = max(left[-1] - declared_bytes, 1)
        return tuple(room if 8 * room < bits else -(-bits // 8) for room, bits in zip(left, rows, strict=True))


def _best(found: list[tuple[Choice, float]]) -> list[tuple[Choice, float]]:
    """Drop choices that another dominates in all figures; they serve no objective."""

    def figures(one: tuple[Choice, float]) -> tuple[float, ...]:
        return (one[1], one[0].cycles, one[0].read_bits, one[0].written_bits, *one[0].room)

    kept: list[tuple[Choice, float]] = []
    for one in sorted(found, key=figures):
        if not any(all(a <= b for a, b in zip(figures(other), figures(one), strict=True)) for other in kept):
            kept.append(one)
    return kept


Figures = tuple[float, int, int, int, Rooms]


def _figures(
    problem: LayerProblem, mappings: Sequence[LayerMapping], memories: Sequence[str]
) -> Iterator[tuple[LayerMapping, Figures]]:
    """Yield legal mappings with pJ, cycles, bits that DRAM reads and writes, and workspaces.

    The bits are the cost of an even mapping on a machine where one bit read from, or written to, DRAM costs 1 and all
    else 0.
    """
    even = [one for one in mappings if not one.ragged]
    own = LayerCosts(problem)
    chosen = own.encode(even)
    costs = own.of_chosen(chosen)
    reads, writes = (LayerCosts(_priced(problem, *each)).of_chosen(chosen).energy_pj for each in ((1, 0), (0, 1)))
    alone = [one for one in mappings if one.ragged]
    for at, mapping in enumerate(even):
        if costs.status[at] == CostStatus.INTERLEAVED:
            alone.append(mapping)
        elif costs.energy_pj[at] < inf:
            room = tuple(workspace(problem, mapping, memory) for memory in memories)
            cycles = ceil(round(float(costs.cycles[at]), 6))
            yield mapping, (float(costs.energy_pj[at]), cycles, round(reads[at]), round(writes[at]), room)
    for mapping in alone:
        with suppress(MappingError):
            cost = nest_cost(problem, mapping)
            room = tuple(cost.workspace_bytes.get(memory, 0) for memory in memories)
            yield mapping, (cost.energy_pj, cost.cycles, cost.dram_read_bits, cost.dram_written_bits, room)


def _priced(problem: LayerProblem, read_pj: float, write_pj: float) -> LayerProblem:
    machine, dram = problem.accelerator, problem.accelerator.dram
    if dram is None or machine.array is None:
        raise ValueError("nothing says what DRAM and the array cost")
    free = tuple(replace(level, access=Access(1, 0, 0)) for level in machine.levels)
    array = replace(machine.array, mac_energy_pj=0.0)
    priced = replace(machine, levels=free, array=array, dram=replace(dram, access=Access(1, read_pj, write_pj)))
    return LayerProblem(problem.layer, priced, problem.homes, problem.room_bytes, problem.weight_is_an_input)
