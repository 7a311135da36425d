"""The check of a mapping file: read it, its layers and its accelerator -> verify -> cost, without any search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from onchip.answer.document import Claim, MappingDocument, NamedMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.words import picked
from onchip.api.check_request import AnswerCheck, CheckRequest
from onchip.api.map import MappingRequest, layers_asked_for
from onchip.api.phases import phase
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import ensure_energies, states_energies, unknown_energy
from onchip.errors import InputError, UsageError, errors_in_file
from onchip.formats.foreign_files import accelerator_text, load_any_accelerator
from onchip.formats.own.accelerator_yaml import accelerator_sha256, bundled_accelerators
from onchip.formats.own.mapping_yaml import read_mappings
from onchip.ir.layer import Layer
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.ops.layers_of import NetworkLayers, Precision
from onchip.verify.mapping import is_value_of, mapping_claim_violations, verify_mapping
from onchip.verify.rules import Rule, Violation

COUNT_OTHERWISE = ("loma", "uneven")
"""Methods that may count as ZigZag or DeFiNES do, which the file does not record."""
ACCESSES = "energy and cycles of {count} mappings are those of the cost model"
MISSING = "{missing} of {layers} layers have no mapping"
OTHERWISE = "the objective value claimed of {name!r}, which may be counted as other tools do"


@dataclass(slots=True)
class _Found:
    violations: list[Violation] = field(default_factory=list)
    recomputed: list[dict[str, object]] = field(default_factory=list)
    claimed: list[dict[str, object]] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)


@phase("verifying")
def check_mapping_file(request: CheckRequest) -> AnswerCheck:
    """Verify each mapping of a file for the layers that it names, and cost it.

    Raises InputError for unreadable files, UsageError if neither the caller names an accelerator nor the file a bundled
    one.
    """
    document = read_mappings(request.file)
    name = accelerator_named(request.accelerator, document.accelerator.name, request.file)
    accelerator = load_any_accelerator(name)
    with errors_in_file(accelerator_text(name)):
        for one in document.answer:
            ensure_energies(accelerator, one.claim.objective if one.claim else MappingObjective.LATENCY)
    found = _Found(list(_made_for_others(document, accelerator)))
    if not found.violations:
        layers, _ = layers_asked_for(
            MappingRequest(request.network, name, reading=request.reading_of_layers), accelerator
        )
        if document.graph.name != (layers.name or ""):
            detail = (
                f"the mapping is for {document.graph.name or 'a layer'!r}, and this is {layers.name or 'a layer'!r}"
            )
            found.violations.append(Violation(Rule.NETWORK_DIFFERS, document.graph.name, detail))
        else:
            for one in document.answer:
                _look_into(one, layers, accelerator, found)
            _note_missing(document, layers, request.may_be_partial, found)
            found.not_checked.insert(0, ACCESSES.format(count=len(found.recomputed)))
            if not states_energies(accelerator):
                found.not_checked.append(unknown_energy(accelerator))
    return AnswerCheck(
        "mapping",
        document.graph.name,
        accelerator.name,
        found.violations,
        found.recomputed,
        found.claimed,
        found.not_checked,
    )


def mapping_violations(mappings: Sequence[NamedMapping], accelerator: Accelerator) -> tuple[Violation, ...]:
    """Return the violations of mappings on an accelerator; empty if all are legal."""
    problems = ((LayerProblem(one.layer, accelerator), one.mapping) for one in mappings)
    return tuple(violation for problem, mapping in problems for violation in verify_mapping(problem, mapping))


def accelerator_named(given: str | Accelerator | None, said: str, file: Path) -> str | Accelerator:
    """Return the given accelerator, or the one that the file names; raises UsageError if that is not bundled."""
    if given is not None:
        return given
    if said not in bundled_accelerators():
        what = f"the accelerator, {said!r}, is not bundled"
        raise UsageError(what, file=str(file), place="target", expected="the file that describes it")
    return said


def _made_for_others(document: MappingDocument, accelerator: Accelerator) -> Iterator[Violation]:
    if document.accelerator.sha256 not in (None, accelerator_sha256(accelerator)):
        detail = f"the mapping is for another accelerator than the given {accelerator.name!r}"
        yield Violation(Rule.ACCELERATOR_DIFFERS, document.accelerator.name, detail)


def _look_into(one: NamedMapping, layers: NetworkLayers, accelerator: Accelerator, found: _Found) -> None:
    """Record all violations of one mapping of the file, and its cost if there are none."""
    subject, problem = one.names[0], LayerProblem(one.layer, accelerator)
    wrong = [*_layer_differs(one, layers)]
    wrong += [replace(each, subject=f"{subject}: {each.subject}") for each in verify_mapping(problem, one.mapping)]
    found.violations += wrong
    cost = None
    if not wrong:
        try:
            cost = layer_cost(problem, one.mapping)
        except InputError as error:
            error.place = f"layer {subject!r}: {error.place}"
            raise
        figures = {"energy_pj": cost.stated_energy_pj, "latency_cycles": cost.cycles, "macs": cost.macs}
        found.recomputed.append({"names": ", ".join(one.names), **figures})
    if one.claim is not None:
        value = None if cost is None else _value(one.claim, cost)
        if value is None and cost is not None:
            found.not_checked.append(OTHERWISE.format(name=subject))
        found.violations += mapping_claim_violations(one.claim, subject, value)
        claimed = picked(one.claim, "method", "status", "objective", "objective_value", "lower_bound")
        found.claimed.append({"names": ", ".join(one.names), **claimed})


def _note_missing(document: MappingDocument, layers: NetworkLayers, may_be_partial: bool, found: _Found) -> None:
    """Record the network's layers that the file omits; operators without a loop nest are not layers."""
    mapped = {name for one in document.answer for name in one.names}
    missing = [name for name in layers.layers if name not in mapped]
    if not missing:
        return
    said = MISSING.format(missing=len(missing), layers=len(layers.layers))
    if may_be_partial:
        found.not_checked.append(f"{said}: {', '.join(missing)}")
    else:
        found.violations += [
            Violation(Rule.LAYER_MISSING, name, f"the layer has no mapping; {said}") for name in missing
        ]


