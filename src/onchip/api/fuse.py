"""The `fuse` use case: read -> search stacks, tiles and mappings -> verify -> document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from onchip.answer.document import Claim, Source, StrategyDocument
from onchip.answer.options.choices import choice
from onchip.answer.options.fusion_objective import Criteria, FusionObjective, sum_of, value_of
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.result import SearchResult, Status
from onchip.answer.schedule import ScheduledStack
from onchip.answer.strategy import FusionStrategy, StrategyFigures
from onchip.api.check_strategy import MODEL_OF, replayed
from onchip.api.inputs import VerbRequest
from onchip.api.networks import Network, read_network, taken_apart, text_of
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import states_energies, summed, with_assumed_energies, with_free_accesses
from onchip.arch.memory import Operand
from onchip.bounds.network.relaxation import relaxation
from onchip.errors import InputError, InternalError, errors_in_file
from onchip.formats.foreign_files import accelerator_text, load_any_accelerator
from onchip.formats.own.accelerator_yaml import accelerator_source
from onchip.formats.own.graph_json import graph_sha256
from onchip.formats.own.strategy_json import STRATEGIES
from onchip.ir.graph import Graph
from onchip.model.accounting.accounting import AccountingName
from onchip.model.group.cost import StackCost, peak_bytes_of
from onchip.model.group.machine import ensure_tiles_can_be_costed
from onchip.model.group.sums import moved_sums, total
from onchip.model.layer.limits import array_of
from onchip.model.timeline.mac_count import MacCount
from onchip.ops.fusable import FusableLayer, FusableNetwork
from onchip.ops.fusable_reading import PartlyFusable, partly_fusable_of
from onchip.ops.layers_of import PLAIN_BITS, Precision
from onchip.ops.nests import macs_of_nests
from onchip.reports.stack.outcome import CostedStack, FusionOutcome, OutsideOperator, TilingValue
from onchip.scheduling.fronts.costs import Costing, StackCosts, criteria_of, dram_bits_of
from onchip.scheduling.fronts.mappers import check_rule_unrolls, mapper_named
from onchip.scheduling.search.fusion import FusionResult, solve_fusion
from onchip.search.budget.clock import Deadline
from onchip.search.strategy.start import RunStarter, silent_run, with_bound, without_bound
from onchip.transform.groups.stacks import stack_of
from onchip.transform.groups.tile_graph import part_of_network
from onchip.transform.groups.tiled import tile_graph

NONE_OF_THESE: Final = "these groups and tiles have no strategy that fits; others may"


@dataclass(frozen=True, slots=True)
class FusionRequest(VerbRequest[Network, FusionObjective, FusionOptions]):
    """The request of `fuse`; in DeFiNES's accounting partial sums are by default twice as wide as elements."""

    objective: FusionObjective = FusionObjective.ENERGY
    options: FusionOptions = field(default_factory=FusionOptions)

    @property
    def accounting(self) -> AccountingName:
        """Return the cost model; raises UsageError for an unknown one."""
        return choice(AccountingName, self.options.accounting, "accounting")


@dataclass(frozen=True, slots=True)
class _Problem:
    """The request with its inputs read; `mapper` maps the layers of tiles."""

    request: FusionRequest
    mapper: str
    graph: Graph
    fusable: PartlyFusable
    accelerator: Accelerator

    @property
    def network(self) -> FusableNetwork:
        """Return the operators that can be fused."""
        return self.fusable.network

    @property
    def bound_of_any(self) -> int:
        """Return the lower bound that holds for all stacks, tiles and mappings, and for schedules."""
        precision = Precision(self.request.reading.bits, self.request.options.partial_bits)
        return bound_of_any(replace(self.costing, accelerator=self.accelerator), self.graph, precision)

    @property
    def costing(self) -> Costing:
        """Return the costing by the request's objective, mapper and accounting."""
        request, machine = self.request, with_assumed_energies(self.accelerator)
        return Costing(
            self.network, machine, request.objective, self.mapper, request.options.uses_cache, request.accounting
        )


