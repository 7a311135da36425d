"""LOMA, and fixed unrollings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise, permutations, product
from math import gcd, inf, prod
from pathlib import Path
from random import Random

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energies import stated
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import InputError, UsageError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import load_network
from onchip.formats.zigzag import read_zigzag_hardware
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, Layer
from onchip.mapping.baselines.loma import ORDER_OF_DEFINES, joined, solve_as_loma
from onchip.mapping.tile_search.uneven import (
    FixedUnrolling,
    TemporalMethod,
    solve_uneven,
    unrolling_for,
    unrolling_groups,
)
from onchip.model.accounting.accounting import DEFINES, INTERPRETER, ZIGZAG, Accounting
from onchip.model.layer.cost import layer_cost
from onchip.model.layer.limits import needed_bits, output_bits_in
from onchip.model.layer.ragged import boundaries
from onchip.model.layer.tables import LayerCosts
from onchip.model.unrolling.unrolling import Unrolling, prime_counts, unrolled_as_asked
from onchip.ops.fusable import FusableLayer
from onchip.ops.fusable_reading import fusable_of
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping
from oracles import mapping_unrolled as oracle
from oracles.mapping_unrolled import least_uneven_pj
from oracles.unrollings import ARCHITECTURES, NETWORKS, unrolling_of
from support.nests import beside_operands, random_layer
from support.series import series, with_slow

# LOMA against its definition, order by order and cut by cut, and against figures of ZigZag


SYSTOLIC = Path(__file__).parents[1] / "data" / "zigzag-systolic.yaml"
PORTS = (Port(Direction.READ, 16), Port(Direction.WRITE, 16))
TPU = {"D1": {"K": 32}, "D2": {"C": 32}}
RESNET18 = (
    ("conv:k64c3p112q112r7s7:stride2:pad3x3x2x2", 128899782.592),
    ("conv:k64c64p56q56r3s3:pad1", 66996199.936),
    ("conv:k128c64p28q28:stride2", 16432105.6),
    ("conv:k128c128p28q28r3s3:pad1", 57967469.312),
    ("conv:k256c256p14q14r3s3:pad1", 87358675.84),
    ("conv:k512c512p7q7r3s3:pad1", 238190980.224),
    ("conv:k1000c512", 45108639.12),
)
"""What ZigZag 3.9.1 says of layers of ResNet18 on its tpu_like, in pJ, limit 6."""


def _machine(random: Random) -> tuple[Accelerator, dict[Operand, str]]:
    """Return two units under three small levels, some for one operand, and the homes of operands whole in the last."""
    levels = []
    served: tuple[str, ...] | None = ()
    for number in range(3):
        holds = tuple(random.sample(list(Operand), random.choice((1, 2, 3)))) if number < 2 else tuple(Operand)
        served = None if number == 2 else served or random.choice(((), ("lane",)))
        memory = Memory(f"memory{number}", random.choice((4, 8, 24, 64)) * 4**number, holds=holds)
        doubled = random.random() < 0.3
        access = Access(16, random.choice((1.0, 3.0)) * 4**number, 2.0 * 4**number, 8)
        levels.append(MemoryLevel(memory, served, number == 2, doubled, access, PORTS))
    dram = Dram(Access(16, 100.0, 110.0), (Port(Direction.READ_WRITE, 16),))
    homes = {operand: "memory2" for operand in Operand if random.random() < 0.15}
    array = ComputeArray({"lane": 2}, mac_energy_pj=0.5)
    return Accelerator("small", (levels[-1].memory,), tuple(levels), None, array, dram), homes


def _problem(layer: Layer, accelerator: Accelerator, homes: dict[Operand, str]) -> LayerProblem:
    """Return the problem with operands at these homes, or with all operands in DRAM if they do not fit."""
    own = {operand: name for operand, name in homes.items() if operand in layer.operands}
    return beside_operands(layer, accelerator, own) or LayerProblem(layer, accelerator)


def _small(seed: int) -> tuple[LayerProblem, dict[str, dict[str, int]]]:
    random = Random(seed)
    machine = _machine(random)
    while True:
        layer = random_layer(random, 300)
        if len(_factors(layer, ())) <= 5:
            return _problem(layer, *machine), _unrolling(random, layer)


def _unrolling(random: Random, layer: Layer) -> dict[str, dict[str, int]]:
    """Return the unrolling of a random loop with an even bound on two units; empty if all bounds are odd."""
    fitting = [loop for loop in "KCQ" if layer.bounds[loop] % 2 == 0]
    return {"lane": dict.fromkeys(random.sample(fitting, min(len(fitting), 1)), 2)}


def _factors(layer: Layer, beside: Sequence[Loop]) -> list[Loop]:
    return _prime_loops(
        {
            name: bound // prod(one.size for one in beside if one.dimension == name)
            for name, bound in layer.bounds.items()
        }
    )


def _prime_loops(turns: dict[str, int]) -> list[Loop]:
    return [
        Loop(name, prime)
        for name, bound in turns.items()
        for prime, times in prime_counts(bound).items()
        for _ in range(times)
    ]


def _elements(layer: Layer, operand: str, loops: Sequence[Loop]) -> int:
    """Return the elements of the tile that loops touch, without rows that a stride skips."""
    sizes = {name: prod(loop.size for loop in loops if loop.dimension == name) for name in layer.bounds}
    if operand != INPUT:
        return prod(sizes[name] for name in RELEVANT[operand])
    found = sizes["N"] * sizes["C"] * sizes["G"]
    for axis in layer.axes:
        outputs, filters = sizes[axis.output_loop], sizes[axis.filter_loop]
        common = gcd(axis.stride, axis.dilation)
        skipped = max(0, filters - axis.stride // common) * max(0, outputs - axis.dilation // common)
        found *= min(outputs * filters - skipped, axis.size)
    return found


def _filled(problem: LayerProblem, beside: Sequence[Loop], order: Sequence[Loop]) -> LayerMapping | None:
    """Return the mapping that minimises transfers from above, level by level; the last of equal choices, or None."""
    layer = problem.layer
    cuts = dict.fromkeys(layer.operands, 0)
    kept: dict[str, list[Kept]] = {str(operand): [] for operand in Operand}
    for level in problem.levels:
        held = [
            operand
            for operand in level.memory.holds
            if operand in layer.operands
            and (level in problem.keepers(operand) or problem.home(operand) == level.memory.name)
        ]
        best: tuple[float, tuple[int, ...]] = (inf, ())
        for more in product(*(range(len(order) - cuts[operand] + 1) for operand in held)):
            ends = [cuts[operand] + number for operand, number in zip(held, more, strict=True)]
            if any(
                problem.home(o) == level.memory.name and end < len(order) for o, end in zip(held, ends, strict=True)
            ):
                continue
            rooms = [
                _room(layer, level, operand, beside, order, cuts[operand], end)
                for operand, end in zip(held, ends, strict=True)
            ]
            moved = sum(
                room * prod(loop.size for loop in order[end:])
                for operand, room, end in zip(held, rooms, ends, strict=True)
                if problem.home(operand) != level.memory.name
            )
            if sum(rooms) <= problem.usable_bits(level.memory.name) and moved <= best[0]:
                best = moved, tuple(ends)
        if held and best[0] == inf:
            return None
        for operand, end in zip(held, best[1], strict=True):
            cuts[operand] = end
            if level in problem.keepers(operand):
                kept[operand].append(Kept(level.memory.name, len(beside) + end))
    return LayerMapping((*beside, *order), *(tuple(own) for own in kept.values()))


def _room(
    layer: Layer, level: MemoryLevel, operand: str, beside: Sequence[Loop], order: Sequence[Loop], cut: int, end: int
) -> int:
    """Return the bits of a tile; sums count as partial if a loop outside the tile of the level below adds to them."""
    apart = [loop for loop in beside if level.serves is not None and loop.along not in level.serves]
    within = [loop for loop in beside if loop not in apart]
    bits = layer.bits(operand)
    if operand == OUTPUT and any(loop.dimension not in RELEVANT[OUTPUT] for loop in (*apart, *order[cut:])):
        bits = layer.partial_bits
    room = _elements(layer, operand, (*within, *order[:end])) * bits
    changes = any(loop.dimension in RELEVANT[operand] for loop in order[end:])
    return 2 * room if level.double_buffered and changes else room


def _energies(
    problem: LayerProblem, mappings: Iterator[LayerMapping | None], accounting: Accounting
) -> Iterator[float]:
    for mapping in mappings:
        if mapping is not None:
            try:
                yield layer_cost(problem, mapping, accounting).energy_pj
            except MappingError:
                continue


def _beside(problem: LayerProblem, unrolling: dict[str, dict[str, int]]) -> tuple[Loop, ...]:
    return unrolled_as_asked(problem.layer, problem.accelerator, unrolling).beside


@pytest.mark.parametrize("accounting", [ZIGZAG, DEFINES])
@pytest.mark.parametrize("seed", series(range(60), 12))
def test_all_orders_are_filled_as_the_definition_says(seed: int, accounting: Accounting) -> None:
    problem, unrolling = _small(seed)
    beside = _beside(problem, unrolling)
    orders = set(permutations(_factors(problem.layer, beside)))
    mappings = (_filled(problem, beside, order) for order in orders)
    least = min(_energies(problem, mappings, accounting), default=inf)
    result = solve_as_loma(problem, MappingObjective.ENERGY, Run(), 6, accounting, unrolling)
    assert (result.objective_value is None) == (least == inf)
    if result.objective_value is not None:
        assert result.objective_value == pytest.approx(1000 * least, rel=1e-9)


@pytest.mark.parametrize("accounting", [ZIGZAG, DEFINES])
@pytest.mark.parametrize("seed", series(range(30), 12))
def test_with_stored_room_answers_are_legal_and_the_best_of_those(seed: int, accounting: Accounting) -> None:
    """A tile also holds the rows that a stride skips, which those tools do not count."""
    random = Random(seed)
    accelerator, factors = _machine(random)[0], 4
    while not 1 <= factors <= 3:
        layer = replace(random_layer(random, 60), stride=random.choice(((2, 2), (3, 1))), padding=(0, 0, 0, 0))
        factors = len(oracle.factors(oracle.unrolled(layer, accelerator)[1]))
    problem = LayerProblem(layer, accelerator)
    given = problem, MappingObjective.ENERGY, Run()
    proven = solve_uneven(*given, accounting, has_stored_room=True)
    least = oracle.least_uneven_pj(layer, accelerator, accounting)
    assert proven.status is (Status.INFEASIBLE if least == inf else Status.OPTIMAL)
    filled = solve_as_loma(*given, accounting=accounting, has_stored_room=True)
    best = min(_energies(problem, oracle.filled_mappings(layer, accelerator), accounting), default=inf)
    for result, value in ((proven, least), (filled, best)):
        assert (result.answer is None) == (value == inf)
        if result.answer is not None:
            assert verify_mapping(problem, result.answer) == ()
            assert result.objective_value == pytest.approx(1000 * value, rel=1e-9)


def _all_cuts(problem: LayerProblem, beside: Sequence[Loop], order: Sequence[Loop]) -> Iterator[LayerMapping]:
    places = range(len(beside), len(beside) + len(order) + 1)
    ways = []
    for operand in Operand:
        names = [one.memory.name for one in problem.keepers(operand) if operand in problem.layer.operands]
        rising = (cuts for cuts in product(places, repeat=len(names)) if list(cuts) == sorted(cuts))
        ways.append([tuple(Kept(name, cut) for name, cut in zip(names, cuts, strict=True)) for cuts in rising])
    for kept in product(*ways):
        yield LayerMapping((*beside, *order), *kept)


def _fits(problem: LayerProblem, mapping: LayerMapping, accounting: Accounting) -> bool:
    """Return True if tiles fit by their counted sizes, with sums at the width that they have during accumulation."""
    crossed = boundaries(problem.layer, problem, mapping, accounting)
    needs = needed_bits(problem, crossed)
    for below, boundary in pairwise(crossed[Operand.OUTPUT]):
        here = boundary.lower.memory, str(Operand.OUTPUT)
        needs[here] = needs[here] // output_bits_in(boundary) * output_bits_in(below)
    return all(
        sum(bits for (memory, _), bits in needs.items() if memory == level.memory.name)
        <= problem.usable_bits(level.memory.name)
        for level in problem.levels
    )


@pytest.mark.parametrize("accounting", [ZIGZAG, DEFINES])
@pytest.mark.parametrize("seed", series((*range(1, 7), 0, *range(7, 40)), 6))
def test_no_order_and_no_cuts_are_better_than_the_proven_ones(seed: int, accounting: Accounting) -> None:
    random = Random(seed)
    accelerator, homes = _machine(random)
    factors: list[Loop] = []
    while not 1 <= len(factors) <= (3 if seed % 10 == 0 else 2):
        layer = random_layer(random, 100)
        layer, unrolling = _undivided(random, layer) if seed % 2 else (layer, _unrolling(random, layer))
        unrolled = unrolled_as_asked(layer, accelerator, unrolling)
        factors = _prime_loops(unrolled.turns)
    problem = _problem(layer, accelerator, homes)
    mappings = [
        mapping for order in set(permutations(factors)) for mapping in _all_cuts(problem, unrolled.beside, order)
    ]
    legal = [mapping for mapping in mappings if _fits(problem, mapping, accounting)]
    least = float(min(LayerCosts(problem, accounting=accounting).of(legal).energy_pj, default=inf))
    result = solve_uneven(problem, MappingObjective.ENERGY, Run(), accounting, unrolling)
    assert result.status is (Status.INFEASIBLE if least == inf else Status.OPTIMAL)
    if result.objective_value is not None:
        assert result.objective_value == pytest.approx(1000 * least, rel=1e-9)
        assert result.lower_bound == result.objective_value


def _undivided(random: Random, layer: Layer) -> tuple[Layer, dict[str, dict[str, int]]]:
    """Return the layer with a loop of at least 3 or 5 iterations, and that loop's unrolling on two units."""
    loop = random.choice("KCPQ")
    longer = layer.padded_to(layer.bounds | {loop: max(layer.bounds[loop], random.choice((3, 5)))})
    return longer, {"lane": {loop: 2}}


