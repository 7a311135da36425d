"""Status and bound of `fuse` hold for every strategy and schedule, not only for the stacks and tiles searched."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest

from adversary.fusing import ODD_KINDS, graph_file, random_machine, random_network
from onchip.answer.document import Reading
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.fusion_options import FusionOptions, Placements
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.result import SearchResult, Status
from onchip.api.fuse import NONE_OF_THESE, FusionRequest, for_all_strategies, fuse_network
from onchip.api.networks import read_network
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.bounds.group.network_floor import least_macs
from onchip.errors import InputError, InternalError
from onchip.model.accounting.accounting import AccountingName
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.reports.stack.outcome import FusionOutcome
from onchip.search.budget.limits import Limits
from support.diamond import Program
from support.fused_files import CHIP
from support.series import series

FREE_MEMORIES = re.sub(r"(read|write)_energy_pj: [0-9.]+", r"\1_energy_pj: 0", CHIP)
"""A chip on which only multiply-accumulates cost energy, each a fractional number of femtojoules."""
MACHINES = (CHIP, FREE_MEMORIES.replace("mac_energy_pj: 0.5", "mac_energy_pj: 0.0127"))
OBJECTIVES = (FusionObjective.ENERGY, FusionObjective.LATENCY, FusionObjective.EDP, FusionObjective.DRAM)
SPACES = (FusionOptions(), FusionOptions(tile=(1, 1)), FusionOptions(groups="layers", placements=Placements.DRAM))
ACCOUNTINGS = (AccountingName.INTERPRETER, AccountingName.DEFINES)


def fused(
    files: tuple[Path, Path], objective: FusionObjective, options: FusionOptions, accounting: AccountingName
) -> FusionOutcome:
    network, machine = map(str, files)
    request = FusionRequest(
        network, machine, objective, options, "loma", use_cache=False, accounting=accounting, bits=8
    )
    return fuse_network(request)


def values_reached(
    files: tuple[Path, Path], objective: FusionObjective, accounting: AccountingName
) -> tuple[set[int], set[int]]:
    """Return the lower bounds, and the values of strategies in several spaces and of a schedule."""
    bounds, values = set[int](), set[int]()
    for options in SPACES:
        try:
            result = fused(files, objective, options, accounting).result
        except InputError:
            continue
        bounds.add(result.lower_bound)
        values |= {result.objective_value} - {None}  # type: ignore[arg-type]
        assert result.status is not Status.INFEASIBLE
        assert result.status is not Status.OPTIMAL or result.objective_value == result.lower_bound
        assert result.optimal_among is None or result.bound_among == result.objective_value
    network, machine = map(str, files)
    is_traffic = objective is FusionObjective.DRAM
    of_schedule = ScheduleObjective.TRAFFIC if is_traffic else ScheduleObjective(objective)
    request = ScheduleRequest(network, machine, of_schedule, limits=Limits(0.3), uses_cache=False, bits=8)
    try:
        scheduled = schedule_network(request).result.objective_value
    except InputError:
        scheduled = None
    return bounds, values | ({scheduled * (8 if is_traffic else 1)} if scheduled is not None else set())


def files_in(folder: Path, network: object, machine: str) -> tuple[Path, Path]:
    paths = folder / "network.json", folder / "chip.yaml"
    paths[0].write_text(json.dumps(network))
    paths[1].write_text(machine)
    return paths


@pytest.mark.parametrize("seed", series(range(20), 4))
@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_no_strategy_or_schedule_costs_less_than_the_bound(
    seed: int, accounting: AccountingName, tmp_path: Path
) -> None:
    random = Random(seed)
    network = graph_file(random_network(random, ODD_KINDS))
    machine = json.dumps(random_machine(random)) if seed % 2 else MACHINES[seed // 2 % 2]
    files = files_in(tmp_path, network, machine)

    bounds, values = values_reached(files, OBJECTIVES[seed % 4], accounting)

    assert not bounds or max(bounds) <= min(values, default=max(bounds))


@pytest.mark.parametrize("objective", series(OBJECTIVES, 1))
@pytest.mark.parametrize("stride", [2, 3])
def test_pixels_that_a_stride_skips_are_not_in_the_bound(
    stride: int, objective: FusionObjective, tmp_path: Path
) -> None:
    """The tiles have one pixel: the first layer computes only the pixels that the second, of one tap, reads."""
    sizes = {"x": 9, "a": 9, "y": 9 // stride + (stride == 2)}
    roles = {"x": "input", "a": "activation", "y": "output"}
    tensors = [{"name": at, "shape": [1, 4, *2 * [size]], "bits": 8, "role": roles[at]} for at, size in sizes.items()]
    tensors += [{"name": f"w{at}", "shape": [4, 4, 1, 1], "bits": 8, "role": "parameter"} for at in "ay"]
    operators = [
        {
            "name": f"conv_{written}",
            "kind": "Conv",
            "inputs": [read],
            "parameters": [f"w{written}"],
            "outputs": [written],
            "attributes": {"strides": 2 * [by], "kernel_shape": [1, 1]},
        }
        for read, written, by in (("x", "a", 1), ("a", "y", stride))
    ]
    network = {"format": "onchip-graph", "version": 1, "name": "skips", "tensors": tensors, "operators": operators}
    machine = FREE_MEMORIES.replace("mac_energy_pj: 0.5", "mac_energy_pj: 1000")
    files = files_in(tmp_path, network, machine)
    in_pixels = fused(files, objective, FusionOptions(groups="one", tile=(1, 1)), AccountingName.INTERPRETER)

    bounds, values = values_reached(files, objective, AccountingName.INTERPRETER)

    assert in_pixels.figures is not None
    assert in_pixels.figures.macs == 2 * 16 * sizes["y"] ** 2
    graph = read_network(str(files[0]), Reading())
    assert sum(least_macs(partly_fusable_of(graph).network)) == in_pixels.figures.macs
    assert 0 < max(bounds) <= min(*values, in_pixels.result.objective_value or 0)


def test_a_schedule_may_cost_less_than_the_best_strategy_of_the_list(onchip: Program, tmp_path: Path) -> None:
    shape = {"shape": [1, 4, 6, 6], "bits": 8}
    roles = {"x": "input", "a": "activation", "y": "output"}
    tensors = [{"name": name, **shape, "role": role} for name, role in roles.items()]
    operators = [
        {"name": f"soft_{written}", "kind": "Softmax", "inputs": [read], "outputs": [written], "attributes": {}}
        for read, written in (("x", "a"), ("a", "y"))
    ]
    network = {"format": "onchip-graph", "version": 1, "name": "two", "tensors": tensors, "operators": operators}
    asked = *files_in(tmp_path, network, CHIP), tmp_path / "strategy.json"
    ended = onchip("fuse", asked[0], "--accelerator", asked[1], "--json", "-o", asked[2]).json
    scheduled = onchip("schedule", asked[0], "--accelerator", asked[1], "--time-limit", "1", "--json").json

    assert (ended["status"], ended["optimal_among"]) == ("FEASIBLE", ended["space"])
    assert ended["lower_bound"] <= scheduled["objective_value"] < ended["bound_among"] == ended["objective_value"]
    claim = json.loads(asked[2].read_text())["result"]
    assert (claim["status"], claim["lower_bound"]) == ("FEASIBLE", ended["lower_bound"])
    assert claim["bound_among"] == ended["bound_among"]
    assert onchip("check", asked[2], asked[0], "--accelerator", asked[1]).code == 0


@pytest.mark.parametrize("change", [-1e9, 1])
def test_a_bound_among_strategies_below_the_bound_or_above_the_value_is_found(
    onchip: Program, change: float, tmp_path: Path
) -> None:
    network, machine = files_in(tmp_path, graph_file(random_network(Random(1))), CHIP)
    path = tmp_path / "strategy.json"
    assert onchip("fuse", network, "--accelerator", machine, "--method", "loma", "-o", path).code == 0
    fields = json.loads(path.read_text())
    fields["result"]["bound_among"] += change
    path.write_text(json.dumps(fields))

    checked = onchip("check", path, network, "--accelerator", machine)

    assert checked.code == 1
    assert "bound-above-objective" in checked.out


def test_no_strategy_in_the_space_is_not_infeasible() -> None:
    result = for_all_strategies(SearchResult(Status.INFEASIBLE, None, None, 0, 0.0, "optimal"), 7, "2 stacks")

    assert (result.status, result.lower_bound, result.why_not) == (Status.UNKNOWN, 7, NONE_OF_THESE)
    assert (result.optimal_among, result.bound_among) == (None, None)


@pytest.mark.parametrize("bound_among", [4, 8])
def test_a_bound_among_some_answers_is_between_the_bound_and_the_value(bound_among: int) -> None:
    with pytest.raises(InternalError, match=f"its bound among some answers, {bound_among}, is not between"):
        SearchResult(Status.FEASIBLE, "answer", 7, 5, 0.0, "optimal", bound_among=bound_among)
