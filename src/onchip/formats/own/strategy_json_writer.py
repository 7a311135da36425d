"""The strategy file: one line for each stack and each mapping, the same bytes for the same strategy.

The fields are those that `strategy_json` reads.
"""

from __future__ import annotations

from pathlib import Path

from onchip.answer.document import Claim, StrategyDocument, as_written
from onchip.answer.stacks import StackStrategy, StrategyError
from onchip.answer.strategy import TileMapping, nested_figures
from onchip.arch.memory import DRAM
from onchip.formats.canonical import lines, to_json
from onchip.formats.files import write_file
from onchip.formats.own.document_fields import binding_fields, source_fields
from onchip.formats.own.layer_fields import layer_fields, mapping_fields
from onchip.formats.own.strategy_json import STRATEGIES, STRATEGY_FORMAT


def write_strategy(document: StrategyDocument, path: Path) -> None:
    """Writes the strategy file; raises OutputError where it cannot be written."""
    write_file(path, strategy_to_json(document).encode())


def strategy_to_json(document: StrategyDocument) -> str:
    """The strategy file's text; raises StrategyError for what is not Unicode text or no finite number."""
    stacks = lines([stack_fields(stack) for stack in document.answer.stacks], StrategyError)
    fields = [
        f'"format": "{STRATEGY_FORMAT.name}", "version": {STRATEGY_FORMAT.version}, '
        f'"network": {_json(source_fields(document.graph))}, '
        f'"accelerator": {_json(source_fields(document.accelerator))}',
        f'"reading": {_json(_reading_fields(document))}',
        f'"stacks": [{stacks}]',
    ]
    if document.answer.mappings:
        fields.append(f'"mappings": [{lines(map(_mapping_fields, document.answer.mappings), StrategyError)}]')
    if document.answer.outside:
        fields.append(f'"outside": {_json(list(document.answer.outside))}')
    if document.claim is not None:
        fields.append(f'"result": {_json(_claim_fields(document.claim))}')
    return "{" + ",\n ".join(fields) + "}\n"


def stack_fields(stack: StackStrategy) -> dict[str, object]:
    """A stack; where its output lies if that is not DRAM."""
    fields: dict[str, object] = {
        "layers": list(stack.layers),
        "tile": {"columns": stack.tiling.columns, "rows": stack.tiling.rows},
        "mode": stack.tiling.mode,
    }
    return fields if stack.output_home == DRAM else fields | {"output": stack.output_home}


def _mapping_fields(one: TileMapping) -> dict[str, object]:
    fields: dict[str, object] = {
        "stack": one.stack,
        "names": list(one.names),
        "layer": layer_fields(one.layer),
        "homes": {str(operand): home for operand, home in one.homes},
    }
    room: dict[str, object] = {"room": dict(sorted(one.room_bytes.items()))} if one.room_bytes else {}
    return fields | room | mapping_fields(one.mapping)


def _reading_fields(document: StrategyDocument) -> dict[str, object]:
    reading = document.reading
    partial = {} if reading.partial_bits is None else {"partial_bits": reading.partial_bits}
    return {
        "bits": reading.bits,
        **partial,
        **binding_fields(reading.bindings),
        "granularity": reading.granularity,
        "mapper": document.mapper,
        "model": document.model,
    }


def _claim_fields(claim: Claim) -> dict[str, object]:
    fields: dict[str, object] = {
        "status": claim.status,
        "objective": claim.objective,
        "objective_value": as_written(claim.objective_value),
        "lower_bound": as_written(claim.lower_bound),
    }
    fields |= nested_figures({name: as_written(figure) for name, figure in claim.figures.items()})
    if claim.space:
        fields["space"] = claim.space[STRATEGIES]
    if claim.bound_among is not None:
        fields["bound_among"] = as_written(claim.bound_among)
    return fields


def _json(value: object) -> str:
    return to_json(value, StrategyError)
