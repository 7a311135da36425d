"""The oracle's schedules of tiny networks as programs, and the cost of programs.

`schedule_of` writes the cheapest schedule that the oracle found as a program for the verifier. `recounted` runs any
program in which operators run alone and whole: it tracks the residencies, finds the homes, and executes the mappings
element by element to determine the cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from onchip.answer.layer_mapping import LayerMapping, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.schedule import Homes, Schedule, ScheduledMapping
from onchip.arch.memory import DRAM
from onchip.ir.layer import Layer
from oracles.loop_nest import run_nest
from oracles.mapping import energy_and_cycles
from oracles.schedule import Action, Least, Place, State
from oracles.schedule_costs import Choice, Toy, ToyOperand, ToyOperator
from oracles.schedule_timeline import OperatorFacts, OracleTimeline

READS = (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)


def schedule_of(toy: Toy, least: Least) -> Schedule:
    """Return the cheapest schedule in the verifier's format, with stacks in execution order."""
    computed = [(toy.operators[one.tensor].stack, one.choice) for one, _ in least.actions if one.choice is not None]
    order = list(dict.fromkeys(stack for stack, _ in computed))
    for stack in reversed(range(len(toy.stacks))):
        if stack not in order:  # a concatenation that is not made precedes its first reader
            (written,) = toy.network.operator[toy.stacks[stack].operators[-1]].outputs
            readers = {reader.name for reader in toy.network.readers[written]}
            order.insert(next(at for at, one in enumerate(order) if readers & set(toy.stacks[one].operators)), stack)
    mappings = dict.fromkeys(
        ScheduledMapping(order.index(stack), *mapped) for stack, choice in computed for mapped in choice.mappings
    )
    memories = tuple(level.memory for level in toy.accelerator.addressed)
    program = Plan(memories, tuple(_instructions(toy, least.actions)))
    return Schedule(tuple(toy.stacks[stack] for stack in order), tuple(mappings), program)


def _instructions(toy: Toy, actions: Sequence[tuple[Action, State]]) -> Iterator[Instruction]:
    names = [*(one.name for one in toy.memories), DRAM]
    resident: frozenset[Place] = frozenset()
    for action, after in actions:
        during = set(resident)
        if action.kind == "copy":
            source, target = action.ends
            tensor = toy.tensors[action.tensor].name
            if names[target] != DRAM:
                (offset,) = (one[2] for one in after.resident if one[:2] == (action.tensor, target))
                yield Allocate(tensor, names[target], offset)
                during.add((action.tensor, target, offset))
            yield Copy(tensor, names[source], names[target])
        if action.kind == "compute" and action.choice is not None:
            operator = toy.operators[action.tensor]
            came = after.resident | action.dead
            new = {one for one in came if one[0] in {tensor for band in operator.writes for tensor in band.tensors}}
            during |= new
            yield from (Allocate(toy.tensors[tensor].name, names[memory], offset) for tensor, memory, offset in new)
            spaces = list(_workspaces(toy, action.choice, during))
            if action.spaces is not None:
                spaces = [(memory, at) for memory, at in enumerate(action.spaces) if action.choice.room[memory]]
            yield from (Allocate(f"{operator.name}@workspace", names[memory], offset) for memory, offset in spaces)
            yield Compute(operator.name)
            yield from (Free(f"{operator.name}@workspace", names[memory]) for memory, _ in spaces)
        for tensor_number, memory, _ in sorted(during - after.resident):
            yield Free(toy.tensors[tensor_number].name, names[memory])
        resident = after.resident


def _workspaces(toy: Toy, choice: Choice, resident: set[Place]) -> Iterator[tuple[int, int]]:
    for memory, size in enumerate(choice.room):
        if size:
            one = toy.memories[memory]
            here = [(at, at + toy.tensors[tensor].size_bytes) for tensor, where, at in resident if where == memory]
            yield (
                memory,
                next(
                    offset
                    for offset in range(0, one.capacity - size + 1, one.alignment)
                    if all(offset + size <= begin or end <= offset for begin, end in here)
                ),
            )


@dataclass(frozen=True)
class Recounted:
    """The cost of a schedule; `computes` is the number of times that a sum was rounded."""

    energy_fj: int
    traffic_bytes: int
    latency_cycles: int
    computes: int


