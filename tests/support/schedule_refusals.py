"""The nearest legal and the nearest illegal schedule for each rule of structure, programs, mappings and claims."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.result import Status
from onchip.answer.schedule import Homes, ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.ir.tile import JoinedPart
from onchip.ops.layers_of import Precision
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.rules import Rule
from support.schedule_cases import (
    ACTIVATIONS,
    CONV1,
    CONV2,
    FORK,
    HALF,
    PAIR,
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


@dataclass(frozen=True)
class ScheduleRefusal:
    """`illegal` breaks `rules` and nothing else; the first violation has the subject `subject`."""

    rules: tuple[Rule, ...]
    what: str
    legal: ScheduleCase
    illegal: ScheduleCase
    subject: str

    def __str__(self) -> str:
        return f"{self.rules[0]}: {self.what}".replace(" ", "-")


def refusal(
    rule: Rule | tuple[Rule, ...], what: str, cases: tuple[ScheduleCase, ScheduleCase], subject: str
) -> ScheduleRefusal:
    return ScheduleRefusal((rule,) if isinstance(rule, Rule) else rule, what, *cases, subject)


RELU = Layer(p=4, q=4, has_weight=False)
SUM = Layer(g=16)
FORKED = ScheduleCase(
    whole_stacks("f", "g", "h", "add"),
    (*(mapped(number, RELU, STREAMED_HOMES) for number in range(3)), mapped(3, SUM, STREAMED_HOMES)),
    "compute f\ncompute g\ncompute h\ncompute add",
    FORK,
)
ADDED_AT_HOME = replace(
    FORKED,
    mappings=(*FORKED.mappings[:3], mapped(3, SUM, Homes("near", "near", None))),
    program="""
    compute f
    compute g
    compute h
    allocate a near 0
    copy a dram near
    allocate c near 16
    copy c dram near
    compute add
    """,
)
"""An addition whose second map is its nest's weight, in a memory that holds inputs but no weights."""
_ONE_TILE = Tiling(4, 4, OverlapMode.RECOMPUTE)


def _stacks(case: ScheduleCase, *stacks: tuple[str, ...]) -> ScheduleCase:
    found = tuple(ScheduledStack(names, None if len(names) == 1 else _ONE_TILE) for names in stacks)
    return replace(case, stacks=found)


def _tiled(columns: int, rows: int) -> ScheduleCase:
    stack = ScheduledStack(("conv1", "conv2"), Tiling(columns, rows, OverlapMode.RECOMPUTE))
    return replace(TILED, stacks=(stack,))


def _slices(columns: int, rows: int, channels: int) -> ScheduleCase:
    tiling = Tiling(columns, rows, OverlapMode.RECOMPUTE, channels)
    return replace(STREAMED, stacks=(ScheduledStack(("conv1",), tiling), *STREAMED.stacks[1:]))


ONE_TILE = replace(
    _tiled(4, 4),
    mappings=(mapped(0, CONV1, STREAMED_HOMES), mapped(0, CONV2, STREAMED_HOMES)),
    program="compute conv1\ncompute conv2",
)
FORKED_STACK = replace(
    _stacks(FORKED, ("f", "g", "h", "add")), mappings=(mapped(0, RELU, STREAMED_HOMES), mapped(0, SUM, STREAMED_HOMES))
)
FORK_OF_TWO_OUTPUTS = replace(
    FORK, tensors=tuple(replace(one, role=Role.OUTPUT) if one.name == "c" else one for one in FORK.tensors)
)

_STACKS = (
    refusal(
        Rule.UNKNOWN_OPERATOR,
        "a stack of an operator that the network has",
        (STREAMED, replace(STREAMED, stacks=(*STREAMED.stacks, ScheduledStack(("conv3",))))),
        "conv3",
    ),
    refusal(
        Rule.OPERATOR_IN_NO_STACK,
        "every operator in a stack",
        (STREAMED, replace(STREAMED, stacks=STREAMED.stacks[:1], tiles=PAIR)),
        "conv2",
    ),
    refusal(
        Rule.OUT_OF_ORDER,
        "stacks in an order in which they can run",
        (STREAMED, replace(STREAMED, stacks=STREAMED.stacks[::-1])),
        "conv2",
    ),
    refusal(
        (Rule.STACK_NOT_CONVEX, Rule.OVER_A_BRANCH),
        "no path that leaves a stack and comes back",
        (FORKED_STACK, _stacks(FORKED, ("f", "h", "add"), ("g",))),
        "stack 0",
    ),
    refusal(
        Rule.OVER_A_BRANCH,
        "what is written inside is read inside",
        (FORKED_STACK, _stacks(FORKED, ("f", "g"), ("h", "add"))),
        "f",
    ),
    refusal(
        Rule.OUTPUT_LOST,
        "no inner output leaves the network",
        (FORKED_STACK, replace(FORKED_STACK, network=FORK_OF_TWO_OUTPUTS)),
        "h",
    ),
    refusal(Rule.TILE_EXCEEDS_MAP, "tiles as wide as the map", (ONE_TILE, _tiled(5, 4)), "stack 0"),
    refusal(Rule.TILE_EXCEEDS_MAP, "tiles as high as the map", (ONE_TILE, _tiled(4, 5)), "stack 0"),
    refusal(Rule.TILE_EXCEEDS_MAP, "tiles of all channels of the map", (_slices(4, 4, 2), _slices(4, 4, 3)), "stack 0"),
    refusal(
        Rule.CHANNELS_OF_SOME_PIXELS, "tiles of channels with all rows", (_slices(4, 4, 2), _slices(4, 3, 2)), "stack 0"
    ),
    refusal(
        Rule.CHANNELS_OF_SOME_PIXELS,
        "tiles of channels with all columns",
        (_slices(4, 4, 2), _slices(3, 4, 2)),
        "stack 0",
    ),
)