@pytest.mark.parametrize("accounting", [ZIGZAG, DEFINES])
@pytest.mark.parametrize("seed", series(range(30), 12))
def test_the_proven_mapping_is_no_worse_than_lomas_whatever_its_limit(seed: int, accounting: Accounting) -> None:
    """On machines where operands are at home in buffers; few bounds divide the units."""
    random = Random(seed)
    accelerator = load_accelerator("meta-prototype-df")
    homes = ("activation_local_buffer", "activation_global_buffer", "dram")
    at_home = {Operand.INPUT: random.choice(homes), Operand.OUTPUT: random.choice(homes)}
    chosen = {operand: memory for operand, memory in at_home.items() if memory != "dram"}
    taps = random.choice((1, 3))
    k, c, p, q = random.choice((12, 33, 56)), random.choice((1, 3, 12)), random.randint(2, 40), random.randint(2, 40)
    layer = Layer(k=k, c=c, p=p, q=q, r=taps, s=taps, partial_bits=16)
    problem = beside_operands(layer, accelerator, chosen)
    if problem is None:
        pytest.skip("operands do not fit where they shall lie")
    given = problem, MappingObjective.ENERGY, Run()
    unrolling = {"K": {"K": 32}, "C": {"C": 2}, "OX": {"Q": 4}, "OY": {"P": 4}}
    proven = solve_uneven(*given, accounting, unrolling)
    for limit in (3, 5, 6, 7):
        filled = solve_as_loma(*given, limit, accounting, unrolling)
        assert filled.objective_value is None or (
            proven.objective_value is not None and proven.objective_value <= filled.objective_value
        )


