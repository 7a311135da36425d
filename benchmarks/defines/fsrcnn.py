"""FSRCNN on `meta-prototype-df`: the points of DeFiNES's program, case study 1, and its sweep with any fuse depth."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from defines import published
from defines.mappers import Answers, Clock, TileMapper, asked_by, machine, network, peak_mib, warm

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.fusion_options import FusionOptions
from onchip.answer.options.tile_sizes import CASE_STUDY_COLUMNS, CASE_STUDY_ROWS
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.answer.strategy import EnergyCause
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions
from onchip.model.group.cost import StackCost, stack_cost
from onchip.model.group.mapper import Mapper
from onchip.ops.fusable import Stack
from onchip.scheduling.choice.solve import solve_fusion
from onchip.scheduling.fronts.costs import StackCosts
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, stack_of, whole

NETWORK: Final = "fsrcnn-defines"
CAUSES: Final = (EnergyCause.COPY, EnergyCause.ACTIVATION, EnergyCause.WEIGHT)
PJ_OF_MJ: Final = 1e9
MILLION: Final = 1e6
POINTS_OF_CASE_STUDY: Final = 108


def conventions_of(mapper: TileMapper) -> Conventions:
    """DeFiNES's for the mappers that count as it does, so that nothing else differs."""
    return OURS if mapper.name == "exact" else DEFINES


def case(name: str = NETWORK) -> tuple[Stack, Accelerator]:
    """Return all layers of a network as one stack, and the machine."""
    layers = network(name)
    return stack_of(layers, LayerSpan(0, len(layers.layers))), machine(published.CASE_STUDY_MACHINE)


def points(mappers: Sequence[TileMapper], repeats: int) -> bool:
    """Prints the reference points; whether what must be equal or near is so."""
    costs: dict[str, list[StackCost]] = {}
    is_met = True
    for mapper in mappers:
        costs[mapper.name] = _points_of(mapper, repeats)
        met = [_is_met(*each, mapper) for each in zip(published.POINTS, costs[mapper.name], strict=True)]
        is_met &= all(met)
    if "loma" in costs and "uneven" in costs:
        print("\nwhat uneven saves over loma, by memory and cause: mJ, and millions of elements")
        for point, by_loma, by_uneven in zip(published.POINTS, costs["loma"], costs["uneven"], strict=True):
            print(f"{point.tiling!s:22} {_saved(by_loma, by_uneven)}")
            is_met &= by_uneven.sums.energy_pj <= by_loma.sums.energy_pj * (1 + published.ROUNDING)
    return is_met


def _points_of(mapper: TileMapper, repeats: int) -> list[StackCost]:
    stack, accelerator = case()
    warm([mapper])
    limit = f", limit {mapper.limit}" if mapper.name == "loma" else ""
    print(f"\nFSRCNN on {accelerator.name}, {mapper.name}{limit}; DeFiNES (limit 6) beside it, seconds of a processor")
    print(
        f"{'tile':22} {'MACs':>14} {'equal':>5} {'types':>5} {'equal':>5} {'mJ':>8} {'DeFiNES':>8} {'':>8}"
        f" {'Mcycles':>8} {'DeFiNES':>8} {'':>8} {'seconds':>8} {'DeFiNES':>8}"
    )
    found = []
    for point in published.POINTS:
        seconds, tiling = [], point.tiling.within(stack.output.columns, stack.output.rows)
        for _ in range(repeats):
            clock = Clock()
            cost = stack_cost(stack, accelerator, tiling, Answers(mapper), conventions_of(mapper))
            seconds.append(clock.cpu_seconds)
        found.append(cost)
        print(_point_row(point, cost, median(seconds)), flush=True)
        for memory, reference in point.accesses.items():
            own = " ".join(f"{cost.sums.accesses_of(memory, cause) / MILLION:10.4f}" for cause in CAUSES)
            theirs = " ".join(f"{count:10.4f}" for count in reference)
            print(f"    {memory:26} copies, activations, weights (millions): {own}  DeFiNES {theirs}")
    if mapper.name == "loma":
        _with_more_factors(replace(mapper, limit=8))
    return found


def _with_more_factors(mapper: TileMapper) -> None:
    """Layer by layer, as the paper has it."""
    (stack, accelerator), clock = case(), Clock()
    tiling = whole(stack.output)
    sums = stack_cost(stack, accelerator, tiling, Answers(mapper), conventions_of(mapper)).sums
    energy_mj, mcycles, seconds = published.LAYER_BY_LAYER_AT_8
    print(
        f"{tiling!s:22} limit {mapper.limit}: {sums.energy_pj / PJ_OF_MJ:.3f} mJ, {sums.cycles / MILLION:.3f} Mcycles,"
        f" {clock}; DeFiNES {energy_mj} mJ, {mcycles} Mcycles, {seconds:.0f} s"
    )


