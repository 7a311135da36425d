"""The schedule file: one line for each stack, mapping and instruction, the same bytes for the same schedule.

The fields are those that `schedule_json` reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from onchip.answer.document import Claim, Reading, ScheduleDocument, as_written
from onchip.answer.schedule import ScheduledMapping, ScheduledStack, ScheduleError
from onchip.arch.accelerator import Accelerator
from onchip.formats.canonical import lines, to_json
from onchip.formats.files import write_file
from onchip.formats.own.accelerator_yaml_writer import accelerator_fields
from onchip.formats.own.document_fields import binding_fields, source_fields
from onchip.formats.own.layer_fields import layer_fields, mapping_fields
from onchip.formats.own.program_fields import instruction_fields
from onchip.formats.own.schedule_json import DECISIONS, FIGURES, SCHEDULE_FORMAT, addressed_memories


def write_schedule(document: ScheduleDocument, path: Path) -> None:
    """Writes the schedule file, packed where `path` ends in `.gz`; raises OutputError where it cannot be written."""
    write_file(path, schedule_to_json(document).encode())


def schedule_to_json(document: ScheduleDocument) -> str:
    """Return the text of the schedule's file.

    Raises ScheduleError for names that are not Unicode text, and for a program over other memories than the
    accelerator's addressed ones: the file could not say which.
    """
    schedule = document.answer
    if schedule.program.memories != addressed_memories(document.accelerator):
        names = ", ".join(memory.name for memory in schedule.program.memories)
        expected = f"those that {document.accelerator.name!r} addresses"
        raise ScheduleError(f"the program is over {names or 'no memory'}", place="instructions", expected=expected)
    fields = [
        f'"format": "{SCHEDULE_FORMAT.name}", "version": {SCHEDULE_FORMAT.version}, '
        f'"graph": {_json(source_fields(document.graph))}',
        f'"accelerator": {_accelerator_text(document.accelerator)}',
        f'"reading": {_json(_reading_fields(document.reading))}',
        f'"stacks": [{_lines(_stack_fields(stack) for stack in schedule.stacks)}]',
        f'"mappings": [{_lines(_mapping_fields(mapping) for mapping in schedule.mappings)}]',
        f'"instructions": [{_lines(instruction_fields(line) for line in schedule.program.instructions)}]',
    ]
    if document.claim is not None:
        fields.append(f'"result": {_json(_claim_fields(document.claim))}')
    return "{" + ",\n ".join(fields) + "}\n"


def _accelerator_text(accelerator: Accelerator) -> str:
    """The fields of an accelerator file, with a line for each memory."""
    texts = []
    for name, value in accelerator_fields(accelerator).items():
        text = f"[{_lines(value)}]" if name == "memories" and isinstance(value, list) else _json(value)
        texts.append(f"{_json(name)}: {text}")
    return f"{{{', '.join(texts)}}}"


def _reading_fields(reading: Reading) -> dict[str, object]:
    return {
        "bits": reading.bits,
        "partial_bits": reading.partial_bits,
        **binding_fields(reading.bindings),
        "granularity": reading.granularity,
    }


def _stack_fields(stack: ScheduledStack) -> dict[str, object]:
    operators, tiling = list(stack.operators), stack.tiling
    if tiling is None:
        return {"operators": operators, "tile": None}
    return {"operators": operators, "tile": {"columns": tiling.columns, "rows": tiling.rows}, "mode": tiling.mode}


def _mapping_fields(mapping: ScheduledMapping) -> dict[str, object]:
    fields: dict[str, object] = {
        "stack": mapping.stack,
        "layer": layer_fields(mapping.layer),
        "homes": {str(operand): home for operand, home in mapping.homes},
    }
    return fields | mapping_fields(mapping.mapping)


def _claim_fields(claim: Claim) -> dict[str, object]:
    fields: dict[str, object] = {
        "method": claim.method,
        "status": claim.status,
        "objective": claim.objective,
        "objective_value": as_written(claim.objective_value),
        "lower_bound": as_written(claim.lower_bound),
    }
    fields |= {name: claim.figures[name] for name in FIGURES if name in claim.figures}
    return fields | {"space": {decision: claim.space[decision] for decision in DECISIONS}}


def _lines(values: Iterable[object]) -> str:
    return lines(values, ScheduleError)


def _json(value: object) -> str:
    return to_json(value, ScheduleError)