@pytest.mark.parametrize(("text", "energy_pj"), RESNET18)
def test_zigzags_own_mappings_cost_what_it_says_and_the_proven_ones_no_more(text: str, energy_pj: float) -> None:
    hardware = read_zigzag_hardware(SYSTOLIC)
    layer = replace(Layer.of_text(text), partial_bits=16)
    accounting = replace(ZIGZAG, systolic=hardware.systolic)
    given = LayerProblem(layer, hardware.accelerator), MappingObjective.ENERGY, Run()
    filled = solve_as_loma(*given, 6, accounting, TPU)
    # It rounds each memory's accesses down to whole ones.
    assert filled.objective_value == pytest.approx(1000 * energy_pj, rel=2e-5)
    proven = solve_uneven(*given, accounting, TPU)
    assert proven.status is Status.OPTIMAL
    assert proven.lower_bound == proven.objective_value
    assert proven.objective_value is not None
    assert filled.objective_value is not None
    assert proven.objective_value <= filled.objective_value


def test_the_proven_mapping_costs_what_it_says() -> None:
    hardware = read_zigzag_hardware(SYSTOLIC)
    layer = replace(Layer.of_text("conv:k128c128p28q28r3s3:pad1"), partial_bits=16)
    result = solve_uneven(LayerProblem(layer, hardware.accelerator), MappingObjective.ENERGY, Run(), ZIGZAG, TPU)
    assert result.answer is not None
    assert verify_mapping(LayerProblem(layer, hardware.accelerator), result.answer) == ()
    cost = layer_cost(LayerProblem(layer, hardware.accelerator), result.answer, ZIGZAG)
    assert result.objective_value == round(1000 * cost.energy_pj)