_LAST = TILED.tile_graph.operator["conv2#1"]
_FIRST = TILED.tile_graph.operator["conv1#0"]
assert _LAST.tile is not None
assert _FIRST.tile is not None
_SWAPPED = replace(
    TILED.tile_graph,
    operators=tuple(TILED.tile_graph.operator[name] for name in ("conv1#1", "conv2#1", "conv1#0", "conv2#0")),
)
_UNFINISHED = replace(
    TILED.tile_graph,
    tensors=tuple(one for one in TILED.tile_graph.tensors if one.name not in (*_LAST.inputs, *_LAST.outputs)),
    operators=TILED.tile_graph.operators[:2],
)
_TWICE = replace(
    TILED.tile_graph,
    tensors=(*TILED.tile_graph.tensors, replace(TILED.tile_graph.tensor["y[:,:,2:4,:]"], name="again")),
    operators=(*TILED.tile_graph.operators, replace(_LAST, name="conv2#01", outputs=("again",))),
)
_BIAS = (*PAIR.tensors, replace(PAIR.tensor["w2"], name="bias", shape=(1,), size_bytes=1))
BIASED = replace(
    PAIR, tensors=_BIAS, operators=(PAIR.operators[0], replace(PAIR.operators[1], parameters=("w2", "bias")))
)
_WITH_BIAS = replace(STREAMED, network=BIASED, tiles=replace(PAIR, tensors=_BIAS, operators=BIASED.operators))

_TILES = (
    refusal(
        Rule.TENSOR_DIFFERS,
        "a tensor of the network",
        (TILED, TILED.with_tensor("x[:,:,0:1,:]", part_of="ghost")),
        "x[:,:,0:1,:]",
    ),
    refusal(
        Rule.TENSOR_DIFFERS,
        "the network's own sizes",
        (STREAMED, replace(STREAMED, tiles=PAIR).with_tensor("a", shape=(1, 2, 4, 3), size_bytes=24)),
        "a",
    ),
    refusal(
        Rule.TENSOR_DIFFERS,
        "the network's own roles",
        (TILED, TILED.with_tensor("y[:,:,0:2,:]", role=Role.ACTIVATION)),
        "y[:,:,0:2,:]",
    ),
    refusal(
        Rule.TENSOR_DIFFERS,
        "the bytes of a band's region",
        (TILED, TILED.with_tensor("x[:,:,0:1,:]", shape=(1, 1, 1, 5), size_bytes=5)),
        "x[:,:,0:1,:]",
    ),
    refusal(
        Rule.TENSOR_DIFFERS,
        "a region inside its tensor",
        (TILED, TILED.with_tensor("x[:,:,3:4,:]", region=((0, 1), (0, 1), (3, 4), (1, 5)))),
        "x[:,:,3:4,:]",
    ),
    refusal(
        (Rule.BANDS_DO_NOT_PARTITION,),
        "inputs in bands that make them up",
        (
            TILED,
            TILED.with_tensor(
                "x[:,:,0:1,:]", shape=(1, 1, 2, 4), size_bytes=8, region=((0, 1), (0, 1), (0, 2), (0, 4))
            ),
        ),
        "x",
    ),
    refusal(
        Rule.TILE_DIFFERS,
        "the kind of its operator",
        (TILED, TILED.with_tile("conv2#1", kind="QLinearConv")),
        "conv2#1",
    ),
    refusal(
        Rule.TILE_DIFFERS,
        "the attributes of its operator",
        (TILED, TILED.with_tile("conv2#1", attributes={"kernel_shape": [1, 1], "group": 1})),
        "conv2#1",
    ),
    refusal(
        Rule.TILE_DIFFERS,
        "an operator of the network",
        (TILED, TILED.with_tile("conv2#1", tile=replace(_LAST.tile, operator="conv3"))),
        "conv2#1",
    ),
    refusal(
        Rule.TILE_DIFFERS,
        "the part that its number says",
        (TILED, TILED.with_tile("conv2#1", tile=replace(_LAST.tile, regions=(((0, 1), (0, 1), (1, 4), (0, 4)),)))),
        "conv2#1",
    ),
    refusal(
        (Rule.TILE_MISSING, Rule.BANDS_DO_NOT_PARTITION),
        "all that leaves the stack",
        (TILED, replace(TILED, tiles=_UNFINISHED)),
        "conv2",
    ),
    refusal(
        (Rule.TILE_OUT_OF_ORDER,) * 2,
        "tiles from left to right, then down",
        (TILED, replace(TILED, tiles=_SWAPPED)),
        "conv1#0",
    ),
    refusal(
        (Rule.TILE_OUT_OF_ORDER, Rule.BANDS_DO_NOT_PARTITION),
        "each tile once",
        (TILED, replace(TILED, tiles=_TWICE)),
        "conv2#01",
    ),
    refusal(
        Rule.REGION_NOT_WRITTEN,
        "all that it computes",
        (TILED, TILED.with_tile("conv1#0", tile=replace(_FIRST.tile, regions=(((0, 1), (0, 2), (0, 1), (0, 4)),)))),
        "conv1#0",
    ),
    refusal(
        Rule.WINDOW_NOT_READ,
        "the halo that its windows see",
        (TILED, TILED.with_tile("conv1#0", inputs=("x[:,:,0:1,:]",))),
        "conv1#0",
    ),
    refusal(
        Rule.PARAMETERS_DIFFER, "the weight, and no bias", (replace(STREAMED, network=BIASED), _WITH_BIAS), "conv2"
    ),
)