@dataclass
class _Recount:
    toy: Toy
    schedule: Schedule
    resident: set[tuple[str, str]] = field(default_factory=set)
    workspaces: dict[str, dict[str, int]] = field(default_factory=dict)
    facts: dict[str, OperatorFacts] = field(default_factory=dict)
    energy_fj: int = 0
    traffic_bytes: int = 0

    def run(self) -> Recounted:
        toy, instructions = self.toy, self.schedule.program.instructions
        numbers = {tensor.name: at for at, tensor in enumerate(toy.tensors)}
        places = {one: at for at, one in enumerate([*(memory.name for memory in toy.memories), DRAM])}
        for one in instructions:
            match one:
                case Allocate(tensor, memory, _) if "@" not in tensor:
                    self.resident.add((tensor, memory))
                case Free(tensor, memory) if "@" not in tensor:
                    self.resident.discard((tensor, memory))
                case Copy(tensor, source, target):
                    self.energy_fj += toy.copy_fj(numbers[tensor], places[source], places[target])
                    if DRAM in (source, target):
                        self.traffic_bytes += toy.tensors[numbers[tensor]].size_bytes
                case Compute(operator):
                    self.compute([other.name for other in toy.operators].index(operator))
        timeline = OracleTimeline(toy.graph, toy.accelerator, self.facts)
        latency = timeline.run(instructions)
        return Recounted(self.energy_fj, self.traffic_bytes, latency, len(toy.operators))

    def compute(self, number: int) -> None:
        operator = self.toy.operators[number]
        homes = tuple(self.home(one) for one in operator.operands)
        choice = self.executed(operator, homes) if operator.nests else self.toy.choices(number, homes)[0]
        self.energy_fj += choice.energy_fj
        self.traffic_bytes += choice.traffic_bytes
        sizes = {one.name: size for one, size in zip(self.toy.memories, choice.room, strict=True) if size}
        self.facts[operator.name] = OperatorFacts(choice.cycles, choice.read_bits, choice.written_bits, sizes)

    def home(self, operand: ToyOperand) -> str | None:
        names = [self.toy.tensors[one].name for one in operand.tensors]
        holding = [one.name for one in self.toy.memories if operand.kind in one.holds]
        return next((memory for memory in holding if all((name, memory) in self.resident for name in names)), None)

    def executed(self, operator: ToyOperator, homes: tuple[str | None, ...]) -> Choice:
        energy_pj, cycles, read, written, room = 0.0, 0, 0, 0, (0,) * len(self.toy.memories)
        for layer in operator.nests:
            problem = self.toy.problem(operator, layer, homes)
            mapping = self.mapping(operator, layer, problem.homes)
            pj, took = energy_and_cycles(problem, mapping)
            energy_pj, cycles = energy_pj + pj, cycles + took
            bits = list(_dram_bits(problem, mapping))
            read += sum(size for reads, size in bits if reads)
            written += sum(size for reads, size in bits if not reads)
            room = tuple(map(max, room, self.toy.room(problem, mapping)))
        return Choice(round(energy_pj * 1000), cycles, read, written, self.toy.with_declared(operator, room))

    def mapping(self, operator: ToyOperator, layer: Layer, homes: Homes) -> LayerMapping:
        stack = [one.operators for one in self.schedule.stacks].index(self.toy.stacks[operator.stack].operators)
        (found,) = [
            one.mapping for one in self.schedule.mappings if (one.stack, one.layer, one.homes) == (stack, layer, homes)
        ]
        return found


def _dram_bits(problem: LayerProblem, mapping: LayerMapping) -> Iterator[tuple[bool, int]]:
    """Yield True for reads and the bits at DRAM; a streamed output counts partial sums if some leave incomplete."""
    for (memory, operand, move), sizes in run_nest(problem, mapping).accesses.items():
        if memory == DRAM:
            bits = problem.layer.bits(operand)
            if operand == "output" and _leaves_incomplete(mapping):
                bits = problem.layer.partial_bits
            yield move in READS, bits * sum(size * times for size, times in sizes.items())


def _leaves_incomplete(mapping: LayerMapping) -> bool:
    """Return True if temporal reduction loops remain above the last tile; spatial ones add up on the way to DRAM."""
    last = mapping.output[-1].loops if mapping.output else 0
    return any(loop.size > 1 and loop.dimension in "CRS" for loop in mapping.nest[last:] if loop.along is None)


def recounted(toy: Toy, schedule: Schedule) -> Recounted:
    """Return the cost of a legal schedule of the network with operators alone and whole."""
    return _Recount(toy, schedule).run()