@pytest.mark.parametrize("objective", MappingObjective)
@pytest.mark.parametrize("accounting", [INTERPRETER, ZIGZAG])
def test_the_value_is_that_of_the_cost_model(objective: MappingObjective, accounting: Accounting) -> None:
    hardware = read_zigzag_hardware(SYSTOLIC)
    layer = replace(Layer.of_text("conv:k64c32p14q14r3s3:stride2:pad1x1x0x0"), partial_bits=16)
    result = solve_as_loma(LayerProblem(layer, hardware.accelerator), objective, Run(), 4, accounting, TPU)
    assert result.answer is not None
    cost = layer_cost(LayerProblem(layer, hardware.accelerator), result.answer, accounting)
    assert result.objective_value == pytest.approx(objective.of(cost.energy_pj, cost.cycles), rel=1e-9)


def test_the_smallest_factors_of_the_loop_that_has_most_are_joined() -> None:
    turns = dict.fromkeys("NKCPQRSG", 1) | {"K": 32, "C": 16}
    assert joined(turns, 9) == [Loop("K", 2)] * 5 + [Loop("C", 2)] * 4
    assert joined(turns, 6) == [Loop("K", 2), Loop("K", 4), Loop("K", 4), Loop("C", 2), Loop("C", 2), Loop("C", 4)]
    assert joined(turns, 0) == [Loop("K", 32), Loop("C", 16)]