def _saved(one: StackCost, other: StackCost) -> str:
    """Return where the other stack takes less energy, and where more."""
    told = []
    for memory, cause in one.sums.energies_pj.keys() | other.sums.energies_pj.keys():
        energy = one.sums.energies_pj.get((memory, cause), 0.0) - other.sums.energies_pj.get((memory, cause), 0.0)
        elements = one.sums.accesses_of(memory, cause) - other.sums.accesses_of(memory, cause)
        if abs(energy) > published.ROUNDING * one.sums.energy_pj:
            told.append((-energy, f"{memory} {cause} {energy / PJ_OF_MJ:+.4f} ({elements / MILLION:+.2f})"))
    whole = one.sums.energy_pj - other.sums.energy_pj
    return f"{whole / PJ_OF_MJ:7.4f}: {', '.join(text for _, text in sorted(told)) or 'nothing'}"


def _point_row(point: published.Point, cost: StackCost, seconds: float) -> str:
    energy, cycles = cost.sums.energy_pj / PJ_OF_MJ, cost.sums.cycles / MILLION
    same = ["yes" if one else "NO" for one in (cost.sums.macs == point.macs, cost.tile_types == point.tile_types)]
    return (
        f"{point.tiling!s:22} {cost.sums.macs:14,} {same[0]:>5} {cost.tile_types:5} {same[1]:>5}"
        f" {energy:8.4f} {point.energy_mj:8.4f} {energy / point.energy_mj - 1:+8.2%}"
        f" {cycles:8.3f} {point.latency_mcycles:8.3f} {cycles / point.latency_mcycles - 1:+8.2%}"
        f" {seconds:8.3f} {point.seconds:8.1f}"
    )


def _is_met(point: published.Point, cost: StackCost, mapper: TileMapper) -> bool:
    """Equal counts; with DeFiNES's mapper near figures, with the best one of its accounting no more energy."""
    energy = cost.sums.energy_pj / PJ_OF_MJ / point.energy_mj - 1
    cycles = cost.sums.cycles / MILLION / point.latency_mcycles - 1
    is_met = cost.sums.macs == point.macs and cost.tile_types == point.tile_types
    dram = point.accesses.get(DRAM, ())
    for cause, millions in zip(CAUSES, dram, strict=False):
        is_met &= abs(cost.sums.accesses_of(DRAM, cause) / MILLION / millions - 1) < 1e-3
    if mapper.name == "loma":
        is_met &= abs(energy) <= published.ENERGY_WITHIN and abs(cycles) <= published.LATENCY_WITHIN
    if mapper.name == "uneven":
        is_met &= energy <= published.ROUNDING
    return is_met


def case_study_tilings() -> list[Tiling]:
    """Return the 108 points of figure 12; some of them are equivalent."""
    return [
        Tiling(columns, rows, mode)
        for mode in OverlapMode
        for rows in CASE_STUDY_ROWS
        for columns in CASE_STUDY_COLUMNS
    ]


def heat_maps(costs: dict[Tiling, StackCost]) -> None:
    """Energy and latency, a table each for every mode."""
    for mode in OverlapMode:
        _heat_map(f"{mode}, mJ", {one: cost.sums.energy_pj / PJ_OF_MJ for one, cost in costs.items()}, mode)
        _heat_map(f"{mode}, Mcycles", {one: cost.sums.cycles / MILLION for one, cost in costs.items()}, mode)


def _heat_map(title: str, values: dict[Tiling, float], mode: OverlapMode) -> None:
    print(f"\n{title}; columns of a tile across, its rows down")
    print(f"{'':6}" + "".join(f"{columns:>10}" for columns in CASE_STUDY_COLUMNS))
    for rows in CASE_STUDY_ROWS:
        row = [values[Tiling(columns, rows, mode)] for columns in CASE_STUDY_COLUMNS]
        print(f"{rows:6}" + "".join(f"{value:10.3f}" for value in row))