@phase("searching")
def fuse_network(request: FusionRequest, start: RunStarter = silent_run) -> FusionOutcome:
    """Return the best strategy among those that the options span.

    Raises InternalError if the strategy is not legal, or its cost differs from the search's claim.
    """
    deadline = Deadline.after(request.limits.time_limit_seconds)
    problem = _read(request)
    with start(request.limits, deadline) as run:
        bound = problem.bound_of_any
        told = without_bound(with_bound(run, bound))  # the search's bound covers only its own stacks and tiles
        found = solve_fusion(problem.costing, request.options, told)
    by_rule = request.accounting is not AccountingName.INTERPRETER
    rule = "layers unrolled by DeFiNES's rule and counted as DeFiNES does" if by_rule else None
    restriction = problem.accelerator.restriction and f"accelerator: {problem.accelerator.restriction}"
    space, why_not = "; ".join(filter(None, (found.space, rule, restriction))), found.why_not
    stacks = found.stacks
    if not states_energies(problem.accelerator):  # show no assumed energies
        stacks = tuple((choice, cost.stated_by(problem.accelerator)) for choice, cost in stacks)
    found = replace(found, space=space, result=for_all_strategies(found.result, bound, space), stacks=stacks)
    problem = replace(problem, mapper=found.mapper)
    outcome = FusionOutcome(
        text_of(request.source),
        problem.network,
        problem.accelerator,
        problem.mapper,
        request.objective,
        request.objective.unit,
        found.result,
        found.space,
        found.costed,
        accounting=request.accounting,
        outside=outside_operators(problem.graph, problem.fusable, problem.accelerator),
        operators=len(problem.graph.operators),
    )
    if found.result.answer is None:
        reasons = filter(None, (found.result.why_not, why_not))
        return replace(outcome, why_not=": ".join(reasons) or None)
    figures = _figures(problem, [cost for _, cost in found.stacks])
    if figures.objective_value != found.result.objective_value:
        what = f"the strategy costs {figures.objective_value}, and it claims {found.result.objective_value}"
        raise InternalError(what, place="fuse")
    document = _document(problem, found.result.answer, found, figures)
    with phase("verifying"):  # replay it by its own mappings
        violations = replayed(document, problem.network, problem.accelerator).violations
    if violations:
        what = f"the strategy has {len(violations)} violations, the first: {violations[0]}"
        raise InternalError(what, place="fuse")
    return replace(
        outcome, stacks=costed_stacks(problem.network, found.result.answer, found), figures=figures, document=document
    )


def _read(request: FusionRequest) -> _Problem:
    """Read the inputs of the request; raises AcceleratorError if no tile can be costed on the accelerator."""
    mapper = mapper_named(request.options.mapper, request.accounting, request.objective.of_layers)
    accelerator = load_any_accelerator(request.accelerator)
    with errors_in_file(accelerator_text(request.accelerator)):
        array_of(accelerator)
        if request.accounting is AccountingName.DEFINES:
            check_rule_unrolls(accelerator)
        ensure_tiles_can_be_costed(accelerator, request.objective)
    graph = read_network(request.source, request.plain_reading)
    doubled = 2 * (request.reading.bits or PLAIN_BITS) if request.accounting is AccountingName.DEFINES else None
    precision = Precision(request.reading.bits, request.options.partial_bits or doubled).on(accelerator)
    known = replace(request, options=replace(request.options, partial_bits=precision.partial_bits))
    return _Problem(known, mapper, graph, partly_fusable_of(graph, precision), accelerator)


def _figures(problem: _Problem, costs: Sequence[StackCost]) -> StrategyFigures:
    """Return the sums over stacks and moved operators; each objective value is rounded first, as in the search."""
    objective = problem.request.objective
    parts = [*(one.sums for one in costs), *moved_sums(problem.network.moved, problem.accelerator)]
    sums = total(parts)
    return StrategyFigures(
        value_of(sum_of([objective.zero, *(criteria_of(objective, one) for one in parts)])),
        summed(one.stated_energy_pj for one in parts),
        sum(one.cycles for one in parts),
        sums.macs,
        dram_bits_of(sums),
        sums.energies_by_name_pj,
        peak_bytes_of(costs),
    )


def _document(
    problem: _Problem, answer: FusionStrategy, found: FusionResult, figures: StrategyFigures
) -> StrategyDocument:
    request, result = problem.request, found.result
    reading = replace(request.plain_reading, bits=request.reading.bits, partial_bits=request.options.partial_bits)
    value, space = figures.objective_value, {STRATEGIES: found.space}
    bounds = result.lower_bound, figures.named, space, result.bound_among
    claim = Claim(problem.mapper, result.status, request.objective, value, *bounds)
    return StrategyDocument(
        Source(problem.network.name, graph_sha256(problem.graph)),
        accelerator_source(problem.accelerator),
        reading,
        answer,
        claim,
        problem.mapper,
        MODEL_OF[request.accounting],
    )


def outside_operators(graph: Graph, fusable: PartlyFusable, accelerator: Accelerator) -> tuple[OutsideOperator, ...]:
    """Return the operators that cannot be fused, with their traffic, output elements and MACs."""
    sums, left_out = moved_sums(fusable.network.moved, accelerator), fusable.outside
    written = (graph.operator[one.operator].outputs for one in left_out)
    elements = (sum(prod(graph.tensor[name].shape or (1,)) for name in names) for names in written)
    operators, count = [graph.operator[one.operator] for one in left_out], MacCount(graph)
    macs = [max(macs_of_nests(graph, operator), count.macs(operator)) for operator in operators]
    return tuple(OutsideOperator(*each) for each in zip(left_out, sums, elements, macs, strict=True))