def test_of_loops_with_equally_many_factors_defines_joins_others_than_zigzag() -> None:
    turns = dict.fromkeys("NKCPQRSG", 1) | {"C": 4, "P": 4, "Q": 4}
    assert joined(turns, 5) == [*[Loop("Q", 4)], *[Loop("P", 2)] * 2, *[Loop("C", 2)] * 2]
    assert joined(turns, 5, ORDER_OF_DEFINES) == [Loop("C", 4), *[Loop("P", 2)] * 2, *[Loop("Q", 2)] * 2]


def test_bounds_that_the_units_do_not_divide_run_longer() -> None:
    hardware = read_zigzag_hardware(SYSTOLIC)
    unrolled = unrolled_as_asked(Layer(k=1000, c=48), hardware.accelerator, TPU)
    assert unrolled.beside == (Loop("K", 32, "D1"), Loop("C", 24, "D2"))
    assert (unrolled.turns["K"], unrolled.turns["C"]) == (32, 2)
    assert unrolled.parts(Layer(k=1000, c=48)) == {"K": (1000, 1024)}
    layer = Layer(k=70, c=4, partial_bits=16)
    executed = solve_as_loma(
        LayerProblem(layer, hardware.accelerator), MappingObjective.ENERGY, Run(), 6, INTERPRETER, TPU
    )
    assert executed.answer is not None
    assert executed.answer.bounds["K"] == 72
    assert verify_mapping(LayerProblem(layer, hardware.accelerator), executed.answer) != ()
    assert (
        verify_mapping(LayerProblem(layer.padded_to(executed.answer.bounds), hardware.accelerator), executed.answer)
        == ()
    )
    cost = layer_cost(LayerProblem(layer, hardware.accelerator), executed.answer)
    assert executed.objective_value == round(1000 * cost.energy_pj)