JOIN = Graph(
    "join",
    (
        tensor("x", (1, 1, 4, 4), Role.INPUT),
        *(tensor(name, (1, 1, 4, 4)) for name in "ab"),
        tensor("c", (1, 2, 4, 4)),
        tensor("y", (1, 2, 4, 4), Role.OUTPUT),
    ),
    (
        Operator("f", "Relu", ("x",), ("a",)),
        Operator("g", "Relu", ("x",), ("b",)),
        Operator("join", "Concat", ("a", "b"), ("c",), (), {"axis": 1}),
        Operator("h", "Relu", ("c",), ("y",)),
    ),
)
BOTH = Layer(g=2, p=4, q=4, has_weight=False)
JOINED = ScheduleCase(
    whole_stacks("f", "g", "join", "h"),
    (mapped(0, RELU, STREAMED_HOMES), mapped(1, RELU, STREAMED_HOMES), mapped(3, BOTH, STREAMED_HOMES)),
    "compute f\ncompute g\ncompute h",
    JOIN,
    tiles=tile_graph(JOIN, whole_stacks("f", "g", "join", "h"), Precision(8), {"join"}).graph,
)
"""A concatenation of two maps that is not made; h reads both maps."""
_READER = JOINED.tile_graph.operator["h"]
assert _READER.tile is not None
_A, _B = JoinedPart("c", "a", 0), JoinedPart("c", "b", 1)


def _sees(*parts: JoinedPart) -> ScheduleCase:
    assert _READER.tile is not None
    return JOINED.with_tile("h", tile=replace(_READER.tile, joined=parts))


def _joined(**changes: object) -> ScheduleCase:
    """Return the same tiles for a network with another concatenation."""
    operators = tuple(
        replace(one, **changes) if one.name == "join" else one  # type: ignore[arg-type]
        for one in JOIN.operators
    )
    return replace(JOINED, network=replace(JOIN, operators=operators))


_JOINS = (
    refusal(
        Rule.TILE_DIFFERS,
        "parts in their order",
        (JOINED, _sees(replace(_A, first_channel=1), replace(_B, first_channel=0))),
        "h",
    ),
    refusal(Rule.TILE_DIFFERS, "parts that do not overlap", (JOINED, _sees(_A, replace(_B, first_channel=0))), "h"),
    refusal(Rule.TILE_DIFFERS, "all parts of what is joined", (JOINED, _sees(_A)), "h"),
    refusal(Rule.WINDOW_NOT_READ, "the last part that is seen", (JOINED, JOINED.with_tile("h", inputs=("a",))), "h"),
    refusal(Rule.WINDOW_NOT_READ, "the first part that is seen", (JOINED, JOINED.with_tile("h", inputs=("b",))), "h"),
    refusal(
        (Rule.TILE_DIFFERS, Rule.TILE_MISSING),
        "maps joined along their channels",
        (JOINED, _joined(attributes={"axis": 2})),
        "h",
    ),
    refusal(
        (Rule.TILE_DIFFERS, Rule.TILE_MISSING),
        "a concatenation that costs nothing",
        (JOINED, _joined(workspace_bytes=1)),
        "h",
    ),
    refusal((Rule.TILE_DIFFERS, Rule.TILE_MISSING), "each part seen once", (JOINED, _joined(inputs=("a", "a"))), "h"),
    refusal(
        (Rule.NOT_IN_DRAM, Rule.OUT_OF_ORDER),
        "parts written before they are read",
        (JOINED, JOINED.edited(2).edited(1, "compute h", "compute g")),
        "b",
    ),
)


