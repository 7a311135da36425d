"""Answers of the compiled searches for mappings of layers, to seeded random questions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product
from math import inf
from random import Random

from onchip import native
from onchip.answer.layer_problem import LayerProblem
from onchip.errors import AcceleratorError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.baselines.loma import filled_orders, unrolled_for
from onchip.mapping.tile_search.exact import space_of, ways_of
from onchip.model.accounting.accounting import DEFINES, INTERPRETER, ZIGZAG
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import CostStatus, LayerCosts, native_layer, native_machine
from support.answered import Answered
from support.nests import Case, random_case

OBJECTIVES = tuple(native.ExactObjective)
MOST_NODES = 3_000
MOST_WORK = 60_000


# Costs of mappings


# Exact mapper


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


# Orders of the factors


def loma_orders(seed: int) -> Answered:
    """Ask for all mappings that LOMA fills, row by row."""
    problem = _real_problem(seed) if seed % 4 == 3 else random_case(seed, most_macs=2000).problem
    accounting = (INTERPRETER, ZIGZAG, DEFINES)[seed % 3]
    unrolled = unrolled_for(problem, None)
    rows = [
        (loops[:number].tolist(), sizes[:number].tolist(), inside.tolist(), cuts.tolist())
        for chosen in filled_orders(problem, unrolled, 5, accounting, has_stored_room=seed % 2 == 0)
        for number, loops, sizes, inside, cuts in zip(
            chosen.temporal_count,
            chosen.temporal_loop,
            chosen.temporal_size,
            chosen.spatial_at,
            chosen.cut,
            strict=True,
        )
    ]
    return Answered(problem, len(rows), rows)


# Chains of lattice points
