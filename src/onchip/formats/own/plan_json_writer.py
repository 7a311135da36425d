"""The plan file: one line for each instruction, the same bytes for the same plan.

The fields are those that `plan_json` reads.
"""

from __future__ import annotations

from pathlib import Path

from onchip.answer.document import Claim, PlanDocument, Reading
from onchip.answer.problem import Durations, Order, Placement, Rate
from onchip.answer.recomputation import Recompute
from onchip.arch.memory import Memory, Operand
from onchip.arch.sharing import NO_SHARING
from onchip.errors import PlanError
from onchip.formats.canonical import lines, to_json
from onchip.formats.files import write_file
from onchip.formats.own.document_fields import binding_fields, source_fields
from onchip.formats.own.program_fields import instruction_fields
from onchip.without_collecting import without_collecting


def write_plan(document: PlanDocument, path: Path) -> None:
    """Writes the plan file; raises OutputError where it cannot be written."""
    write_file(path, plan_to_json(document).encode())


@without_collecting()
def plan_to_json(document: PlanDocument) -> str:
    """The plan file's text; raises PlanError for names that are not Unicode text."""
    memories = [memory_fields(memory) for memory in document.answer.memories]
    transfers = document.transfers
    ways: dict[str, list[dict[str, object]]] = {
        "links": [{"source": source, "target": target} for source, target in transfers.links],
        "rates": [_rate_fields(*ends, transfers.rates[ends]) for ends in sorted(transfers.rates)],
    }
    instructions = [instruction_fields(instruction) for instruction in document.answer.instructions]
    fields = [
        f'"format": "onchip-plan", "version": 1, "graph": {to_json(source_fields(document.graph), PlanError)}, '
        f'"accelerator": {to_json(source_fields(document.accelerator), PlanError)}',
        f'"reading": {to_json(_reading_fields(document.reading), PlanError)}',
        f'"memories": [{lines(memories, PlanError)}]',
    ]
    fields += [f'"{name}": [{lines(values, PlanError)}]' for name, values in ways.items() if values]
    if document.placement is not Placement.DYNAMIC:
        fields.append(f'"placement": {to_json(document.placement, PlanError)}')
    if document.order is not Order.FREE:
        fields.append(f'"order": {to_json(document.order, PlanError)}')
    if document.durations is not None:
        fields.append(f'"durations": {to_json(_duration_fields(document.durations), PlanError)}')
    if document.recomputation is not None:
        costs = {"costs": dict(sorted(document.recomputation.costs.items()))}
        fields.append(f'"recomputation": {to_json(costs, PlanError)}')
    fields.append(f'"instructions": [{lines(instructions, PlanError)}]')
    if document.claim is not None:
        fields.append(f'"result": {to_json(_claim_fields(document.claim), PlanError)}')
    return "{" + ",\n ".join(fields) + "}\n"


def _reading_fields(reading: Reading) -> dict[str, object]:
    fields: dict[str, object] = {
        "bits": reading.bits,
        **binding_fields(reading.bindings),
        "granularity": reading.granularity,
        "count": reading.count,
        "split": reading.split,
    }
    if reading.cap_tensors:
        fields["cap_tensors"] = True
    if reading.sharing != NO_SHARING:
        fields["share"] = {"in_place": list(reading.sharing.in_place), "alias": list(reading.sharing.alias)}
    if reading.states:
        fields["states"] = dict(sorted(reading.states.items()))
    if reading.bands:
        fields["bands"] = dict(sorted(reading.bands.items()))
    if reading.recompute is not Recompute.NEVER:
        fields["recompute"] = reading.recompute
    return fields


def memory_fields(memory: Memory) -> dict[str, object]:
    """A scratchpad; what it holds where that is not everything."""
    fields: dict[str, object] = {
        "name": memory.name,
        "capacity_bytes": memory.capacity_bytes,
        "alignment_bytes": memory.alignment_bytes,
    }
    return fields if memory.holds == tuple(Operand) else fields | {"holds": list(memory.holds)}


def _rate_fields(source: str, target: str, rate: Rate) -> dict[str, object]:
    terms = [{"unit_bits": unit_bits, "cost": cost} for unit_bits, cost in rate.terms]
    return {"source": source, "target": target, "setup": rate.setup, "terms": terms}


def _duration_fields(durations: Durations) -> dict[str, object]:
    return {
        "queues": durations.queues,
        "setup_cycles": durations.setup_cycles,
        "has_one_channel": durations.has_one_channel,
        "cycles": dict(sorted(durations.cycles.items())),
    }


def _claim_fields(claim: Claim) -> dict[str, object]:
    return {
        "method": claim.method,
        "status": claim.status,
        "objective": claim.objective,
        "objective_value": claim.objective_value,
        "lower_bound": claim.lower_bound,
    }