def costs_of_all(
    stack: Stack,
    accelerator: Accelerator,
    tilings: Iterable[Tiling],
    answers: Answers,
    conventions: Conventions,
    workers: int,
) -> dict[Tiling, StackCost]:
    """Return the cost of every tiling: collect the mapper's requests, map them in several processes, then add up."""
    output = stack.output
    alike = {tiling: tiling.within(output.columns, output.rows) for tiling in tilings}
    different = dict.fromkeys(alike.values())

    def all_of(mapper: Mapper) -> dict[Tiling, StackCost]:
        found = {}
        for number, tiling in enumerate(different, start=1):
            found[tiling] = stack_cost(stack, accelerator, tiling, mapper, conventions)
            progress(f"{number} of {len(different)} tilings")
        return found

    if workers > 1:
        answers.learn(asked_by(all_of), workers)
    found = all_of(answers)
    return {tiling: found[one] for tiling, one in alike.items()}


def case_study_1(mapper: TileMapper, workers: int) -> bool:
    """Prints figure 12; whether the best mapper of DeFiNES's accounting is layer by layer as good as the paper's."""
    stack, accelerator = case()
    answers = Answers(mapper)
    clock = Clock()
    costs = costs_of_all(stack, accelerator, case_study_tilings(), answers, conventions_of(mapper), workers)
    took = str(clock)
    heat_maps(costs)
    energies = {tiling: cost.sums.energy_pj / PJ_OF_MJ for tiling, cost in costs.items()}
    cycles = {tiling: cost.sums.cycles / MILLION for tiling, cost in costs.items()}
    layer_by_layer = Tiling(960, 540, OverlapMode.RECOMPUTE)
    hours = ", ".join(f"{hours} h at limit {limit}" for limit, hours in published.CASE_STUDY_1_HOURS.items())
    whose = "our" if conventions_of(mapper) == OURS else "DeFiNES's"
    print(f"\ncase study 1, {POINTS_OF_CASE_STUDY} points, by {mapper.name}, {whose} conventions")
    print(f"  {len(answers.known)} mappings: {took}, {peak_mib()}; DeFiNES {hours}")
    print(
        f"  layer by layer {energies[layer_by_layer]:.3f} mJ, {cycles[layer_by_layer]:.3f} Mcycles;"
        f" the paper {published.LAYER_BY_LAYER_MJ}, {published.LAYER_BY_LAYER_MCYCLES:.0f}"
    )
    for title, values, paper in (
        ("energy", energies, published.WORST_TO_BEST_ENERGY),
        ("latency", cycles, published.WORST_TO_BEST_LATENCY),
    ):
        best, worst = (choose(values, key=lambda one: values[one]) for choose in (min, max))
        print(
            f"  {title}: best {best} {values[best]:.3f}, worst {worst} {values[worst]:.3f},"
            f" {values[worst] / values[best]:.1f} times; the paper up to {paper:.0f} times"
        )
    print(
        f"  the paper's best, {published.BEST}: {energies[published.BEST]:.3f} mJ, {cycles[published.BEST]:.3f} Mcycles"
    )
    if mapper.name == "uneven":
        return energies[layer_by_layer] <= published.LAYER_BY_LAYER_MJ
    return True


def sweep(mapper: TileMapper) -> bool:
    """Prints the best of 110 tile sizes, three modes and any cuts; whether it is proven."""
    layers, accelerator = network(NETWORK), machine(published.CASE_STUDY_MACHINE)
    answers, objective = Answers(mapper), FusionObjective.ENERGY
    clock = Clock()
    costs = StackCosts(layers, accelerator, objective, answers, OURS, mapper.sharing(accelerator))
    run = Run(listener=lambda heard: progress(f"{heard.phase}: best {heard.best}, bound {heard.lower_bound}"))
    found = solve_fusion(layers, accelerator, FusionOptions(), costs, run)
    took = str(clock)
    print(f"\n110 tile sizes, three modes, any fuse depth, by {mapper.name}, our conventions")
    if found.result.answer is None or found.result.objective_value is None:
        print(f"  {found.result.status}")
        return False
    for stack in found.result.answer.stacks:
        print(f"  {stack.layers[0]} to {stack.layers[-1]}: {stack.tiling}, output in {stack.output_home}")
    energy, cycles = (
        sum(values) for values in zip(*((one.sums.energy_pj, one.sums.cycles) for _, one in found.stacks), strict=True)
    )
    claim = f"{found.result.status} gap {found.result.gap or 0:.1%}"
    print(
        f"  {energy / PJ_OF_MJ:.4f} mJ, {cycles / MILLION:.3f} Mcycles, {claim};"
        f" {found.costed} stacks costed, {len(answers.known)} mappings, {took}, {peak_mib()}"
    )
    print(f"  {found.space}")
    return True


def progress(text: str) -> None:
    """Show one line of progress, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
