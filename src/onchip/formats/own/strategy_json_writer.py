"""The strategy file: one line for each stack, the same bytes for the same strategy.

The fields are those that `strategy_json` reads.
"""

from __future__ import annotations

from pathlib import Path

from onchip.answer.document import Source
from onchip.answer.stacks import StackStrategy, StrategyError
from onchip.answer.strategy_document import StrategyClaim, StrategyDocument, StrategyReading
from onchip.arch.memory import DRAM
from onchip.formats.canonical import to_json
from onchip.formats.files import write_file
from onchip.formats.own.strategy_json import STRATEGY_FORMAT
from onchip.formats.validation import LARGEST_INTEGER


def write_strategy(document: StrategyDocument, path: Path) -> None:
    """Writes the strategy file; raises InputError where it cannot be written."""
    write_file(path, strategy_to_json(document).encode())


def strategy_to_json(document: StrategyDocument) -> str:
    """The strategy file's text; raises StrategyError for what is not Unicode text or no finite number."""
    stacks = ",".join(f"\n  {_json(stack_fields(stack))}" for stack in document.strategy.stacks)
    fields = [
        f'"format": "{STRATEGY_FORMAT.name}", "version": {STRATEGY_FORMAT.version}, '
        f'"network": {_json(_source_fields(document.network))}, '
        f'"accelerator": {_json(_source_fields(document.accelerator))}',
        f'"reading": {_json(_reading_fields(document.reading))}',
        f'"stacks": [{stacks}]',
    ]
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


def _source_fields(source: Source) -> dict[str, object]:
    fields: dict[str, object] = {"name": source.name, "sha256": source.sha256}
    return {name: value for name, value in fields.items() if value is not None}


def _reading_fields(reading: StrategyReading) -> dict[str, object]:
    partial = {} if reading.partial_bits is None else {"partial_bits": reading.partial_bits}
    return {
        "bits": reading.bits,
        **partial,
        "dims": dict(sorted(reading.dims.items())),
        "granularity": reading.granularity,
        "mapper": reading.mapper,
        "model": reading.model,
    }


def _claim_fields(claim: StrategyClaim) -> dict[str, object]:
    figures = claim.figures
    fields: dict[str, object] = {
        "status": claim.status,
        "objective": claim.objective,
        "objective_value": _readable(figures.objective_value),
        "lower_bound": _readable(claim.lower_bound),
        "energy_pj": _readable(figures.energy_pj),
        "latency_cycles": _readable(figures.latency_cycles),
        "macs": figures.macs,
        "dram_bits": figures.dram_bits,
    }
    return fields | {"space": claim.space} if claim.space else fields


def _readable(value: float) -> float:
    """Integers beyond 64 bits, as products of energy and cycles may be, are no longer exact."""
    return value if abs(value) <= LARGEST_INTEGER else float(value)


def _json(value: object) -> str:
    return to_json(value, StrategyError)