def _layer_differs(one: NamedMapping, layers: NetworkLayers) -> Iterator[Violation]:
    """Yield a violation for each named layer that differs, apart from bits and padded loops."""
    for name in one.names:
        layer = layers.layers.get(name)
        if layer is None:
            yield Violation(Rule.UNKNOWN_LAYER, name, "the network has no such layer")
        elif not _may_stand_for(one.layer, layer):
            yield Violation(Rule.LAYER_DIFFERS, name, _differences(one.layer, layer))


def _may_stand_for(mapped: Layer, layer: Layer) -> bool:
    plain = Precision()
    mapped, layer = plain.of(mapped), plain.of(layer)
    if any(mapped.bounds[name] < bound for name, bound in layer.bounds.items()):
        return False
    return mapped == (layer if mapped.bounds == layer.bounds else layer.padded_to(mapped.bounds))


def _differences(mapped: Layer, layer: Layer) -> str:
    """Return a description of the differences between the mapping's layer and the network's, apart from bits."""
    pairs = [(loop, mapped.bounds[loop], bound) for loop, bound in layer.bounds.items()]
    shapes = ("stride", "dilation", "padding", "has_weight")
    pairs += [(name, getattr(mapped, name), getattr(layer, name)) for name in shapes]
    return ", ".join(f"{name} {said}, and it has {is_so}" for name, said, is_so in pairs if said != is_so)


def _value(claim: Claim, cost: LayerCost) -> float | None:
    """Return the value of the claim's objective.

    The value is None if the method may count otherwise and the cost model disagrees.
    """
    if claim.objective not in list(MappingObjective):
        return None
    value = MappingObjective(claim.objective).of(cost.stated_energy_pj, cost.cycles)
    return None if claim.method in COUNT_OTHERWISE and not is_value_of(claim, value) else value
