"""The sums over a schedule's program, compared with adding up one instruction after the other."""

from __future__ import annotations

from onchip.answer.program import Allocate, Compute, Copy, Free
from onchip.arch.energies import stated
from onchip.arch.memory import DRAM
from onchip.ir.tensor import Role
from onchip.model.program.compute_cost import CopyPrices
from onchip.model.program.figures import ScheduleFigures, schedule_figures
from onchip.model.timeline.schedule_timeline import time_schedule
from support.schedule_programs import ProgramCase, random_program
from support.series import in_one_test

SEEDS = in_one_test("seed", range(100))


def figures_of(case: ProgramCase) -> ScheduleFigures:
    return schedule_figures(case.graph, case.accelerator, case.program, case.costs)


@SEEDS
def test_energy_is_that_of_each_compute_and_each_copy(seed: int) -> None:
    case = random_program(seed)
    figures, prices, energy_fj, rounded = figures_of(case), CopyPrices(case.accelerator), 0, 0
    for one in case.program.instructions:
        if isinstance(one, Compute):
            energy_fj += case.costs[one.operator].energy_fj
        elif isinstance(one, Copy):
            tensor = case.graph.tensor[one.tensor]
            is_parameter = tensor.role is Role.PARAMETER
            energy_fj += prices.of(tensor.size_bytes, one.source, one.target, is_parameter=is_parameter).energy_fj
            rounded += 1
    computes_fj = sum(cost.energy_fj for cost in case.costs.values())
    assert figures.energy_fj == energy_fj
    total_pj = sum(figures.energy.by_memory_pj.values()) + stated(figures.energy.mac_pj)
    assert abs(total_pj * 1000 + computes_fj - energy_fj) <= rounded / 2 + 1e-6
    assert figures.edp == energy_fj * figures.latency_cycles


@SEEDS
def test_traffic_is_what_copies_and_computes_move(seed: int) -> None:
    case = random_program(seed)
    copies = [one for one in case.program.instructions if isinstance(one, Copy)]
    size = {one.name: one.size_bytes for one in case.graph.tensors}
    traffic = figures_of(case).traffic
    assert traffic.loads == sum(size[one.tensor] for one in copies if one.source == DRAM)
    assert traffic.write_backs == sum(size[one.tensor] for one in copies if one.target == DRAM)
    assert traffic.streamed_reads == sum((cost.dram_read_bits + 7) // 8 for cost in case.costs.values())
    assert traffic.streamed_writes == sum((cost.dram_written_bits + 7) // 8 for cost in case.costs.values())
    assert figures_of(case).traffic_bytes == traffic.total


@SEEDS
def test_latency_is_the_end_of_the_timeline_and_its_parts_add_up(seed: int) -> None:
    case = random_program(seed)
    figures = figures_of(case)
    assert figures.timeline == time_schedule(case.graph, case.accelerator, case.program, case.costs)
    assert figures.latency.total == figures.latency_cycles
    assert figures.latency.computing == sum(cost.cycles for cost in case.costs.values())
    assert min(figures.latency.by_name.values()) >= 0


@SEEDS
def test_peak_and_arena_count_bytes(seed: int) -> None:
    """The test counts each byte of each memory after each instruction."""
    case = random_program(seed)
    taken: dict[tuple[str, str], range] = {}
    peak, arena = dict.fromkeys(figures_of(case).memories, 0), dict.fromkeys(figures_of(case).memories, 0)
    for one in case.program.instructions:
        match one:
            case Allocate(tensor, memory, offset):
                operator = tensor.removesuffix("@workspace")
                if operator != tensor:
                    size = case.costs[operator].workspace_bytes[memory]
                else:
                    size = case.graph.tensor[tensor].size_bytes
                taken[tensor, memory] = range(offset, offset + size)
            case Free(tensor, memory):
                del taken[tensor, memory]
        for memory in peak:
            used = {byte for (_, place), some in taken.items() if place == memory for byte in some}
            peak[memory] = max(peak[memory], len(used))
            arena[memory] = max(arena[memory], max(used, default=-1) + 1)
    found = figures_of(case).memories
    assert {memory: one.peak_bytes for memory, one in found.items()} == peak
    assert {memory: one.arena_bytes for memory, one in found.items()} == arena
