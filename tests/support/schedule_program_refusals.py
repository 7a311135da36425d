"""The nearest legal and the nearest illegal schedule for each rule of programs of schedules."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.schedule import Homes, ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.verify.rules import Rule
from support.schedule_cases import (
    ACTIVATIONS,
    CONV1,
    CONV2,
    HALF,
    RESIDENT,
    STREAMED,
    STREAMED_HOMES,
    TILED,
    ScheduleCase,
    level,
    machine,
    mapped,
    tensor,
    whole_stacks,
)
from support.schedule_refusal import refusal
from support.schedule_structure_refusals import FORKED

SPILLED = ScheduleCase(
    whole_stacks("conv1", "conv2"),
    (mapped(0, CONV1, Homes(None, None, "near")), mapped(1, CONV2, STREAMED_HOMES)),
    """
    allocate a near 0
    allocate conv1@workspace near 32
    compute conv1
    free conv1@workspace near
    copy a near dram
    free a near
    compute conv2
    """,
)
BANDED = ScheduleCase(
    (ScheduledStack(("conv1",)), ScheduledStack(("conv2",), Tiling(4, 2, OverlapMode.RECOMPUTE))),
    (mapped(0, CONV1, Homes(None, None, "near")), mapped(1, replace(CONV2, p=2), Homes("near", None, None))),
    """
    allocate a[:,:,0:2,:] near 0
    allocate a[:,:,2:4,:] near 16
    allocate conv1@workspace near 32
    compute conv1
    free conv1@workspace near
    compute conv2#0
    compute conv2#1
    """,
)
ROWS = ScheduleCase(
    whole_stacks("f"),
    (),
    """
    allocate f@workspace far 0
    compute f
    free f@workspace far
    """,
    Graph(
        "rows",
        (tensor("x", (2, 6), Role.INPUT), tensor("y", (2, 6), Role.OUTPUT)),
        (Operator("f", "Softmax", ("x",), ("y",)),),
    ),
)
"""An operator without a loop nest: its workspace in far has a row of its input and of its output, both streamed."""
WEIGHED = STREAMED.of(
    accelerator=machine(level("near", 128, 1.0, ACTIVATIONS), level("weights", 64, 2.0, (Operand.WEIGHT,))),
    mappings=(mapped(0, CONV1, Homes(None, "weights", None)), STREAMED.mappings[1]),
    program="allocate w1 weights 0\ncopy w1 dram weights\ncompute conv1\ncompute conv2",
)
READ_TWICE = FORKED.of(
    mappings=(replace(FORKED.mappings[0], homes=Homes(None, None, "near")), *FORKED.mappings[1:]),
    program="allocate a near 0\ncompute f\ncopy a near dram\nfree a near\ncompute g\ncompute h\ncompute add",
)
NO_OUTPUTS_NEAR = machine(level("near", 128, 1.0, (Operand.INPUT,)), level("far", 256, 2.0))

_PROGRAM = (
    refusal(
        (Rule.MAPPING_UNUSED, Rule.OPERATOR_NEVER_RUN, Rule.OUTPUT_NEVER_WRITTEN),
        "every tile operator",
        (STREAMED, STREAMED.edited(1)),
        "mapping 1",
    ),
    refusal(Rule.OUTPUT_NEVER_WRITTEN, "network outputs in DRAM", (RESIDENT, RESIDENT.edited(16)), "y"),
    refusal(Rule.WORKSPACE_MISSING, "rows of what streams", (ROWS, ROWS.edited(2).edited(0)), "f@workspace"),
    refusal(
        Rule.WORKSPACE_NOT_NEEDED,
        "no rows of what is resident",
        (
            ROWS,
            ROWS.edited(
                0, "allocate x far 12", "copy x dram far", "allocate y far 24", "allocate f@workspace far 0"
            ).edited(5, "free f@workspace far", "copy y far dram"),
        ),
        "f@workspace",
    ),
    refusal(
        Rule.TENSOR_NOT_HELD,
        "a parameter where weights are held",
        (RESIDENT, RESIDENT.edited(0, "allocate w2 near 112", "allocate x near 0")),
        "w2",
    ),
    refusal(Rule.NOT_IN_DRAM, "what streams has a copy in DRAM", (SPILLED, SPILLED.edited(4)), "a"),
    refusal(Rule.NOT_IN_DRAM, "what streams twice has a copy in DRAM", (READ_TWICE, READ_TWICE.edited(2)), "a"),
    refusal(
        Rule.OUTPUT_IN_SEVERAL,
        "an output in one memory",
        (RESIDENT, RESIDENT.edited(5, "allocate a far 32", "allocate conv1@workspace near 48")),
        "a",
    ),
    refusal(
        (Rule.MAPPING_MISSING, Rule.OUTPUT_APART),
        "all bands of an output in one memory",
        (BANDED, BANDED.edited(1, "allocate a[:,:,2:4,:] far 16")),
        "conv2#1",
    ),
    refusal(
        (Rule.NOT_HELD, Rule.NOT_HELD, Rule.OUTPUT_NOT_HELD, Rule.OUTPUT_NOT_HELD),
        "an output where outputs are held",
        (RESIDENT, replace(RESIDENT, accelerator=NO_OUTPUTS_NEAR)),
        "mapping 0",
    ),
    refusal(
        Rule.OUTPUT_WRITTEN_AGAIN,
        "an output that streams is in DRAM",
        (STREAMED, STREAMED.edited(1, "compute conv2", "allocate y near 0", "copy y dram near", "copy y near dram")),
        "y",
    ),
    refusal(
        (Rule.MAPPING_MISSING, Rule.MAPPING_UNUSED, Rule.TENSOR_NOT_HELD),
        "a parameter where weights alone are held",
        (WEIGHED, WEIGHED.edited(1, "copy w1 dram near").edited(0, "allocate w1 near 0")),
        "conv1",
    ),
    refusal(
        Rule.OUT_OF_ORDER,
        "tiles in the order of the tile graph",
        (TILED, TILED.edited(2).edited(1, "compute conv1#1", "compute conv2#0")),
        "conv2#0",
    ),
    refusal(
        Rule.WORKSPACE_MISSING, "a workspace for its sums", (RESIDENT, RESIDENT.edited(7).edited(5)), "conv1@workspace"
    ),
    refusal(
        Rule.WORKSPACE_NOT_NEEDED,
        "a workspace where its mapping needs one",
        (RESIDENT, RESIDENT.edited(5, "allocate conv1@workspace far 100", "allocate conv1@workspace near 48")),
        "conv1@workspace",
    ),
    refusal(Rule.WORKSPACE_STAYS, "freed before the next Compute", (HALF, HALF.edited(5)), "conv1@workspace"),
    refusal(
        Rule.WORKSPACE_STAYS,
        "allocated after the Compute before",
        (HALF, HALF.edited(6).edited(3, "allocate conv1@workspace near 32", "allocate conv2@workspace far 0")),
        "conv2@workspace",
    ),
    refusal(
        Rule.WORKSPACE_COPIED,
        "no copy of a workspace",
        (RESIDENT, RESIDENT.edited(6, "compute conv1", "copy conv1@workspace near dram")),
        "conv1@workspace",
    ),
    refusal(
        Rule.FREED_NOT_RESIDENT,
        "a workspace freed once",
        (RESIDENT, RESIDENT.edited(7, "free conv1@workspace near", "free conv1@workspace near")),
        "conv1@workspace",
    ),
    refusal(
        Rule.OVERLAP,
        "a workspace beside all else",
        (RESIDENT, RESIDENT.edited(5, "allocate conv1@workspace near 47")),
        "conv1@workspace",
    ),
    refusal(
        Rule.BEYOND_CAPACITY,
        "a workspace within its memory",
        (
            RESIDENT.edited(5, "allocate conv1@workspace near 64").of(claim=None),
            RESIDENT.edited(5, "allocate conv1@workspace near 65"),
        ),
        "conv1@workspace",
    ),
    refusal(
        Rule.DRAM_ALLOCATED,
        "a workspace on the chip",
        (RESIDENT, RESIDENT.edited(5, "allocate conv1@workspace dram 0", "allocate conv1@workspace near 48")),
        "conv1@workspace",
    ),
    refusal(
        Rule.UNKNOWN_MEMORY,
        "a workspace in an addressed memory",
        (RESIDENT, RESIDENT.edited(5, "allocate conv1@workspace register 0", "allocate conv1@workspace near 48")),
        "register",
    ),
    refusal(
        Rule.UNKNOWN_TENSOR,
        "a workspace of an operator",
        (RESIDENT, RESIDENT.edited(5, "allocate conv3@workspace far 100", "allocate conv1@workspace near 48")),
        "conv3@workspace",
    ),
)


PROGRAM_REFUSALS = _PROGRAM
