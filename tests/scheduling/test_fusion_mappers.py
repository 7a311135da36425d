"""Mappers of the layers of tiles, their failures and workers, and answers within a time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.fusion_options import LAYERS, FusionOptions
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.answer.schedule import Homes
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.bounds.group.given_unrolling import GivenUnrolling
from onchip.errors import AcceleratorError, InputError, InternalError, UsageError
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml, load_accelerator
from onchip.formats.own.graph_json import graph_from_json
from onchip.ir.layer import Layer
from onchip.mapping.local_search.greedy import one_by_one
from onchip.mapping.methods.registry import METHODS, MappingMethod, Solve
from onchip.mapping.tile_search.exact import solve_by_dive
from onchip.mapping.tile_search.uneven import (
    FixedUnrolling,
    TemporalMethod,
    unrolling_groups,
    unrollings_for,
)
from onchip.model.accounting.accounting import AccountingName
from onchip.model.accounting.conventions import DEFINES
from onchip.model.group.cost import stack_cost
from onchip.model.group.mapper import Mapper, Memoized
from onchip.model.layer.cost import LayerCost
from onchip.model.layer.limits import array_of
from onchip.ops.fusable import FusableNetwork
from onchip.ops.fusable_reading import fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.choice.anytime import FoundInTime, solve_in_time
from onchip.scheduling.fronts.cost_table import CostingStoppedError
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.fronts.mappers import (
    MAPPERS,
    LayerMapper,
    MapperInTime,
    RuleMapper,
    UnmappableError,
    check_rule_unrolls,
    mapper_named,
)
from onchip.scheduling.fronts.workers import Costing, costs_of
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, stack_of
from onchip.verify.mapping import verify_mapping
from onchip.verify.rules import Rule
from support.fusable_networks import chain, network_of
from support.fused_files import CHIP, three_convolutions
from support.nests import beside_operands
from support.series import series
from support.stacks import fsrcnn

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
    with pytest.raises(UnmappableError, match="method picky: it is too large; expected a smaller one"):
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
    with pytest.raises(UnmappableError, match="method uneven: uneven does not know latency; expected energy"):
        mapper(LayerProblem(LAYER, MACHINE))


@pytest.mark.parametrize("method", TemporalMethod)
def test_a_layer_costs_what_the_mapper_of_the_rule_makes_of_it(method: TemporalMethod) -> None:
    cost = RuleMapper(method, ENERGY, Run())(LayerProblem(LAYER, MACHINE))
    assert cost is not None
    assert cost == FixedUnrolling(method)(LayerProblem(LAYER, MACHINE))


@pytest.mark.parametrize("method", TemporalMethod)
def test_room_is_counted_in_parts_as_units_are(method: TemporalMethod) -> None:
    """Of 14 columns on 4 units the last turn has two: 16 would not fit."""
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
    with pytest.raises(InternalError, match="its mapping is not legal: too-few-iterations"):
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
        (
            "loma",
            "zigzag",
            "energy",
            "accounting: bounds of stacks are not proven for zigzag; expected interpreter or",
        ),
        ("uneven", "interpreter", "energy", "mapper: 'uneven' counts as defines alone; expected one of exact, loma"),
        (
            "exact",
            "defines",
            "energy",
            "mapper: 'exact' counts as interpreter alone; expected one of uneven, loma with",
        ),
        (
            "cosa",
            "defines",
            "energy",
            "mapper: there is no mapper 'cosa' for tiles; expected one of uneven, loma with",
        ),
        (
            "uneven",
            "defines",
            "edp",
            "mapper: 'uneven' does not map for least edp; expected loma, or objective energy",
        ),
        (None, "defines", "latency", "mapper: 'uneven' does not map for least latency; expected loma, or objective"),
    ],
)
def test_what_does_not_go_together_is_refused(name: str | None, accounting: str, objective: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        mapper_named(name, AccountingName(accounting), MappingObjective(objective))


@pytest.mark.parametrize("name", ["eyeriss-like", "hifi4-like"])
def test_an_array_without_a_loop_s_name_is_refused(name: str) -> None:
    with pytest.raises(
        AcceleratorError, match="on which DeFiNES's rule unrolls nothing; expected K, C, OX or OY among"
    ):
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
    """It lays all channels side by side, and then has no room for what lies between the pixels."""
    layer = Layer(g=48, p=28, q=28, stride=(2, 2), partial_bits=24)
    problem = LayerProblem(layer, load_accelerator("simba"))
    assert METHODS["loma"](problem, ENERGY, Run()).answer is None
    found = LayerMapper(METHODS["loma"], ENERGY, Run())(problem)
    assert found is not None
    assert verify_mapping(problem, found.mapping) == ()


TILES = [
    StackChoice(LayerSpan(0, 2), Tiling(16, 9, OverlapMode.FULLY_CACHED)),
    StackChoice(LayerSpan(0, 2), Tiling(16, 9, OverlapMode.RECOMPUTE)),
    StackChoice(LayerSpan(0, 2), Tiling(9999, 9, OverlapMode.RECOMPUTE)),
]


def costing_of(accounting: AccountingName, mapper: str = "loma") -> Costing:
    stack = fsrcnn()
    network = FusableNetwork("fsrcnn", stack.inputs, stack.layers)
    return Costing(network, MACHINE, FusionObjective.ENERGY, mapper, use_cache=False, accounting=accounting)


@pytest.mark.parametrize("accounting", series([AccountingName.INTERPRETER, AccountingName.DEFINES], 1))
def test_two_processes_cost_what_one_does_and_refuse_the_same(accounting: AccountingName) -> None:
    costing = costing_of(accounting)
    with costs_of(costing, Run()) as alone, costs_of(costing, Run(Limits(workers=2))) as together:
        found = alone.costs(TILES)
        assert together.costs(TILES) == found
        assert None in found
        assert found[0] is not None
        assert list(together.refusals) == list(alone.refusals) == [TILES[2]]
        assert isinstance(together.refusals[TILES[2]], InputError)


@pytest.mark.parametrize("method", TemporalMethod)
def test_as_defines_counts_a_stack_costs_what_the_mapper_of_its_rule_makes_of_it(method: TemporalMethod) -> None:
    costs = costing_of(AccountingName.DEFINES, method).costs(Run())
    assert costs.sharing == GivenUnrolling(unrolling_groups(MACHINE), unrollings_for)
    for choice in TILES[:2]:
        (criteria,) = costs.costs([choice])
        stack = stack_of(costs.network, choice.span)
        assert costs.found[choice] == stack_cost(stack, MACHINE, choice.tiling, FixedUnrolling(method), DEFINES)
        bound = costs.bound(choice)
        assert bound is not None
        assert criteria is not None
        assert 0 < bound[0] <= criteria[0]


OPTIONS = FusionOptions(tile=(8, 8))
LONG = 3600.0
"""Seconds: far more than is needed."""


@pytest.fixture(scope="module")
def network() -> FusableNetwork:
    return fusable_of(graph_from_json(three_convolutions(), "three.json"), Precision(8, 16))


@pytest.fixture
def machine() -> Accelerator:
    return accelerator_from_yaml(CHIP, "chip.yaml")


@pytest.fixture
def found(network: FusableNetwork, machine: Accelerator) -> Callable[..., FoundInTime]:
    def solve(mapper: str, limit: float | None, heard: list[Progress] | None = None) -> FoundInTime:
        costing = Costing(network, machine, FusionObjective.ENERGY, mapper, use_cache=False)
        listener = (lambda _: None) if heard is None else heard.append
        return solve_in_time(costing, OPTIONS, Run(Limits(limit), listener))

    return solve


def exact_that(monkeypatch: pytest.MonkeyPatch, solve: Solve) -> None:
    monkeypatch.setattr("onchip.mapping.methods.registry.EVEN", MappingMethod("exact-even", "", solve))


def _interrupted(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
    """Run until Ctrl-C interrupts."""
    run.interrupt.set()
    return SearchResult(Status.UNKNOWN, None, None, 0, run.seconds, "exact", Stop.INTERRUPTED)


def test_where_exact_has_no_mapping_the_strategy_is_that_of_the_quick_mapper(
    found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch
) -> None:
    best = found("dive", None).found
    exact_that(monkeypatch, _interrupted)
    heard: list[Progress] = []
    answer = found("exact", LONG, heard)
    result = answer.found.result
    assert answer.mapper == "dive"
    assert (result.answer, result.objective_value) == (best.result.answer, best.result.objective_value)
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, Stop.INTERRUPTED)
    assert answer.found.space == best.space
    every = [one.best for one in heard]
    told = [best for best in every if best is not None]
    assert told == sorted(told, reverse=True)
    assert None not in every[every.index(told[0]) :]
    assert told[-1] == best.result.objective_value
    assert [one.lower_bound for one in heard] == sorted(one.lower_bound for one in heard)


def test_its_bound_holds_for_both(found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch) -> None:
    least = min(float(found(mapper, None).found.result.objective_value or 0) for mapper in ("exact", "dive"))
    exact_that(monkeypatch, _interrupted)
    assert 0 <= found("exact", LONG).found.result.lower_bound <= least


def test_without_a_limit_nothing_is_sought_with_another_mapper(
    found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact_that(monkeypatch, _interrupted)
    answer = found("exact", None)
    assert (answer.mapper, answer.found.result.status) == ("exact", Status.UNKNOWN)


@pytest.mark.parametrize("is_worse", [False, True])
def test_where_exact_proves_its_strategy_that_is_the_answer(
    found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch, is_worse: bool
) -> None:
    """Also if the quick mapper has a better one: that is not what was asked."""
    if is_worse:
        exact_that(monkeypatch, _one_element_at_a_time)
    limited, unlimited = found("exact", LONG), found("exact", None)
    assert limited.mapper == unlimited.mapper == "exact"
    assert limited.found.result.status is Status.OPTIMAL
    assert limited.found.stacks == unlimited.found.stacks
    assert limited.found.space == unlimited.found.space


@pytest.mark.slow
def test_the_better_of_two_strategies_is_the_answer(
    found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone presses Ctrl-C when so many layers are mapped, as well as by the quick mapper or badly."""
    by_dive = found("dive", None).found.result.objective_value

    def answer_after(layers: int, solve: Solve) -> FoundInTime:
        exact_that(monkeypatch, _until(layers, solve))
        return found("exact", LONG)

    few = answer_after(1, solve_by_dive)
    assert (few.mapper, few.found.result.objective_value) == ("dive", by_dive)
    answers = [answer_after(layers, solve_by_dive) for layers in range(2, 9)]
    enough = next(at for at, answer in enumerate(answers, 2) if answer.mapper == "exact")
    assert answers[enough - 2].found.result.stopped_by is Stop.INTERRUPTED
    exact_that(monkeypatch, _one_element_at_a_time)
    alone = found("exact", None)
    assert alone.found.result.objective_value is not None
    assert by_dive is not None
    assert alone.found.result.objective_value > by_dive
    both = answer_after(enough, _one_element_at_a_time)
    assert (both.mapper, both.found.result.objective_value) == ("dive", by_dive)


