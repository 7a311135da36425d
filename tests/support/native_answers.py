"""Stored answers of compiled searches whose answers no oracle decides, a group for each unit of `onchip.native`.

Each unit answers a few dozen small questions drawn with a fixed seed. Limits are counted work, never time, and searches
have one worker. For each question the file holds a part of the answer in clear, a digest of the whole answer, and a
digest of the question. A change of the C++ that should keep all answers can be compared with the file.

The answers hold for the C++ library and the mathematical library of Linux: elsewhere shuffles and logarithms differ.

Write the file again, from the folder `tests`, after a change that should give other answers::

    python -m support.native_answers --write

Without `--write` the command names the differences, as the test does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from hashlib import sha256
from itertools import count, product
from math import inf
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from onchip import native
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.packing import Buffer
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.errors import AcceleratorError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.tile_search.exact import space_of, ways_of
from onchip.memory.timed.homes import HomesOfOperands, latency_bands
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import CostStatus, LayerCosts, native_layer, native_machine
from support.nests import Case, random_case
from support.packable import full_at_every_step
from support.perfect_packings import cut_rectangle, drawn_windows
from support.skipping_graphs import skipping_problem

DIGITS = 12


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and its answer; `value` is a readable part of the answer: a cost, a bound or a number of rows."""

    question: object
    value: object
    answer: object

    @property
    def row(self) -> tuple[str, str, str]:
        """Return the value in clear, the digest of the answer and the digest of the question."""
        return str(plain(self.value)), digest(self.answer), digest(self.question)


def digest(value: object) -> str:
    """Return the first digits of the SHA-256 of a value, the same in every process and on every machine."""
    return sha256(repr(plain(value)).encode()).hexdigest()[:DIGITS]