@pytest.mark.parametrize(
    ("unrolling", "message"),
    [
        ({"D9": {"K": 2}}, "unrolling: the array has no dimension 'D9'"),
        ({"D1": {"K": 33}}, "unrolling: D1: 33 units are asked for"),
        ({"D1": {"X": 2}}, "unrolling: D1: X is unrolled 2 times"),
    ],
)
def test_what_the_array_does_not_unroll_is_refused(unrolling: dict[str, dict[str, int]], message: str) -> None:
    accelerator = read_zigzag_hardware(SYSTOLIC).accelerator
    with pytest.raises(InputError, match=message):
        solve_as_loma(LayerProblem(Layer(k=64), accelerator), MappingObjective.ENERGY, Run(), unrolling=unrolling)


def test_the_proof_is_of_energy_under_zigzags_accounting() -> None:
    accelerator = read_zigzag_hardware(SYSTOLIC).accelerator
    with pytest.raises(UsageError, match="uneven does not know latency"):
        solve_uneven(LayerProblem(Layer(k=64), accelerator), MappingObjective.LATENCY, Run())
    with pytest.raises(InputError, match="accounting: uneven does not know it"):
        solve_uneven(LayerProblem(Layer(k=64), accelerator), MappingObjective.ENERGY, Run(), INTERPRETER)


def test_without_time_there_is_an_answer_and_a_bound() -> None:
    accelerator = read_zigzag_hardware(SYSTOLIC).accelerator
    layer = replace(Layer.of_text("conv:k128c128p28q28r3s3:pad1"), partial_bits=16)
    stopped = solve_uneven(
        LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run(Limits(time_limit_seconds=0.0)), ZIGZAG, TPU
    )
    proven = solve_uneven(LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run(), ZIGZAG, TPU)
    assert stopped.status is Status.FEASIBLE
    assert stopped.objective_value is not None
    assert proven.objective_value is not None
    assert stopped.lower_bound <= proven.objective_value <= stopped.objective_value


def test_without_any_memory_for_its_operands_everything_comes_from_dram() -> None:
    """A product of two feature maps where the one memory holds weights alone."""
    memory = Memory("weights", 8, holds=(Operand.WEIGHT,))
    level = MemoryLevel(memory, access=Access(8, 1.0, 1.0), is_scratchpad=True)
    array = ComputeArray({"D1": 2}, mac_energy_pj=1.0)
    machine = Accelerator("one", (memory,), levels=(level,), array=array, dram=Dram(Access(8, 10.0, 10.0)))
    problem = LayerProblem(Layer(g=4, n=3), machine, weight_is_an_input=True)
    assert problem.levels == ()

    found = solve_as_loma(problem, MappingObjective.ENERGY, Run(Limits()))

    assert found.answer is not None
    assert verify_mapping(problem, found.answer) == ()


