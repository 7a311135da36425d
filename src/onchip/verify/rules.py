"""The rules that an answer can break: one list for programs, packings, mappings, stacks and schedules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

UNKNOWN_ENERGY = "unknown, as the accelerator does not state all energies"
"""Text of each claimed energy on a machine that does not state all energies."""


class Rule(StrEnum):
    """The name of each rule that an answer or its claim can break."""

    # Source
    NETWORK_DIFFERS = "network-differs"  # the answer was made for another network
    ACCELERATOR_DIFFERS = "accelerator-differs"  # the answer was made for another accelerator
    LAYER_DIFFERS = "layer-differs"  # the network's layer of this name has another loop nest

    # Names
    UNKNOWN_TENSOR = "unknown-tensor"  # no tensor of the graph has this name (reported once per name)
    UNKNOWN_OPERATOR = "unknown-operator"  # no operator of the graph has this name
    UNKNOWN_MEMORY = "unknown-memory"  # no scratchpad of the problem has this name (reported once per name)
    UNCOUNTED_PARAMETER = "uncounted-parameter"  # a parameter appears, but only activations count (once per name)

    # Residencies
    DRAM_ALLOCATED = "dram-allocated"  # DRAM is allocated or freed; only scratchpads have addresses (once per tensor)
    NEGATIVE_OFFSET = "negative-offset"  # a residency starts below address 0
    MISALIGNED = "misaligned"  # the offset is not a multiple of the scratchpad's alignment
    BEYOND_CAPACITY = "beyond-capacity"  # a residency ends above the scratchpad's capacity
    OVERLAP = "overlap"  # a residency or buffer shares bytes with another one in the same memory
    ALLOCATED_TWICE = "allocated-twice"  # the tensor is already resident in this scratchpad
    OVERWRITTEN_NOT_FREED = "overwritten-not-freed"  # an overwritten input is used before its operator and its Free
    NO_STATE = "no-state"  # a tensor is claimed to hold state of the previous inference, but is not a state
    STATE_NOT_FIRST = "state-not-first"  # a state that stays on chip is not allocated before all other instructions
    STATE_COPIED = "state-copied"  # a state that stays on chip is copied
    STATE_MOVED = "state-moved"  # a state that stays on chip changes or loses its address
    FREED_NOT_RESIDENT = "freed-not-resident"  # the tensor freed is not resident in this scratchpad
    PLACEMENT_NOT_STATIC = "placement-not-static"  # several residencies of a tensor, one over more than one operator

    # Transfers
    COPY_TO_ITSELF = "copy-to-itself"  # source and target are the same memory
    NO_LINK = "no-link"  # no link leads from the source scratchpad to the target scratchpad
    NOT_IN_DRAM = "not-in-dram"  # a load of a tensor that has no copy in DRAM
    SOURCE_NOT_RESIDENT = "source-not-resident"  # a copy out of a scratchpad in which the tensor is not resident
    SOURCE_UNDEFINED = "source-undefined"  # a copy out of a residency that has not been written
    TARGET_NOT_ALLOCATED = "target-not-allocated"  # a copy into a scratchpad in which the tensor is not resident
    OUTPUT_WRITTEN_AGAIN = "output-written-again"  # a network output is written to DRAM more than once
    OUTPUT_NEVER_WRITTEN = "output-never-written"  # a network output is never written to DRAM
    NON_COMPULSORY_TRAFFIC = "non-compulsory-traffic"  # a plan without spills makes a transfer that is not compulsory

    # Operators
    OPERAND_NOT_RESIDENT = "operand-not-resident"  # an operator's input is in no scratchpad
    OPERAND_NOT_HELD = "operand-not-held"  # an input is resident, but only in memories that do not serve such operands
    OPERAND_UNDEFINED = "operand-undefined"  # an input is resident in a suitable memory, but has not been written there
    OUTPUT_NOT_RESIDENT = "output-not-resident"  # an operator's output is allocated in no scratchpad
    OUTPUT_IN_SEVERAL = "output-in-several"  # an output is allocated in several scratchpads; an operator writes one
    OUTPUT_NOT_HELD = "output-not-held"  # an output is allocated, but only in memories that do not serve outputs
    OPERATOR_RUN_TWICE = "operator-run-twice"  # an operator runs again, and must not
    RECOMPUTED_IN_USE = "recomputed-in-use"  # a rematerialised output is already written at its address
    OPERATOR_NEVER_RUN = "operator-never-run"  # an operator never runs
    OUT_OF_ORDER = "out-of-order"  # an operator runs after one that the given order puts later

    # Claims
    OBJECTIVE_DIFFERS = "objective-differs"  # the objective value claimed is not the plan's
    BOUND_ABOVE_OBJECTIVE = "bound-above-objective"  # the lower bound claimed exceeds the objective value claimed
    OPTIMAL_UNPROVEN = "optimal-unproven"  # OPTIMAL is claimed with a lower bound below the objective value
    ANSWER_DENIED = "answer-denied"  # the claimed status denies an answer that exists
    FIGURE_DIFFERS = "figure-differs"  # a claimed figure differs from the recomputed one

    # Packings
    FIXED_MOVED = "fixed-moved"  # a buffer with a fixed offset is elsewhere
    OFFSETS_MISCOUNTED = "offsets-miscounted"  # the number of offsets is not the number of buffers
    ARENA_MISCOUNTED = "arena-miscounted"  # the claimed arena size is not the highest end of a buffer
    OUTSIDE_MISCOUNTED = "outside-miscounted"  # the claimed bytes left out are not the sum of the sizes left out

    # Mappings
    TOO_FEW_ITERATIONS = "too-few-iterations"  # the loops of a dimension have a product below its bound
    TOO_MANY_ITERATIONS = "too-many-iterations"  # the product is above the bound, and padding is not allowed
    NO_SUCH_DIMENSION = "no-such-dimension"  # a spatial loop runs along a dimension that the array does not have
    NOT_UNROLLED = "not-unrolled"  # the dimension of the array does not unroll that loop
    ARRAY_EXCEEDED = "array-exceeded"  # a spatial unrolling exceeds the units of an array dimension
    NO_SUCH_MEMORY = "no-such-memory"  # an operand is kept in a memory that does not exist
    NO_SUCH_OPERAND = "no-such-operand"  # the layer does not have the operand that is kept
    NOT_HELD = "not-held"  # the memory does not hold the operand, or the map between stacks
    MISPLACED = "misplaced"  # the memories of an operand are not in the order of the accelerator's levels
    CAPACITY_EXCEEDED = "capacity-exceeded"  # the tiles of all operands together exceed a memory's capacity

    # Stacks
    UNKNOWN_LAYER = "unknown-layer"  # the network has no layer of this name
    LAYER_MISSING = "layer-missing"  # a layer has no stack or mapping, or an operator outside is not listed
    OVER_A_BRANCH = "over-a-branch"  # an inner output of a stack is read outside of it
    OUTPUT_LOST = "output-lost"  # an output of the network is written inside a stack, not by its last operator
    CHANNELS_OF_SOME_PIXELS = "channels-of-some-pixels"  # a tile of channels lacks pixels of the last feature map
    TILE_EXCEEDS_MAP = "tile-exceeds-map"  # a tile is larger than the stack's last feature map
    NO_SUCH_HOME = "no-such-home"  # the home of a map between stacks does not exist
    HOME_EXCEEDED = "home-exceeded"  # the maps that are in a memory at once exceed its capacity
    OUTPUT_NOT_IN_DRAM = "output-not-in-dram"  # an output of the network, or a map without readers, is on the chip
    OPERATOR_IN_NO_STACK = "operator-in-no-stack"  # an operator of the network is in no stack
    STACK_NOT_CONVEX = "stack-not-convex"  # a path of the network leaves the stack and comes back

    # Tiles of a schedule's stacks
    NOT_IN_TILES = "not-in-tiles"  # a stack cannot run in tiles, makes too many, or the names of its tiles are taken
    TOO_MANY_TILES = "too-many-tiles"  # there are more tile operators than a schedule may have
    TENSOR_DIFFERS = "tensor-differs"  # a tensor is neither one of the network nor a band of one
    BANDS_DO_NOT_PARTITION = "bands-do-not-partition"  # bands of a tensor computed once overlap, or leave a gap
    TILE_DIFFERS = "tile-differs"  # a tile operator is not the part of a network operator that its position requires
    TILE_MISSING = "tile-missing"  # no tile operator computes some part of a stack's output
    TILE_OUT_OF_ORDER = "tile-out-of-order"  # a tile operator stands after one that runs later
    REGION_NOT_WRITTEN = "region-not-written"  # the bands that a tile operator writes are not its region
    WINDOW_NOT_READ = "window-not-read"  # the bands that a tile operator reads do not cover its input windows
    PARAMETERS_DIFFER = "parameters-differ"  # a tile operator does not read the parameters of its kind

    # Homes, mappings and workspaces
    TENSOR_NOT_HELD = "tensor-not-held"  # a tensor is allocated in a memory that may not hold it
    OUTPUT_APART = "output-apart"  # some bands of an output are resident in a memory, and others are not
    MAPPING_MISSING = "mapping-missing"  # no mapping exists for this loop nest of this stack with these homes
    MAPPING_UNUSED = "mapping-unused"  # no Compute uses this mapping
    WORKSPACE_MISSING = "workspace-missing"  # an operator runs without the workspace that its mapping needs
    WORKSPACE_NOT_NEEDED = "workspace-not-needed"  # the operator's mapping needs no workspace in this memory
    WORKSPACE_STAYS = "workspace-stays"  # a workspace is resident while another operator runs
    WORKSPACE_COPIED = "workspace-copied"  # a workspace moves

    # Plug-ins
    OUTSIDE_CHECK_FAILED = "outside-check-failed"  # a check added by a plug-in has found a fault


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule broken at one position.

    `subject` is the tensor, operator, memory, buffer, loop, operand, stack or field concerned. `instruction` is an
    index into `Plan.instructions`, and `step` the number of operators that ran before it. Both are None if the
    violation concerns the whole answer, or an answer without instructions.
    """

    rule: Rule
    subject: str
    detail: str
    instruction: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        places = (("step", self.step), ("instruction", self.instruction))
        where = "".join(f"{what} {number}, " for what, number in places if number is not None)
        return f"{self.rule}: {where}{self.subject!r}: {self.detail}"
