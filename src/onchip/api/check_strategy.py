"""The check of a strategy file by verification and replay, without any search; and its network in tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from onchip.answer.document import CostModel, Granularity, Reading, StrategyDocument
from onchip.answer.strategy import FusionStrategy, StrategyFigures, nested_figures
from onchip.answer.words import picked
from onchip.api.check_mapping import accelerator_named
from onchip.api.check_request import AnswerCheck, CheckRequest
from onchip.api.networks import ensure_reading_is, is_model, read_network
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import states_energies, unknown_energy
from onchip.errors import InputError, UsageError
from onchip.formats.foreign_files import accelerator_text, load_any_accelerator
from onchip.formats.own.accelerator_yaml import accelerator_sha256
from onchip.formats.own.graph_json import WeightSource, graph_sha256
from onchip.formats.own.strategy_json import read_strategy
from onchip.ir.graph import Graph
from onchip.model.accounting.accounting import AccountingName
from onchip.model.accounting.conventions import conventions_of
from onchip.model.group.cost import tile_prices_by
from onchip.model.group.machine import ensure_tiles_can_be_costed
from onchip.ops.fusable import FusableNetwork
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.ops.layers_of import Precision
from onchip.transform.groups.stack_in_tiles import graph_in_tiles
from onchip.transform.groups.stacks import spans_of, stack_of
from onchip.transform.groups.tile_graph import layers_in_network, network_to_replay
from onchip.verify.rules import Rule, Violation
from onchip.verify.stack.verifier import ObjectiveRange, StrategySetting, replay_strategy
from onchip.verify.strategy import verify_strategy, verify_strategy_claim

MODEL_OF: Final = {AccountingName.INTERPRETER: CostModel.ONCHIP, AccountingName.DEFINES: CostModel.DEFINES}
NO_MAPPINGS = "the cost: the file has no mappings"
PRICES = "energy, cycles and DRAM bits of {count} mappings are those of the cost model"
LAYERS = "the layers and their windows: they are as `fuse` reads them"
BOUND = "the lower bounds themselves"


@dataclass(slots=True)
class StrategyReplay:
    """The verification result of a strategy; figures are None if it is not legal, or contains no mappings."""

    violations: tuple[Violation, ...]
    figures: StrategyFigures | None = None
    objectives: ObjectiveRange | None = None
    not_checked: tuple[str, ...] = ()


@phase("verifying")
def check_strategy_file(request: CheckRequest) -> AnswerCheck:
    """Verify the stacks, tiles, homes and mappings of a strategy file, and recompute all figures that it claims.

    In a file without mappings only stacks, tiles, homes and the consistency of the claim are verified. Raises
    InputError for unreadable files, UsageError for contradictory options or if no bundled accelerator is named,
    AcceleratorError for an accelerator on which no tile can be costed.
    """
    document = read_strategy(request.file)
    reading = document.reading
    insisted = {name: value for name, value in request.insisted.items() if name != "count"}
    ensure_reading_is(reading, insisted, str(request.file))
    named = accelerator_named(request.accelerator, document.accelerator.name, request.file)
    accelerator = load_any_accelerator(named)
    graph = read_network(request.graph_source, Reading.of(reading.bindings, reading.granularity))
    claim = document.claim
    found = StrategyReplay(tuple(_made_for_others(document, graph, accelerator)))
    if not found.violations:
        precision = Precision(reading.bits, reading.partial_bits).on(accelerator)
        try:
            found = replayed(document, partly_fusable_of(graph, precision).network, accelerator)
        except InputError as error:
            raise error if error.file else error.in_file(accelerator_text(named)) from None
    recomputed: tuple[dict[str, object], ...] = ()
    if found.figures:
        head = {"accounting": accounting_of(document), "objective_value": found.figures.objective_value}
        recomputed = ({"names": "all stacks", **head, **nested_figures(found.figures.named)},)
    not_checked = (*found.not_checked, *((BOUND,) if claim else ()))
    claimed: tuple[dict[str, object], ...] = ()
    if claim:
        among = {} if claim.bound_among is None else {"bound_among": claim.bound_among}
        said = picked(claim, "method", "status", "objective", "objective_value", "lower_bound")
        claimed = ({**said, **among, **nested_figures(claim.figures)},)
    return AnswerCheck("strategy", graph.name, accelerator.name, found.violations, recomputed, claimed, not_checked)


def accounting_of(document: StrategyDocument) -> AccountingName:
    """Return the name of the accounting by which a strategy is costed."""
    return next(name for name, model in MODEL_OF.items() if model is document.model)


def replayed(document: StrategyDocument, network: FusableNetwork, accelerator: Accelerator) -> StrategyReplay:
    """Verify a strategy for its network, and compare its claim with the cost under its mappings.

    Raises AcceleratorError for a machine on which no tile can be costed.
    """
    strategy, claim, claimed = document.answer, document.claim, tuple[Violation, ...]()
    outside = tuple(one.name for one in network.moved)
    found = StrategyReplay(verify_strategy(layers_in_network(network), accelerator, strategy, outside))
    if not found.violations and network.layers and not strategy.mappings:
        found.not_checked = (NO_MAPPINGS,)
    elif not found.violations:
        found = _run_by_mappings(document, network, accelerator)
    if claim is not None:
        claimed = verify_strategy_claim(claim, found.figures, found.objectives)
    return replace(found, violations=(*found.violations, *claimed))


def _run_by_mappings(document: StrategyDocument, network: FusableNetwork, accelerator: Accelerator) -> StrategyReplay:
    strategy, accounting = document.answer, accounting_of(document)
    unclaimed = "energy" if states_energies(accelerator) else "latency"
    objective = document.claim.objective if document.claim else unclaimed
    ensure_tiles_can_be_costed(accelerator, objective)
    as_defines = accounting is AccountingName.DEFINES
    setting = StrategySetting(network_to_replay(network), accelerator, objective, as_defines)
    prices = tile_prices_by(accounting.accounting, conventions_of(accounting))
    found = replay_strategy(setting, strategy, prices)
    is_unknown = found.figures is not None and found.figures.energy_pj is None
    not_checked = (PRICES.format(count=found.priced), LAYERS, *([unknown_energy(accelerator)] if is_unknown else []))
    return StrategyReplay(found.violations, found.figures, found.objectives, not_checked)


def _made_for_others(document: StrategyDocument, network: Graph, accelerator: Accelerator) -> Iterator[Violation]:
    if document.graph.sha256 not in (None, graph_sha256(network)):
        detail = f"the strategy is for {document.graph.name!r} {document.graph.sha256}, and this is {network.name!r}"
        yield Violation(Rule.NETWORK_DIFFERS, document.graph.name, detail)
    if document.accelerator.sha256 not in (None, accelerator_sha256(accelerator)):
        detail = f"the strategy is for another accelerator than the given {accelerator.name!r}"
        yield Violation(Rule.ACCELERATOR_DIFFERS, document.accelerator.name, detail)


WIDTHS_THAT_RUN = (8, 16, 32, 64)
"""Element widths in bits of a tile graph: elements can be split at any boundary, and their values can be computed."""


@phase("reading")
def network_to_tile(source: str, reading: Reading) -> Graph:
    """Return the network for tiling; raises UsageError if no tile graph of it could be planned and run."""
    if reading.granularity is not Granularity.FUSED:
        what = "a reader of the graph of tiles would fuse the nodes"
        raise UsageError(what, place="granularity", expected=f"{Granularity.FUSED} to emit a graph")
    graph = read_network(source, reading)
    others = sorted({one.bits for one in graph.tensors if one.bits not in (None, *WIDTHS_THAT_RUN)})
    if others:
        expected = f"some of {', '.join(map(str, WIDTHS_THAT_RUN))} to emit a graph"
        raise UsageError(f"elements of {others[0]} bits are not cut into bands", place="bits", expected=expected)
    return graph


def weights_to_keep(source: str, reading: Reading, graph: Graph) -> WeightSource | None:
    """Return the model whose weights the tiles of `graph` use; None without a model, or for other element widths."""
    if not is_model(source) or not Path(source).is_file():
        return None
    has_own_bits = reading.bits is None or graph == read_network(source, replace(reading, bits=None))
    return WeightSource(Path(source), reading.bindings) if has_own_bits else None


@phase("cutting into tiles")
def tiled_graph(strategy: FusionStrategy, graph: Graph) -> Graph:
    """Return a network in the tiles of a legal strategy, an operator for each layer of each tile.

    Raises GraphError for an operator that cannot be split.
    """
    network = partly_fusable_of(graph).network
    spans = spans_of(network, [stack.layers for stack in strategy.stacks])
    tilings = [(stack_of(network, span), one.tiling) for span, one in zip(spans, strategy.stacks, strict=True)]
    return graph_in_tiles(graph, network, tilings)