def plain(value: object) -> object:
    """Return a value as nested lists of names, numbers and texts; raises TypeError for an object of another kind."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return [[plain(key), plain(one)] for key, one in value.items()]
    if isinstance(value, list | tuple | range):
        return [plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=repr)
    if is_dataclass(value):
        return [type(value).__name__, *(plain(getattr(value, field.name)) for field in fields(value))]
    raise TypeError(f"{type(value).__name__} has no digest")


# Mappings of layers

OBJECTIVES = tuple(native.ExactObjective)
MOST_NODES = 3_000
MOST_WORK = 60_000


def exact_mapper(seed: int) -> Answered:
    problem, space = _real_space(seed) if seed % 4 == 3 else _space(seed)
    mapper = native.ExactMapper(space, OBJECTIVES[seed % 3])
    most_nodes = MOST_NODES if seed % 4 else 40
    mapper.run(inf, native.StopToken(), 1, most_nodes, MOST_WORK)
    found = [mapper.best, mapper.proven, mapper.nodes, mapper.work, _plain_nest(mapper.answer)]
    return Answered((problem, most_nodes), mapper.best, found)


def exact_way(seed: int) -> Answered:
    """Ask for lower bounds of some spatial mappings, verdicts of the components, and the remaining chains."""
    problem, space = _space(seed)
    way, random, found = native.ExactWay(space, OBJECTIVES[seed % 3]), Random(seed), list[object]()
    sizes = [len(own) for own in ways_of(problem)]
    rows = list(product(*map(range, sizes)))
    random.shuffle(rows)
    for row in rows[:6]:
        floor = way.floor(row)
        found.append(floor)
        if floor is None:
            continue
        limit = max(floor[0], 1.0) * max(floor[1], 1.0) * 1.5
        found.append([way.may_be_below(row, floor[1], limit * part, way.criteria) for part in (0.3, 1.0, 3.0)])
        chains = way.chains(row, limit)
        found.append([(bounds, _plain_nest(nest)) for bounds, nest in chains[:30]])
    return Answered((problem, rows[:6]), found[0], [[one.is_energy for one in way.criteria], found])


def exact_refiner(seed: int) -> Answered:
    """Ask for a random mapping refined in three steps."""
    case = next(_legal_cases(seed))
    problem, chosen = case.problem, LayerCosts(case.problem).encode([case.mapping])
    search = native.ExactRefiner(
        native_layer(problem.layer, problem.accelerator),
        native_machine(problem),
        OBJECTIVES[seed % 3],
        [[True] * len(LOOPS) for _ in array_of(problem.accelerator).sizes],
        seed,
        *chosen,
    )
    found: list[object] = [search.value]
    for mappings in (500, 1_500, 5_000):
        search.go_on(mappings)
        found += [search.value, _plain_nest(search.nest)]
    return Answered(case, search.value, found)


def _legal_cases(seed: int) -> Iterator[Case]:
    for drawn in count(1000 * seed):
        case = random_case(drawn, most_macs=20_000)
        if LayerCosts(case.problem).of([case.mapping]).status[0] == CostStatus.COSTED:
            yield case


def _space(seed: int) -> tuple[LayerProblem, native.ExactSpace]:
    """Draw a problem in which the memories of each operand form a chain."""
    for drawn in count(1000 * seed):
        problem = random_case(drawn, most_macs=1500).problem.without_memories_of_no_use()
        try:
            return problem, space_of(problem)
        except AcceleratorError:
            continue
    raise AssertionError


def _real_space(seed: int) -> tuple[LayerProblem, native.ExactSpace]:
    problem = _real_problem(seed)
    return problem, space_of(problem)


def _real_problem(seed: int) -> LayerProblem:
    """Draw a convolution or a matrix product on a published accelerator."""
    random = Random(seed)
    k, c, p = (random.choice((8, 12, 14, 16, 28, 32)) for _ in range(3))
    layer = Layer(k=k, c=c, p=p, q=p, r=3, s=3) if random.random() < 0.5 else Layer(k=k, c=c, p=p)
    return LayerProblem(layer, load_accelerator(random.choice(("simba", "eyeriss-like")))).without_memories_of_no_use()


def _plain_nest(nest: native.ExactNest | None) -> object:
    return None if nest is None else (nest.loops, nest.kept)


# Plans

MOST_STATES = 20_000
UNLIMITED = 1 << 62


@dataclass(frozen=True)
class DrawnNetwork:
    """Operators in a legal order, with tensors by number; sizes and costs are by tensor."""

    sizes: list[int]
    load_costs: list[int]
    store_costs: list[int]
    reads: list[list[int]]
    writes: list[list[int]]
    predecessors: list[list[int]]

    def most_needed(self, alignment: int = 1) -> int:
        """Return the most bytes that the operands of one operator need together, each size rounded up."""
        aligned = [-(-size // alignment) * alignment for size in self.sizes]
        return max(
            sum(aligned[one] for one in {*own, *made}) for own, made in zip(self.reads, self.writes, strict=True)
        )


def drawn_network(random: Random, operators: int) -> DrawnNetwork:
    """Draw operators that read recent tensors, inputs of the network among them, and write one or two."""
    found = DrawnNetwork([], [], [], [], [], [])
    producer = dict[int, int]()

    def tensor(store_costs: Sequence[int]) -> int:
        size = random.choice((1, 2, 3, 4, 6, 9))
        found.sizes.append(size)
        found.load_costs.append(size + random.randint(0, 2))
        found.store_costs.append(random.choice(store_costs))
        return len(found.sizes) - 1

    recent = [tensor([0]), tensor([0])]
    for number in range(operators):
        reads = set(random.sample(recent[-7:], min(len(recent), random.choice((1, 2, 2, 3)))))
        if random.random() < 0.2:
            reads.add(random.choice(recent))
        if random.random() < 0.3:
            reads.add(tensor([0]))
        made = [tensor((0, 2, 3, 5)) for _ in range(random.choice((1, 1, 1, 2)))]
        found.reads.append(sorted(reads))
        found.writes.append(made)
        found.predecessors.append(sorted({producer[one] for one in reads if one in producer}))
        producer |= dict.fromkeys(made, number)
        recent += made
    return found


# Packing


def packing_search(seed: int) -> Answered:
    """Ask for the exact search at the load or slightly above it, in several runs; some have no packing."""
    random = Random(seed)
    is_dense = seed % 2 == 0
    buffers = full_at_every_step(random, 20, 24, 12, 0.25) if is_dense else _buffers(random, random.randint(20, 60))
    capacity = _load(buffers) + random.choice((0, 0, 0, 1))
    attempt, found = native.PackingAttempt(_requests(buffers), capacity, seed=seed), list[object]()
    for most_nodes in (30, 300, 6000):
        finding = attempt.search(most_nodes, native.StopToken())
        offsets = attempt.offsets if finding is native.PackingFinding.PACKED else []
        found.append([finding, attempt.nodes, offsets, attempt.core])
    return Answered((buffers, capacity), [finding.name, attempt.nodes], found)


def packing_attempt(seed: int) -> Answered:
    """Ask at the load, with all features in a third of the cases: best fit, search, and stretches."""
    random = Random(seed)
    buffers = _buffers(random, random.randint(8, 40))
    requests = _requests(buffers)
    if seed % 3 == 0:
        offsets = native.place_in_order(requests, range(len(buffers)), in_smallest_gap=seed % 2 == 0)
        fixed = set(random.sample(range(len(buffers)), 3))
        requests = _requests(buffers, {number: offsets[number] for number in fixed})
    capacity = native.least_arena(requests)[0]
    attempt = native.PackingAttempt(requests, capacity, seed=seed)
    finding = attempt.go_on(20_000, native.StopToken())
    offsets = attempt.offsets if finding is native.PackingFinding.PACKED else []
    found = [finding, attempt.nodes, offsets, attempt.stretch]
    return Answered((buffers, seed, capacity), [finding.name, attempt.nodes], found)


def packing_driver(seed: int) -> Answered:
    """Ask for the least arena, and for repairs at a capacity above it."""
    random = Random(seed)
    buffers = _buffers(random, random.randint(10, 60)) if seed % 3 else list(drawn_windows(120, 12, seed))
    found = list[object]()
    for capacity, minimize in ((1 << 40, True), (_load(buffers) * 11 // 10, False)):
        answer = native.pack_buffers(
            _requests(buffers),
            capacity,
            minimize=minimize,
            most_nodes=4_000,
            seed=seed,
            repairs=3,
            stop=native.StopToken(),
            progress=lambda arena, bound: None,
        )
        found.append([answer.verdict, answer.arena, answer.lower_bound, answer.nodes, answer.offsets])
    return Answered((seed, buffers), answer.arena, found)


def _requests(
    buffers: Sequence[Buffer], fixed: Mapping[int, int] = MappingProxyType({})
) -> list[native.PackingRequest]:
    return [
        native.PackingRequest(
            start=one.start, stop=one.stop, size=one.size_bytes, alignment=1, fixed=fixed.get(number, -1), gaps=[]
        )
        for number, one in enumerate(buffers)
    ]


def _buffers(random: Random, count: int) -> list[Buffer]:
    """Draw buffers of small sizes, some of them equal, or the pieces of a rectangle in a third of the cases."""
    if random.random() < 0.3:
        return list(cut_rectangle(count, 30, 60, random.randrange(1 << 30)))
    found = []
    for _ in range(count):
        start = random.randrange(20)
        found.append(Buffer(start, start + random.randint(1, 9), random.choice((3, 4, 4, 5, 7, 11))))
    return found


def _load(buffers: Sequence[Buffer]) -> int:
    return max(sum(one.size_bytes for one in buffers if one.start <= at.start < one.stop) for at in buffers)


# Layouts


def layout_beam(seed: int) -> Answered:
    network, capacity, alignment = _network_with_room(seed)
    beam, question = _beam_of_order(Random(seed), network, capacity, alignment)
    found = list[object]()
    for width in (1, 6):
        _run_in_order(beam, width, seed)
        found += [beam.cost, _plain_stays(beam.stays)]
    return Answered((network, capacity, alignment, question), beam.cost, found)


def order_beam(seed: int) -> Answered:
    """Ask with free tensors, or with the first one pinned; also below an upper bound."""
    network, capacity, alignment = _network_with_room(seed)
    pins = [-1] * len(network.sizes)
    if seed % 2:
        pins[0] = (capacity - network.sizes[0]) // alignment * alignment
    beam = native.OrderBeam(
        _layout_tensors(network), pins, _layout_operators(network), capacity_bytes=capacity, alignment_bytes=alignment
    )
    found = list[object]()
    for width, upper_bound in ((4, UNLIMITED), (16, UNLIMITED), (16, 60)):
        options = {"upper_bound": upper_bound, "ahead": (64, 4)[seed % 3 == 0], "soon": (8, 24)[seed % 2], "seed": seed}
        is_found = beam.run(width, **options, stop=native.StopToken())
        found += [is_found, beam.cost, beam.order, _plain_stays(beam.stays)]
    return Answered((network, capacity, alignment, pins), beam.cost, found)


def placed_plan(seed: int) -> Answered:
    """Ask to plan windows of a plan from the beam search again, one after the other."""
    network, capacity, alignment = _network_with_room(seed, operators=30)
    beam, question = _beam_of_order(Random(seed), network, capacity, alignment)
    _run_in_order(beam, 4, seed)
    operators, random = _layout_operators(network), Random(seed)
    plan = native.PlacedPlan(
        _layout_tensors(network),
        operators,
        range(len(operators)),
        beam.stays,
        capacity_bytes=capacity,
        alignment_bytes=alignment,
    )
    found: list[object] = [plan.cost]
    for _ in range(3):
        begin = random.randrange(20)
        windows = [
            native.WindowChoice(begin=at, stop=at + 9, soon=random.choice((4, 12)), seed=seed)
            for at in (begin, begin + 5)
        ]
        found += [plan.plan_anew(windows, 8, native.StopToken()), plan.cost, plan.order, _plain_stays(plan.stays)]
    return Answered((network, capacity, alignment, question), plan.cost, found)


def _network_with_room(seed: int, operators: int = 0) -> tuple[DrawnNetwork, int, int]:
    random = Random(seed)
    network, alignment = drawn_network(random, operators or random.randint(8, 26)), random.choice((1, 1, 2))
    return network, network.most_needed(alignment) + random.randint(0, 4), alignment


def _beam_of_order(
    random: Random, network: DrawnNetwork, capacity: int, alignment: int
) -> tuple[native.OrderBeam, object]:
    """Draw the operands that need not stay until their next use; the operators run in numeric order."""
    operands = [(*reads, *writes) for reads, writes in zip(network.reads, network.writes, strict=True)]
    released = [[tensor for tensor in own if random.random() < 0.2] for own in operands]
    operators = [
        native.LayoutOperator(
            reads=network.reads[step],
            writes=network.writes[step],
            predecessors=range(max(0, step - 1), step),
            released=released[step],
        )
        for step in range(len(operands))
    ]
    beam = native.OrderBeam(
        _layout_tensors(network),
        [-1] * len(network.sizes),
        operators,
        capacity_bytes=capacity,
        alignment_bytes=alignment,
    )
    return beam, released


def _run_in_order(beam: native.OrderBeam, width: int, seed: int) -> None:
    assert beam.run(width, upper_bound=UNLIMITED, ahead=1, soon=0, seed=seed, stop=native.StopToken())


def _layout_tensors(network: DrawnNetwork) -> list[native.LayoutTensor]:
    return [
        native.LayoutTensor(size_bytes=size, load_cost=load, store_cost=store)
        for size, load, store in zip(network.sizes, network.load_costs, network.store_costs, strict=True)
    ]


def _layout_operators(network: DrawnNetwork) -> list[native.LayoutOperator]:
    return [
        native.LayoutOperator(reads=reads, writes=writes, predecessors=predecessors)
        for reads, writes, predecessors in zip(network.reads, network.writes, network.predecessors, strict=True)
    ]


def _plain_stays(stays: Sequence[native.LayoutStay]) -> list[tuple[int, int, int, int]]:
    return [(one.tensor, one.start, one.stop, one.offset_bytes) for one in stays]


# Timing


def latency_rooms(seed: int) -> Answered:
    """Ask for one order in random bands, timed with many capacities and all allocation strategies."""
    search, question = _bands(seed)
    found = list[object]()
    for share, ahead_share in ((1.0, 1.0), (0.9, 0.5), (0.0, 0.0)):
        found.append(_plain_timing(search.evaluate(native.LatencyRoom(share, ahead_share))))
    for placing in tuple(native.LatencyPlacing)[1:]:
        for is_longest_first, has_place_for_all in ((False, False), (True, False), (False, True)):
            room = native.LatencyRoom(1.0, 1.0, placing, is_longest_first, has_place_for_all, 4)
            found.append(_plain_timing(search.evaluate(room)))
    return Answered(question, search.worth[0], [*_plain_best(search), found])


def latency_search(seed: int) -> Answered:
    """Ask for other bands, for other orders, then for both together."""
    search, question = _bands(seed)
    token, found = native.StopToken(), list[object]()
    if seed % 3 == 0:
        search.limit_room(native.LatencyRoom(1.0, 1.0, native.LatencyPlacing.LOWEST))
    search.cut_otherwise(0, token)
    found.append(_plain_best(search))
    search.reorder(2000, 3.0, 0, token)
    found.append(_plain_best(search))
    search.anneal(2000, 2.0, 0, token)
    found.append(_plain_best(search))
    return Answered(question, search.worth, found)


def _bands(seed: int) -> tuple[native.LatencyBands, object]:
    """Draw a problem with some free capacity, and start with random parts of its operators."""
    random = Random(seed)
    while True:
        problem = skipping_problem(random.randrange(1 << 30), random.randint(8, 20))
        more = random.choice((1, 2))
        memories = tuple(replace(one, capacity_bytes=more * one.capacity_bytes) for one in problem.memories)
        ways = WaysToRun(replace(problem, memories=memories))
        homes = HomesOfOperands(ways)
        if homes.unfit is None:
            break
    search = latency_bands(ways, homes.start(spreads=seed % 2 == 0))
    parts = [random.choice(sorted(one.cycles)) for one in ways.operators]
    search.begin(parts, seed)
    return search, (ways.problem, parts)


def _plain_best(search: native.LatencyBands) -> list[object]:
    tensors = [(one.memory, one.same_as) for one in search.tensors]
    timing = _plain_timing(search.evaluate(native.LatencyRoom(1.0, 1.0)))
    return [search.worth, search.parts, search.order, search.sizes_bytes, tensors, timing]


def _plain_timing(timing: native.LatencyTiming) -> list[object]:
    if not timing.fits:
        return []
    return [
        timing.latency,
        timing.transfer_cycles,
        [(one.tensor, one.start, one.stop, one.is_loaded, one.is_stored) for one in timing.stays],
        [(one.stay, one.is_store, one.position, one.start, one.stop) for one in timing.transfers],
        timing.ends,
        timing.offsets_bytes,
    ]


# The file

FILE: Final = Path(__file__).parent.parent / "native" / "stored_answers.json"
Row: TypeAlias = tuple[str, str, str]
"""The value in clear, the digest of the answer and the digest of the question."""

UNITS: Final[Mapping[str, Mapping[Callable[[int], Answered], int]]] = {
    "tile_search": {exact_mapper: 24, exact_way: 12, exact_refiner: 12},
    "packing": {packing_search: 24, packing_attempt: 24, packing_driver: 18},
    "beam": {layout_beam: 20, order_beam: 20, placed_plan: 16},
    "timing": {latency_rooms: 20, latency_search: 20},
}
"""Questions by translation unit of `onchip.native`, with the number of each."""


def answers_of(unit: str) -> dict[str, Row]:
    """Return the answers of one unit, by question."""
    return {f"{ask.__name__} {seed}": ask(seed).row for ask, number in UNITS[unit].items() for seed in range(number)}


def stored_answers() -> dict[str, dict[str, Row]]:
    """Return the answers in the file, by unit and question."""
    units = json.loads(FILE.read_text(encoding="utf-8"))
    return {unit: {name: tuple(row) for name, row in rows.items()} for unit, rows in units.items()}


def differences(stored: Mapping[str, Row], found: Mapping[str, Row]) -> list[str]:
    """Return a line for each question whose answer differs, or that is no longer the same question."""
    lines = [f"{name}: only in the file" for name in stored.keys() - found.keys()]
    lines += [f"{name}: only in this build" for name in found.keys() - stored.keys()]
    for name in stored.keys() & found.keys():
        (value, answer, question), (new_value, new_answer, new_question) = stored[name], found[name]
        if question != new_question:
            lines.append(f"{name}: the question itself has changed")
        elif (value, answer) != (new_value, new_answer):
            lines.append(f"{name}: value {value} is now {new_value}, answer {answer} is now {new_answer}")
    return sorted(lines)


def _text_of(units: Mapping[str, Mapping[str, Row]]) -> str:
    """Return JSON with a line for each question."""
    lines = []
    for unit, rows in units.items():
        own = (f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        lines.append(f'  "{unit}": {{\n' + ",\n".join(own) + "\n  }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    """Write the file, or compare this build with it; return the exit code."""
    parser = argparse.ArgumentParser(description="Compare the answers of the compiled searches with the stored ones.")
    parser.add_argument("--write", action="store_true", help="write the file again")
    is_written = parser.parse_args().write
    found = {unit: answers_of(unit) for unit in UNITS}
    if is_written:
        FILE.write_text(_text_of(found), encoding="utf-8")
        return 0
    stored = stored_answers()
    lines = [f"{unit}: {line}" for unit, own in found.items() for line in differences(stored.get(unit, {}), own)]
    print("\n".join(lines) or "All answers are the stored ones.")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
