"""`onchip fuse --accounting defines`: from a network to a strategy whose layers are counted as in DeFiNES."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from onchip.answer.document import CostModel, Reading
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.verb_options import FusionOptions, Placements
from onchip.api.fuse import FusionRequest, fuse_network
from onchip.api.networks import read_network
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import read_graph
from onchip.formats.own.strategy_json import read_strategy
from onchip.mapping.tile_search.uneven import FixedUnrolling, TemporalMethod
from onchip.model.accounting import conventions
from onchip.model.accounting.accounting import AccountingName
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.search.fusion import FusionResult, best_strategy
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from support.diamond import Ended, Program
from support.fused_files import CHIP
from support.series import series

RULE = "layers unrolled by DeFiNES's rule and counted as DeFiNES does"
BY_DEFINES = ("--accounting", "defines")
DEFINES = AccountingName.DEFINES
OPTIONS = FusionOptions(tile=(4, 4))


@pytest.fixture
def fuse(onchip: Program, network: Path, chip: Path) -> Program:
    def run_it(*arguments: object) -> Ended:
        return onchip("fuse", network, "--accelerator", chip, "--bits", 8, "--tile-sizes", "divisors", *arguments)

    return run_it


def by_hand(source: str, machine: str, method: TemporalMethod, objective: FusionObjective) -> FusionResult:
    """Run the search with the mapper of the rule and the known mappings."""
    accelerator = load_accelerator(machine)
    network = fusable_of(read_network(source, Reading()), Precision(8, 16))
    mapper = cache(FixedUnrolling(method, objective=objective.of_layers))
    costs = StackCosts(network, accelerator, objective, mapper, conventions.DEFINES)
    return best_strategy(costs, replace(OPTIONS, placements=Placements.DRAM), Run())


@pytest.mark.parametrize("asked", [("uneven", "energy"), ("uneven", "dram"), ("loma", "energy"), ("loma", "edp")])
def test_the_answer_is_that_of_a_search_with_the_mapper_of_the_rule(asked: tuple[str, str]) -> None:
    method, objective = TemporalMethod(asked[0]), FusionObjective(asked[1])
    expected = by_hand("lenet5", "meta-prototype-df", method, objective)
    request = FusionRequest(
        "lenet5",
        "meta-prototype-df",
        objective,
        replace(OPTIONS, mapper=method, accounting=DEFINES),
        reading=Reading(bits=8),
    )
    outcome = fuse_network(request)
    assert outcome.result.answer == expected.result.answer
    assert outcome.result.objective_value == expected.result.objective_value
    assert [one.cost for one in outcome.stacks] == [cost for _, cost in expected.stacks]


@pytest.mark.slow
def test_json_and_tables_say_who_maps_and_how_that_is_counted(fuse: Program) -> None:
    ended = fuse("--json", *BY_DEFINES)
    assert ended.code == 0
    answer = ended.json
    assert (answer["accounting"], answer["method"], answer["status"]) == ("defines", "uneven", "FEASIBLE")
    assert answer["objective_value"] > answer["lower_bound"] == 0
    assert answer["space"].endswith(RULE)
    assert RULE in " ".join(fuse(*BY_DEFINES, "--method", "loma", "--explain-bound").out.split())
    plain = fuse("--json", "--method", "loma").json
    assert (plain["accounting"], plain["method"]) == ("interpreter", "loma")
    assert "DeFiNES" not in plain["space"]
    assert plain["objective_value"] != answer["objective_value"]


@pytest.mark.slow
def test_several_processes_write_the_same_file(fuse: Program, tmp_path: Path) -> None:
    alone, both = tmp_path / "alone.json", tmp_path / "both.json"
    assert fuse(*BY_DEFINES, "-o", alone).code == 0
    assert fuse(*BY_DEFINES, "--workers", 2, "-o", both).code == 0
    assert alone.read_bytes() == both.read_bytes()


@pytest.mark.parametrize(("method", "objective"), series([("uneven", "energy"), ("loma", "latency")], 1))
def test_a_strategy_is_checked_as_it_was_counted(fuse: Program, tmp_path: Path, method: str, objective: str) -> None:
    out = tmp_path / "s.json"
    answer = fuse("--json", *BY_DEFINES, "--method", method, "--objective", objective, "-o", out).json
    assert read_strategy(out).model is CostModel.DEFINES
    ended = fuse("--check", out, "--json")
    (recomputed,) = ended.json["recomputed"]
    assert (ended.code, ended.json["legal"], recomputed["accounting"]) == (0, True, "defines")
    assert recomputed["energy_pj"] == pytest.approx(answer["energy_pj"], rel=1e-12)
    assert recomputed["objective_value"] == answer["objective_value"]


def test_a_strategy_is_not_what_it_claims_where_it_is_counted_otherwise(fuse: Program, tmp_path: Path) -> None:
    out = tmp_path / "s.json"
    assert fuse(*BY_DEFINES, "--method", "loma", "-o", out).code == 0
    fields = json.loads(out.read_text())
    fields["reading"]["model"] = "onchip"
    out.write_text(json.dumps(fields))
    ended = fuse("--check", out)
    assert ended.code == 1
    assert "not-unrolled" in ended.out


@pytest.mark.slow
def test_a_file_that_does_not_say_how_it_was_counted_is_as_the_interpreter_counts(
    fuse: Program, tmp_path: Path
) -> None:
    out = tmp_path / "s.json"
    assert fuse("--method", "loma", "-o", out).code == 0
    fields = json.loads(out.read_text())
    assert fields["reading"].pop("model") == "onchip"
    out.write_text(json.dumps(fields))
    ended = fuse("--check", out, "--json", *BY_DEFINES)
    assert (ended.code, ended.json["recomputed"][0]["accounting"]) == (0, "interpreter")


def test_its_tiles_are_planned_checked_and_run(fuse: Program, onchip: Program, tmp_path: Path) -> None:
    strategy, tiled, again, plan = (tmp_path / name for name in ("s.json", "tiled.json", "again.json", "plan.json"))
    given = ("--groups", "one", "--tile", "3x4", "--mode", "h-cached")
    assert fuse(*BY_DEFINES, *given, "-o", strategy, "--emit-graph", tiled).code == 0
    assert fuse("--check", strategy, "--emit-graph", again).code == 0
    assert read_graph(again) == read_graph(tiled)
    assert onchip("plan", tiled, "--sram", "m_r", "--method", "belady", "-o", plan).code == 0
    assert onchip("run", plan, tiled).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "uneven"), "--method: 'uneven' counts as defines alone"),
        ((*BY_DEFINES, "--method", "exact"), "--method: 'exact' counts as interpreter alone"),
        ((*BY_DEFINES, "--method", "cosa"), "--method: there is no mapper 'cosa' for tiles"),
        ((*BY_DEFINES, "--objective", "edp"), "--method: 'uneven' does not map for least edp"),
        (("--accounting", "zigzag"), "--accounting: bounds of stacks are not proven for zigzag"),
        (("--accounting", "timeloop"), "--accounting: 'timeloop'"),
    ],
)
def test_what_does_not_go_together_ends_in_one_line(fuse: Program, arguments: tuple[str, ...], message: str) -> None:
    ended = fuse(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_an_array_on_which_the_rule_unrolls_nothing_is_refused_with_its_file(fuse: Program, chip: Path) -> None:
    text = CHIP.replace("{K: 2, OX: 2}", "{row: 2, column: 2}").replace("1B, holds: [weight], serves: [OX]", "64B")
    chip.write_text(text)
    assert fuse("--method", "loma", "--groups", "layers").code == 0
    ended = fuse(*BY_DEFINES)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(
        "chip.yaml: array: its dimensions are row, column, on which DeFiNES's rule unrolls nothing; "
        "expected K, C, OX or OY among them\n"
    )


def test_where_nothing_fits_there_is_no_strategy(fuse: Program, chip: Path) -> None:
    """Buffers have room for an element of each operand, but not for the operands that the rule keeps side by side."""
    chip.write_text(CHIP.replace("512B", "6B").replace("1KiB", "6B"))
    ended = fuse(*BY_DEFINES, "--json")
    assert (ended.code, ended.json["status"], ended.json["stopped_by"]) == (4, "UNKNOWN", "completed")
    assert ended.json["stacks"] == []
    assert "no mapping" in ended.json["error"]


@pytest.mark.slow
def test_a_run_that_has_to_stop_has_every_layer_alone(network: Path, chip: Path) -> None:
    @contextmanager
    def ended(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        yield Run(limits, deadline=deadline.within(-1.0))

    request = FusionRequest(str(network), str(chip), options=FusionOptions(accounting=DEFINES), reading=Reading(bits=8))
    outcome, best = fuse_network(request, ended), fuse_network(request)
    assert outcome.result.answer is not None
    assert all(len(stack.layers) == 1 for stack in outcome.result.answer.stacks)
    assert outcome.result.status == "FEASIBLE"
    assert outcome.result.objective_value is not None
    assert outcome.result.lower_bound == 0
    assert best.result.objective_value is not None
    assert outcome.result.objective_value >= best.result.objective_value