def _until(layers: int, solve: Solve) -> Solve:
    """Interrupted with so many layers mapped."""
    mapped = [0]

    def counting(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
        mapped[0] += 1
        result = solve(problem, objective, run)
        if mapped[0] >= layers:
            run.interrupt.set()
        return result

    return counting


def _one_element_at_a_time(problem: LayerProblem, objective: MappingObjective, run: Run) -> SearchResult[LayerMapping]:
    """In every memory, if that fits."""
    layer = problem.layer
    kept = (
        tuple(Kept(level.memory.name, 0) for level in problem.keepers(operand) if operand in layer.operands)
        for operand in Operand
    )
    mapping = LayerMapping(tuple(Loop(name, size) for name, size in layer.bounds.items() if size > 1), *kept)
    if verify_mapping(problem, mapping):
        return SearchResult(Status.UNKNOWN, None, None, 0, run.seconds, "exact")
    return SearchResult(Status.FEASIBLE, mapping, 1, 0, run.seconds, "exact")


def test_where_stacks_cannot_even_be_listed_in_time_every_layer_runs_alone(
    found: Callable[..., FoundInTime], monkeypatch: pytest.MonkeyPatch
) -> None:
    described = found("dive", None).found.space
    monkeypatch.setattr("onchip.scheduling.choice.solve.SECONDS_OF_A_STACK", LONG)
    result = found("exact", LONG / 2).found
    assert result.result.answer is not None
    assert all(len(stack.layers) == 1 for stack in result.result.answer.stacks)
    best = found("exact", None).found.result
    assert result.result.status is Status.FEASIBLE
    assert best.objective_value is not None
    assert 0 < result.result.lower_bound <= best.objective_value
    assert result.result.stopped_by is Stop.TIME_LIMIT
    assert result.space == described


def test_layers_alone_are_an_answer_whatever_the_time(network: FusableNetwork, machine: Accelerator) -> None:
    costing = Costing(network, machine, FusionObjective.ENERGY, "exact", use_cache=False)
    options = FusionOptions(groups=LAYERS)
    late = solve_in_time(costing, options, Run(Limits(0.0))).found.result
    best = solve_in_time(costing, options, Run()).found.result

    assert late.answer is not None
    assert all(len(stack.layers) == 1 for stack in late.answer.stacks)
    assert (late.status, late.stopped_by) == (Status.FEASIBLE, Stop.TIME_LIMIT)
    assert late.objective_value is not None
    assert best.objective_value is not None
    assert 0 < late.lower_bound <= best.objective_value <= late.objective_value


def test_a_stack_of_many_layers_is_not_costed_further_than_there_is_time(machine: Accelerator) -> None:
    """Its layers are all alike, so that only the first one is mapped."""
    network = chain(60, size=8)
    run, asked = Run(), [0]
    mapper = MapperInTime(_counting(asked, run), run)
    costs = StackCosts(network, machine, FusionObjective.ENERGY, mapper)
    with pytest.raises(CostingStoppedError):
        costs.cost(StackChoice(LayerSpan(0, 60), Tiling(4, 4, OverlapMode.RECOMPUTE)))
    assert asked == [10]


def _counting(asked: list[int], run: Run) -> Mapper:
    """Someone presses Ctrl-C while the tenth layer is mapped."""
    by_loma = Memoized(LayerMapper(METHODS["loma"], MappingObjective.ENERGY, Run()))

    def mapped(problem: LayerProblem) -> LayerCost | None:
        asked[0] += 1
        if asked[0] == 10:
            run.interrupt.set()
        return by_loma(problem)

    return mapped


@pytest.mark.parametrize("seconds", series([0.01, 1.0], 1))
def test_a_network_with_many_heads_has_a_strategy_and_a_bound_in_time(machine: Accelerator, seconds: float) -> None:
    heads = {f"h{at}": ("a",) for at in range(24)}
    network = network_of({"a": ("x",), **heads, **{f"t{at}": (f"h{at}",) for at in range(24)}}, size=2)
    costing = Costing(network, machine, FusionObjective.ENERGY, "exact", use_cache=False)
    result = solve_in_time(costing, FusionOptions(), Run(Limits(seconds))).found.result
    assert result.objective_value is not None
    assert 0 < result.lower_bound <= result.objective_value