# `uneven` over a padded input: its counts equal those of the cost model, and no order and no cut is better


PADDINGS = ((1, 1, 1, 1), (2, 0, 1, 1), (0, 1, 1, 0), (2, 2, 2, 2))


def _machine_of_one_memory(capacity_bytes: int, units: int = 1) -> Accelerator:
    """Return a machine with one scratchpad, whose access width differs from every element width."""
    memory = Memory("scratchpad", capacity_bytes)
    level = MemoryLevel(memory, None, is_scratchpad=True, access=Access(15, 1.0, 1.0))
    dram = Dram(Access(16, 100.0, 110.0))
    return Accelerator("small", (memory,), (level,), None, ComputeArray({"lane": units}, mac_energy_pj=0.0), dram)


def _padded_layer(random: Random) -> Layer:
    taps, padding = random.choice((1, 1, 2)), random.choice(PADDINGS)
    return Layer(
        n=random.choice((1, 2)),
        c=random.choice((1, 2)),
        p=5,
        q=random.choice((5, 7)),
        r=taps,
        dilation=(2, 2),
        padding=padding,
        input_bits=4,
        weight_bits=4,
        output_bits=4,
        partial_bits=4,
    )


@pytest.mark.parametrize("accounting", [ZIGZAG, DEFINES])
@pytest.mark.parametrize("seed", with_slow(range(12), {6}.__contains__))
def test_on_padded_layers_the_proven_mapping_is_legal_and_the_best(seed: int, accounting: Accounting) -> None:
    random = Random(seed)
    layer = _padded_layer(random)
    accelerator = _machine_of_one_memory(random.choice((12, 20, 27, 35)), random.choice((1, 2)))
    least = least_uneven_pj(layer, accelerator, accounting)
    result = solve_uneven(
        LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run(), accounting, has_stored_room=True
    )
    assert result.status is (Status.INFEASIBLE if least == inf else Status.OPTIMAL)
    if result.answer is not None:
        assert verify_mapping(LayerProblem(layer, accelerator), result.answer) == ()
        assert result.objective_value == pytest.approx(1000 * least, rel=1e-9)


def test_a_tile_that_needs_no_room_for_zeros_is_found_where_filters_have_one_tap() -> None:
    """Counted with its zeros, the image of one turn would not fit together with its outputs."""
    layer = replace(
        Layer(n=2, p=5, q=5, dilation=(2, 2), padding=(0, 1, 1, 0)),
        input_bits=4,
        weight_bits=4,
        output_bits=4,
        partial_bits=4,
    )
    accelerator = _machine_of_one_memory(35)
    result = solve_uneven(
        LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run(), DEFINES, has_stored_room=True
    )
    assert result.answer is not None
    cost = layer_cost(LayerProblem(layer, accelerator), result.answer, DEFINES)
    assert result.objective_value == pytest.approx(1000 * cost.energy_pj)
    assert cost.memory_energy_pj["dram", "input"] == 8 * 100.0


# The mapper of fused stacks whose unrolling follows from a layer's kind


