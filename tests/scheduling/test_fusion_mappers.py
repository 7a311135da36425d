"""Mappers of the layers of tiles, their failures and workers, and answers within a time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.schedule import Homes
from onchip.arch.memory import Operand
from onchip.errors import AcceleratorError, InputError, InternalError, UsageError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml, load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.baselines.loma import one_by_one
from onchip.mapping.methods.registry import METHODS, MappingMethod
from onchip.mapping.tile_search.uneven import FixedUnrolling, TemporalMethod, unrolling_groups
from onchip.model.accounting.accounting import AccountingName
from onchip.model.layer.limits import array_of
from onchip.scheduling.fronts.mappers import (
    MAPPERS,
    CostingStoppedError,
    LayerMapper,
    RuleMapper,
    UnmappableError,
    check_rule_unrolls,
    mapper_named,
)
from onchip.search.budget.limits import Run
from onchip.verify.mapping import verify_mapping
from onchip.verify.rules import Rule
from support.fused_files import CHIP
from support.nests import beside_operands

MACHINE = load_accelerator("meta-prototype-df")
LAYER = Layer(k=33, c=12, p=9, q=14, r=3, s=3, partial_bits=16)
ENERGY = MappingObjective.ENERGY


def _refuse(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
    raise InputError("it is too large", place="layer", expected="a smaller one")


def stopped() -> Run:
    run = Run()
    run.interrupt.set()
    return run


def test_what_a_method_refuses_is_said_and_not_taken_for_impossible() -> None:
    mapper = LayerMapper(MappingMethod("picky", "", _refuse), ENERGY, Run())
    with pytest.raises(UnmappableError, match="method picky is too large"):
        mapper(LayerProblem(Layer(), load_accelerator("simba")))


@pytest.mark.parametrize("method", ["hybrid", "random"])
def test_nothing_is_kept_at_or_above_where_it_lies_whole(method: str) -> None:
    """Mappings at random once put tiles of an operand into its home, and were refused."""
    chip = accelerator_from_yaml(CHIP, "chip.yaml")
    problem = LayerProblem(Layer(k=2, p=2), chip, Homes("buffer", "buffer", "buffer"))
    cost = LayerMapper(METHODS[method], ENERGY, Run())(problem)
    assert cost is not None
    assert {one.memory for one in cost.accesses} <= {"register", "buffer"}


def test_what_the_rule_refuses_is_said_and_not_taken_for_impossible() -> None:
    mapper = RuleMapper(TemporalMethod.UNEVEN, MappingObjective.LATENCY, Run())
    with pytest.raises(UnmappableError, match="method uneven: uneven does not know latency"):
        mapper(LayerProblem(LAYER, MACHINE))


@pytest.mark.parametrize("method", TemporalMethod)
def test_a_layer_costs_what_the_mapper_of_the_rule_makes_of_it(method: TemporalMethod) -> None:
    cost = RuleMapper(method, ENERGY, Run())(LayerProblem(LAYER, MACHINE))
    assert cost is not None
    assert cost == FixedUnrolling(method)(LayerProblem(LAYER, MACHINE))


@pytest.mark.parametrize("method", TemporalMethod)
def test_room_is_counted_in_parts_as_units_are(method: TemporalMethod) -> None:
    """The last turn of 14 columns on 4 units has two columns: 16 columns would not fit."""
    layer = Layer(k=56, p=72, q=14, r=5, s=5, partial_bits=16)
    homes = dict.fromkeys((Operand.INPUT, Operand.OUTPUT), "activation_local_buffer")
    problem = beside_operands(layer, unrolling_groups(MACHINE), homes)
    assert problem is not None
    mapping = FixedUnrolling(method).result(problem).answer
    assert mapping is not None
    assert [one.rule for one in verify_mapping(problem, mapping, may_pad=True)] == [Rule.CAPACITY_EXCEEDED]
    assert RuleMapper(method, ENERGY, Run())(problem) is not None


def test_a_mapping_that_is_not_legal_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(mapper: FixedUnrolling, problem: LayerProblem) -> SearchResult[LayerMapping]:
        return SearchResult(Status.OPTIMAL, LayerMapping((Loop("K", 64, "OX"),)), 1, 1, 0.0, "wrong")

    monkeypatch.setattr(FixedUnrolling, "result", wrong)
    with pytest.raises(InternalError, match="its mapping is not legal: mapping: loop C has 1 iterations"):
        RuleMapper(TemporalMethod.LOMA, ENERGY, Run())(LayerProblem(LAYER, MACHINE))


@pytest.mark.parametrize(
    "mapper_in",
    [
        lambda run: LayerMapper(METHODS["loma"], ENERGY, run),
        *(lambda run, method=method: RuleMapper(method, ENERGY, run) for method in TemporalMethod),
    ],
)
def test_a_run_that_has_to_stop_says_nothing_of_a_layer(mapper_in: Callable[[Run], LayerMapper | RuleMapper]) -> None:
    assert mapper_in(Run())(LayerProblem(LAYER, MACHINE)) is not None
    with pytest.raises(CostingStoppedError):
        mapper_in(stopped())(LayerProblem(LAYER, MACHINE))
    without_room = LayerProblem(Layer(c=64), MACHINE, room_bytes={"activation_local_buffer": 0})
    assert mapper_in(Run())(without_room) is None
    with pytest.raises(CostingStoppedError):
        mapper_in(stopped())(without_room)


@pytest.mark.parametrize(("accounting", "default"), [("interpreter", "exact"), ("defines", "uneven")])
def test_a_mapper_without_a_name_proves_its_mappings(accounting: str, default: str) -> None:
    asked = AccountingName(accounting)
    assert mapper_named(None, asked, ENERGY) == default
    assert all(mapper_named(name, asked, ENERGY) == name for name in MAPPERS[asked])


@pytest.mark.parametrize(
    ("name", "accounting", "objective", "message"),
    [
        ("loma", "zigzag", "energy", "accounting: bounds of stacks are not proven for zigzag"),
        ("uneven", "interpreter", "energy", "mapper: 'uneven' counts as defines alone"),
        ("exact", "defines", "energy", "mapper: 'exact' counts as interpreter alone"),
        ("cosa", "defines", "energy", "mapper: there is no mapper 'cosa' for tiles"),
        ("uneven", "defines", "edp", "mapper: 'uneven' does not map for least edp"),
        (None, "defines", "latency", "mapper: 'uneven' does not map for least latency"),
    ],
)
def test_what_does_not_go_together_is_refused(name: str | None, accounting: str, objective: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mapper_named(name, AccountingName(accounting), MappingObjective(objective))


@pytest.mark.parametrize("name", ["eyeriss-like", "hifi4-like"])
def test_an_array_without_a_loop_s_name_is_refused(name: str) -> None:
    with pytest.raises(AcceleratorError, match="on which DeFiNES's rule unrolls nothing"):
        check_rule_unrolls(load_accelerator(name))


def test_an_array_with_a_loop_s_name_is_taken_unless_it_unrolls_another() -> None:
    check_rule_unrolls(MACHINE)
    mixed = accelerator_from_yaml(CHIP.replace("{K: 2, OX: 2}", "{lane: 4, OX: 2}"), "m.yaml")
    check_rule_unrolls(mixed)
    other = replace(mixed, array=replace(array_of(mixed), unrolls={"OX": ("K",)}))
    with pytest.raises(AcceleratorError, match="array: 'OX' may not unroll the loop that it is named for"):
        check_rule_unrolls(other)


@pytest.mark.parametrize(("status", "is_mapped"), [(Status.UNKNOWN, True), (Status.INFEASIBLE, False)])
def test_of_which_a_method_finds_none_a_layer_runs_one_product_after_the_other(
    status: Status, *, is_mapped: bool
) -> None:
    def nothing(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
        return SearchResult(status, None, None, 0, 0.0, "nothing", Stop.COMPLETED)

    found = LayerMapper(MappingMethod("nothing", "", nothing), ENERGY, Run())(LayerProblem(LAYER, MACHINE))
    assert (found is not None) is is_mapped
    if found is not None:
        assert verify_mapping(LayerProblem(LAYER, MACHINE), found.mapping) == ()


def test_a_memory_without_room_for_an_element_keeps_none_of_it() -> None:
    problem = LayerProblem(
        replace(LAYER, input_bits=16), accelerator_from_yaml(CHIP.replace("512B", "1B"), "chip.yaml")
    )
    found = one_by_one(problem)
    assert verify_mapping(problem, found) == ()
    assert [one.memory for one in found.input] == ["global"]


def test_loma_has_a_mapping_of_a_depthwise_layer_that_passes_pixels_by() -> None:
    """LOMA alone unrolls all channels, and then has no room for the pixels that the stride skips."""
    layer = Layer(g=48, p=28, q=28, stride=(2, 2), partial_bits=24)
    problem = LayerProblem(layer, load_accelerator("simba"))
    assert METHODS["loma"](problem, ENERGY, Run()).answer is None
    found = LayerMapper(METHODS["loma"], ENERGY, Run())(problem)
    assert found is not None
    assert verify_mapping(problem, found.mapping) == ()