def costed_stacks(network: FusableNetwork, strategy: FusionStrategy, found: FusionResult) -> tuple[CostedStack, ...]:
    """Return the stacks of a strategy, each with its cost and the values of all its evaluated tilings."""
    tilings: dict[object, list[TilingValue]] = {}
    for other, value in found.values.items():
        tilings.setdefault(other.without_tiles, []).append(TilingValue(other.tiling, value))
    return tuple(
        CostedStack(one, stack_of(network, choice.span), cost, tuple(tilings.get(choice.without_tiles, ())))
        for one, (choice, cost) in zip(strategy.stacks, found.stacks, strict=True)
    )


def bound_of_any(costing: Costing, graph: Graph, precision: Precision) -> int:
    """Return a lower bound for every strategy of `fuse` and every schedule of `schedule`, for mappings without bypass.

    It is that of schedules at any capacity, or the lesser one of strategies, in which operators outside of groups move
    their operands from and to DRAM without loop nests. In the latter, views cost nothing, and neither do layers with
    other output pixels than their tensor has, as a transposed convolution. The bound is 0 in DeFiNES's
    accounting, in which units count in parts, and for a network that `schedule` refuses.
    """
    if costing.accounting is AccountingName.DEFINES:
        return 0
    network, machine = costing.network, with_free_accesses(costing.accelerator)
    moved = {one.name for one in network.moved}
    fused = [operator.name for operator in graph.operators if operator.name not in moved]
    outside = StackCosts(network, machine, costing.objective, lambda _: None).moved
    try:
        of_schedules = _bound_of_schedules(costing.objective, graph, machine, precision)
        part = part_of_network(graph, fused)
        inside = _bound_of_schedules(costing.objective, part, machine, precision, network.layers) if fused else ()
    except InputError:  # `schedule` refuses the network
        return 0
    of_strategies = sum_of([inside, outside]) if fused else outside
    return min(value_of(of_schedules), value_of(of_strategies))


def _bound_of_schedules(
    objective: FusionObjective,
    graph: Graph,
    accelerator: Accelerator,
    precision: Precision,
    layers: Sequence[FusableLayer] | None = None,
) -> Criteria:
    """Return a lower bound for schedules at any capacity; if layers are given, only they cost something.

    Strategies have no timeline: the ports of DRAM count apart, while a schedule's DRAM reads and writes in turn.
    """
    apart = taken_apart(graph if precision.bits is None else graph.with_bits(precision.bits))
    whole = tile_graph(apart, [ScheduledStack((operator.name,)) for operator in apart.operators], precision)
    of_layers = {
        one.name: (one.layer,)
        for one in layers or ()
        if one.layer.elements(Operand.OUTPUT) == _elements_of_output(whole.graph, one.name)
    }
    least = relaxation(
        whole.graph,
        {**whole.nests, **of_layers},
        accelerator,
        every_memory_keeps=True,
        operands=whole.nest_operands,
        prices_room=False,
        free=() if layers is None else whole.nests.keys() - of_layers.keys(),
    )
    return {
        FusionObjective.ENERGY: (least.energy_fj,),
        FusionObjective.LATENCY: (least.latency_cycles_at_once,),
        FusionObjective.DRAM: (8 * least.traffic_bytes,),
        FusionObjective.EDP: (least.energy_fj, least.latency_cycles_at_once),
    }[objective]


def _elements_of_output(graph: Graph, operator: str) -> int:
    """Return the elements of an operator's output; 0 if it was taken apart."""
    found = graph.operator.get(operator)
    return 0 if found is None else prod(graph.tensor[found.outputs[0]].shape or ())


def for_all_strategies(result: SearchResult[FusionStrategy], bound: int, space: str) -> SearchResult[FusionStrategy]:
    """Convert a result for the strategies in `space` to a status and a bound that hold for all strategies.

    `optimal_among` and `bound_among` keep the proof for `space`.
    """
    if result.status is Status.INFEASIBLE:
        return replace(result, status=Status.UNKNOWN, lower_bound=bound, space=None, why_not=NONE_OF_THESE)
    status = result.status
    if result.answer is not None:
        status = Status.OPTIMAL if result.objective_value == bound else Status.FEASIBLE
    return replace(
        result,
        status=status,
        lower_bound=bound,
        space=None,
        optimal_among=space if result.status is Status.OPTIMAL else None,
        bound_among=max(result.lower_bound, bound) if result.status is Status.OPTIMAL else None,
    )