LAYER = Layer(k=12, c=12, p=9, q=14, r=3, s=3, partial_bits=16)
DEPART = {
    ("edge", "dmcnn-vd-defines", "conv19"),
    ("ascend", "mobilenetv1-defines", "pool27"),
    ("ascend", "resnet18-defines", "conv0"),
    ("tesla", "dmcnn-vd-defines", "conv19"),
    ("tesla", "mobilenetv1-defines", "conv25"),
    ("tesla", "mobilenetv1-defines", "conv26"),
    ("tesla", "resnet18-defines", "conv20"),
    ("tesla", "resnet18-defines", "conv21"),
    ("tesla", "resnet18-defines", "conv23"),
}
"""Convolutions and pools of DeFiNES's files that no rule has; the tenth exception is an addition."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_rule_is_that_of_defines_but_for_the_layers_that_depart_from_it(architecture: str) -> None:
    accelerator = load_accelerator(architecture)
    others = set()
    for network in NETWORKS:
        for fusable in _layers(network):
            published = unrolling_of(network, architecture, fusable.name)
            if len(fusable.reads) == 1 and _flat(unrolling_for(fusable.layer, accelerator)) != published:
                others.add((architecture.split("-")[0], network, fusable.name))
    assert others == {one for one in DEPART if one[0] == architecture.split("-")[0]}


@cache
def _layers(network: str) -> tuple[FusableLayer, ...]:
    return tuple(fusable_of(load_network(network)).layers)


def _flat(unrolling: Unrolling) -> dict[str, tuple[str, int]]:
    return {name: next(iter(loops.items())) for name, loops in unrolling.items()}


def test_an_addition_unrolls_its_groups_along_all_dimensions_but_those_of_inputs() -> None:
    machine = unrolling_groups(load_accelerator("meta-prototype-df"))
    unrolling = unrolling_for(Layer(g=100), machine)
    assert _flat(unrolling) == {"K": ("G", 32), "OX": ("G", 4)}
    unrolled = unrolled_as_asked(Layer(g=100), machine, unrolling)
    assert unrolled.turns["G"] == 1
    assert unrolled.bounds["G"] >= 100


@pytest.mark.parametrize("accounting", [ZIGZAG, DEFINES])
@pytest.mark.parametrize("method", TemporalMethod)
def test_the_cost_is_that_of_the_mapping(method: TemporalMethod, accounting: Accounting) -> None:
    accelerator = unrolling_groups(load_accelerator("meta-prototype-df"))
    mapper = FixedUnrolling(method, accounting)
    cost, result = mapper(LayerProblem(LAYER, accelerator)), mapper.result(LayerProblem(LAYER, accelerator))
    assert cost is not None
    assert result.answer is not None
    assert result.objective_value == pytest.approx(1000 * cost.energy_pj, rel=1e-9)
    assert {loop.along for loop in result.answer.nest if loop.along} == {"K", "C", "OX", "OY"}


@pytest.mark.parametrize("method", TemporalMethod)
def test_nothing_moves_above_where_an_operand_lies(method: TemporalMethod) -> None:
    homes = Homes(input="activation_local_buffer", output="activation_local_buffer")
    cost = FixedUnrolling(method)(LayerProblem(LAYER, load_accelerator("meta-prototype-df"), homes))
    assert cost is not None
    places = {operand: {one.memory for one in cost.accesses if one.operand == operand} for operand in Operand}
    assert places[Operand.INPUT] == {"activation_local_buffer"}
    assert places[Operand.OUTPUT] == {"activation_local_buffer", "output_register"}
    assert "dram" in places[Operand.WEIGHT]


@pytest.mark.parametrize("method", TemporalMethod)
def test_there_is_none_where_nothing_fits(method: TemporalMethod) -> None:
    full = {"activation_local_buffer": 0}
    problem = LayerProblem(Layer(c=64), load_accelerator("meta-prototype-df"), room_bytes=full)
    assert FixedUnrolling(method)(problem) is None


def test_the_interpreter_executes_whole_units() -> None:
    accelerator = load_accelerator("meta-prototype-df")
    cost = FixedUnrolling(accounting=INTERPRETER)(LayerProblem(replace(LAYER, k=33), accelerator))
    in_parts = FixedUnrolling(accounting=ZIGZAG)(LayerProblem(replace(LAYER, k=33), accelerator))
    assert cost is not None
    assert in_parts is not None
    assert stated(cost.mac_energy_pj) > stated(in_parts.mac_energy_pj)
    with pytest.raises(InputError, match="expected ZIGZAG or DEFINES"):
        FixedUnrolling(TemporalMethod.UNEVEN, INTERPRETER)(LayerProblem(LAYER, accelerator))