STRUCTURE_REFUSALS = (*_STACKS, *_TILES, *_JOINS)


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


_MAPPINGS = (
    refusal(
        Rule.MAPPING_MISSING,
        "a mapping for every loop nest",
        (STREAMED, replace(STREAMED, mappings=STREAMED.mappings[:1])),
        "conv2",
    ),
    refusal(
        (Rule.MAPPING_MISSING, Rule.MAPPING_UNUSED),
        "a mapping of its stack",
        (STREAMED, replace(STREAMED, mappings=(STREAMED.mappings[0], replace(STREAMED.mappings[1], stack=0)))),
        "conv2",
    ),
    refusal(
        (Rule.MAPPING_MISSING, Rule.MAPPING_UNUSED),
        "a mapping at its homes",
        (STREAMED, STREAMED.edited(0, "allocate w1 far 0", "copy w1 dram far", "compute conv1")),
        "conv1",
    ),
    refusal(
        Rule.MAPPING_UNUSED,
        "mappings that something runs by",
        (STREAMED, replace(STREAMED, mappings=(*STREAMED.mappings, mapped(1, CONV1, STREAMED_HOMES)))),
        "mapping 2",
    ),
    refusal(
        Rule.TOO_FEW_ITERATIONS,
        "loops as long as the layer's",
        (
            STREAMED,
            replace(
                STREAMED,
                mappings=(
                    STREAMED.mappings[0],
                    replace(STREAMED.mappings[1], mapping=LayerMapping((Loop("P", 4), Loop("Q", 4)))),
                ),
            ),
        ),
        "mapping 1, C",
    ),
    refusal(
        Rule.MISPLACED,
        "tiles nearer the MACs than the home",
        (
            HALF,
            replace(
                HALF,
                mappings=(
                    mapped(0, CONV1, Homes(None, "far", "near"), input=[Kept("near", 4)], weight=[Kept("far", 5)]),
                    HALF.mappings[1],
                ),
            ),
        ),
        "mapping 0, weight",
    ),
)

_CLAIMS = (
    refusal(
        Rule.OBJECTIVE_DIFFERS,
        "the energy of the schedule",
        (RESIDENT, RESIDENT.claimed(objective_value=723_001, lower_bound=723_001)),
        "result.objective_value",
    ),
    refusal(
        Rule.OBJECTIVE_DIFFERS,
        "energy times latency",
        (
            RESIDENT.claimed(objective="edp", objective_value=723_000 * 80, lower_bound=723_000 * 80),
            RESIDENT.claimed(objective="edp", objective_value=723_000 * 81, lower_bound=723_000 * 81),
        ),
        "result.objective_value",
    ),
    refusal(
        Rule.FIGURE_DIFFERS,
        "the energy in picojoules",
        (RESIDENT, RESIDENT.claimed(figures={"energy_pj": 723.001, "latency_cycles": 80, "traffic_bytes": 52})),
        "result.energy_pj",
    ),
    refusal(
        Rule.FIGURE_DIFFERS,
        "the end of the timeline",
        (RESIDENT, RESIDENT.claimed(figures={"energy_pj": 723.0, "latency_cycles": 79, "traffic_bytes": 52})),
        "result.latency_cycles",
    ),
    refusal(
        Rule.FIGURE_DIFFERS,
        "the bytes from and to DRAM",
        (RESIDENT, RESIDENT.claimed(figures={"energy_pj": 723.0, "latency_cycles": 80, "traffic_bytes": 53})),
        "result.traffic_bytes",
    ),
    refusal(
        Rule.BOUND_ABOVE_OBJECTIVE,
        "a bound that is none",
        (RESIDENT, RESIDENT.claimed(lower_bound=723_001)),
        "result.lower_bound",
    ),
    refusal(
        Rule.OPTIMAL_UNPROVEN,
        "a bound that proves it",
        (RESIDENT, RESIDENT.claimed(lower_bound=722_999)),
        "result.status",
    ),
    refusal(
        Rule.ANSWER_DENIED,
        "a status that there is an answer",
        (RESIDENT, RESIDENT.claimed(status=Status.INFEASIBLE)),
        "result.status",
    ),
)


CLAIM_REFUSALS = (*_MAPPINGS, *_CLAIMS)
