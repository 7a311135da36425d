"""The plan of an arena that a TFLite file holds, held against the lives of its tensors. Nothing is searched."""

from __future__ import annotations

from pathlib import Path

from onchip.answer.words import counted
from onchip.api.check_request import AnswerCheck
from onchip.api.pack import PlacedBuffers, Rule, Violation
from onchip.api.phases import phase
from onchip.api.target import CapacityBudget, Target
from onchip.errors import UsageError
from onchip.formats.tflite.arena import read_arena_plan

_SCRATCH = "the scratch buffers of kernels, which the file does not list"


@phase("verifying")
def check_arena_plan(file: Path, network: str, target: Target) -> AnswerCheck | None:
    """Verify that no two tensors of a TFLite file's plan that are needed at once share bytes.

    `target` may state the size of the arena and the alignment of its tensors. Returns None for another kind of file.
    Raises InputError if the file cannot be read, UsageError if the network or target does not fit the file.
    """
    if file.suffix != ".tflite":
        return None
    if Path(network) != file:
        what = f"the plan of {file} is of the network in it"
        raise UsageError(what, place="NETWORK", expected=str(file))
    if target.accelerator is not None or isinstance(target.sram, CapacityBudget):
        what = "an arena is one memory of a size"
        raise UsageError(what, place="target", expected="a memory size, or nothing")
    plan = read_arena_plan(file)
    placed = PlacedBuffers(plan.network, plan.buffers, plan.offsets_bytes, plan.names)
    capacity = placed.end_bytes if target.sram is None else target.sram
    violations = placed.violations(capacity, target.alignment_bytes or 1)
    for name, offset in plan.negative:
        violations.append(Violation(Rule.NEGATIVE_OFFSET, name, f"it is at {offset}; only -1 leaves it to the runtime"))
    if plan.listed != plan.tensors:
        detail = f"{plan.listed} offsets for {plan.tensors} tensors"
        violations.insert(0, Violation(Rule.OFFSETS_MISCOUNTED, plan.network, detail))
    not_checked = [_SCRATCH]
    if plan.ignored:
        not_checked.insert(0, f"the offsets of constants and empty tensors: {', '.join(plan.ignored)}")
    if plan.at_run_time:
        not_checked.insert(0, f"where {counted(len(plan.at_run_time), 'tensor')} will lie, which the runtime decides")
    return AnswerCheck("arena plan", plan.network, "", violations, [placed.figures()], (), not_checked)
