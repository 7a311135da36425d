"""Answers of the compiled searches for plans, packings and timings, to seeded random questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType

from onchip import native
from onchip.answer.packing import Buffer
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.memory.timed.homes import HomesOfOperands, latency_bands
from support.answered import Answered
from support.packable import full_at_every_step
from support.perfect_packings import cut_rectangle, drawn_windows
from support.skipping_graphs import skipping_problem

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


# Order with spills


# Order without spills


def peak_search(seed: int) -> Answered:
    """Ask between random bounds, in two runs, with alignments and overwritable inputs."""
    random = Random(seed)
    network = drawn_network(random, random.randint(12, 40))
    alignment, is_overwritten = (1, 4)[seed % 2], seed % 3 == 0
    operators = [
        native.PeakOperator(
            reads=reads,
            writes=writes,
            predecessors=predecessors,
            overwritables=[(one, 0, writes) for one in reads if network.sizes[one] == network.sizes[writes[0]]]
            if is_overwritten and len(writes) == 1
            else [],
        )
        for reads, writes, predecessors in zip(network.reads, network.writes, network.predecessors, strict=True)
    ]
    needs = native.peak_needs(network.sizes, operators, alignment, range(len(operators)))
    least, most = (0, max(needs) // 2)[seed % 4 == 0], (UNLIMITED, max(needs) - 1)[seed % 5 == 0]
    search = native.PeakSearch(network.sizes, operators, alignment_bytes=alignment, least_bytes=least, most_bytes=most)
    found: list[object] = [needs]
    for most_states in (20, MOST_STATES):
        found += [search.run(native.StopToken(), most_states), search.states, search.lower_bound, search.order]
    if search.order:
        found.append(native.peak_needs(network.sizes, operators, alignment, search.order))
    return Answered((network, alignment, least, most), search.lower_bound, found)


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
            start=one.start,
            stop=one.stop,
            size=one.size_bytes,
            alignment=1,
            fixed=fixed.get(number, -1),
            gaps=[],
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
        _layout_tensors(network),
        pins,
        _layout_operators(network),
        capacity_bytes=capacity,
        alignment_bytes=alignment,
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


# Network on a chip
