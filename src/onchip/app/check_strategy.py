"""A strategy file on one page: read it, its network and its accelerator -> verify its structure, search nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onchip.answer.document import Claim, Reading, StrategyDocument
from onchip.answer.stacks import StrategyFigures
from onchip.app.check_mapping import accelerator_named
from onchip.app.fuse import layers_in_network
from onchip.app.insisted import ensure_reading_is
from onchip.app.networks import read_network
from onchip.arch.accelerator import Accelerator
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.accelerator_yaml_writer import accelerator_sha256
from onchip.formats.own.graph_json import graph_sha256
from onchip.formats.own.strategy_json import read_strategy
from onchip.ir.graph import Graph
from onchip.lower.layers.fusable_of import fusable_of
from onchip.lower.layers.layers_of import Precision
from onchip.reports.shared.answer_check import AnswerCheck
from onchip.verify.rules import Rule, Violation
from onchip.verify.strategy import verify_strategy, verify_strategy_claim

FIGURES = "what the strategy costs: `onchip fuse --check` maps its layers again and costs it"
BOUND = "that no strategy of the space is below the lower bound"


@dataclass(frozen=True, slots=True)
class StrategyFile:
    """A strategy file, its network, and the accelerator (None: the bundled one of the file's name)."""

    path: Path
    network: str
    accelerator: str | None = None
    insisted: Mapping[str, object] = field(default_factory=dict)


def check_strategy_file(file: StrategyFile) -> AnswerCheck:
    """Verify the stacks, tiles and homes of a strategy file, and that its claim does not contradict itself.

    Raises InputError for what cannot be read, UsageError for what contradicts the file, or where no accelerator is
    named that is bundled.
    """
    document = read_strategy(file.path)
    reading = document.reading
    ensure_reading_is(reading, file.insisted, str(file.path))
    accelerator = load_accelerator(accelerator_named(file.accelerator, document.accelerator.name, file.path))
    network = read_network(file.network, Reading(dims=reading.dims, granularity=reading.granularity))
    violations = tuple(_made_for_others(document, network, accelerator))
    if not violations:
        precision = Precision(reading.bits or 8, reading.partial_bits).on(accelerator)
        layers = layers_in_network(fusable_of(network, precision))
        violations = verify_strategy(layers, accelerator, document.answer)
    claim = document.claim
    if claim is not None:
        violations += verify_strategy_claim(claim, _as_claimed(claim))
    not_checked = (FIGURES, *((BOUND,) if claim else ()))
    claimed = (_claim_object(claim),) if claim else ()
    return AnswerCheck("strategy", network.name, accelerator.name, violations, (), claimed, not_checked)


def _made_for_others(document: StrategyDocument, network: Graph, accelerator: Accelerator) -> Iterator[Violation]:
    if document.graph.sha256 not in (None, graph_sha256(network)):
        detail = f"it is for {document.graph.name!r} {document.graph.sha256}, and this is {network.name!r}"
        yield Violation(Rule.NETWORK_DIFFERS, document.graph.name, detail)
    if document.accelerator.sha256 not in (None, accelerator_sha256(accelerator)):
        detail = f"it is for another than {accelerator.name!r} as it is given"
        yield Violation(Rule.ACCELERATOR_DIFFERS, document.accelerator.name, detail)


def _as_claimed(claim: Claim) -> StrategyFigures:
    """The figures of the claim themselves: so that only what contradicts itself is found."""
    said = claim.figures
    return StrategyFigures(
        int(claim.objective_value),
        said["energy_pj"],
        said["latency_cycles"],
        int(said["macs"]),
        int(said["dram_bits"]),
    )


def _claim_object(claim: Claim) -> dict[str, object]:
    return {
        "method": claim.method,
        "status": claim.status,
        "objective": claim.objective,
        "objective_value": claim.objective_value,
        "lower_bound": claim.lower_bound,
        **claim.figures,
    }
