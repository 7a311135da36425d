"""What an answer can get wrong, and where it did: one list for programs, packings, mappings, stacks and schedules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

UNKNOWN_ENERGY = "unknown, as the accelerator does not state all energies"
"""Stated of each claimed energy on such a machine."""


class Rule(StrEnum):
    """The name of each way in which an answer, or what is claimed of it, can be wrong."""

    # What it was made from
    NETWORK_DIFFERS = "network-differs"  # it was made for another network
    ACCELERATOR_DIFFERS = "accelerator-differs"  # it was made for another accelerator
    LAYER_DIFFERS = "layer-differs"  # the network's layer of this name is another

    # Names
    UNKNOWN_TENSOR = "unknown-tensor"  # no tensor of the graph has this name (said once per name)
    UNKNOWN_OPERATOR = "unknown-operator"  # no operator of the graph has this name
    UNKNOWN_MEMORY = "unknown-memory"  # no scratchpad of the problem has this name (said once per name)
    UNCOUNTED_PARAMETER = "uncounted-parameter"  # a parameter appears though only activations count (once per name)

    # Residencies
    DRAM_ALLOCATED = "dram-allocated"  # DRAM is allocated or freed; only scratchpads have addresses (once per tensor)
    NEGATIVE_OFFSET = "negative-offset"  # a residency starts below address 0
    MISALIGNED = "misaligned"  # its offset is no multiple of the scratchpad's alignment
    BEYOND_CAPACITY = "beyond-capacity"  # it ends above the scratchpad's capacity
    OVERLAP = "overlap"  # it shares bytes with another residency of the same scratchpad, or a buffer with another
    ALLOCATED_TWICE = "allocated-twice"  # the tensor is resident in this scratchpad already
    OVERWRITTEN_NOT_FREED = "overwritten-not-freed"  # an output lies in its bytes, and other things come first
    NO_STATE = "no-state"  # it is said to be there from the inference before, and is no state
    STATE_NOT_FIRST = "state-not-first"  # a state that stays on the chip is not there before all else
    STATE_COPIED = "state-copied"  # one that stays on the chip is copied
    STATE_MOVED = "state-moved"  # one that stays on the chip leaves its place, for others or for good
    FREED_NOT_RESIDENT = "freed-not-resident"  # the tensor freed is not resident in this scratchpad
    PLACEMENT_NOT_STATIC = "placement-not-static"  # it has several, and one of them is over more than one operator

    # Transfers
    COPY_TO_ITSELF = "copy-to-itself"  # source and target are the same memory
    NO_LINK = "no-link"  # from one scratchpad to another between which there is no link that way
    NOT_IN_DRAM = "not-in-dram"  # a load of a tensor of which DRAM has no copy
    SOURCE_NOT_RESIDENT = "source-not-resident"  # a copy out of a scratchpad in which the tensor is not resident
    SOURCE_UNDEFINED = "source-undefined"  # a copy out of a residency that nothing has been written to
    TARGET_NOT_ALLOCATED = "target-not-allocated"  # a copy into a scratchpad in which the tensor is not resident
    OUTPUT_WRITTEN_AGAIN = "output-written-again"  # a network output goes to DRAM more than once
    OUTPUT_NEVER_WRITTEN = "output-never-written"  # a network output never goes to DRAM
    NON_COMPULSORY_TRAFFIC = "non-compulsory-traffic"  # a plan without spills moves something it need not move

    # Operators
    OPERAND_NOT_RESIDENT = "operand-not-resident"  # what an operator reads is in no scratchpad
    OPERAND_NOT_HELD = "operand-not-held"  # it is resident, but only where the array does not read such operands
    OPERAND_UNDEFINED = "operand-undefined"  # what it reads is resident and held, but nothing has been written there
    OUTPUT_NOT_RESIDENT = "output-not-resident"  # what it writes has no place in any scratchpad
    OUTPUT_IN_SEVERAL = "output-in-several"  # it has places in several scratchpads; an operator writes into one
    OUTPUT_NOT_HELD = "output-not-held"  # it has a place, but only where the array does not write outputs
    OPERATOR_RUN_TWICE = "operator-run-twice"  # it has run before, and may not run again
    RECOMPUTED_IN_USE = "recomputed-in-use"  # what an operator writes again lies where it has been written already
    OPERATOR_NEVER_RUN = "operator-never-run"  # it does not run at all
    OUT_OF_ORDER = "out-of-order"  # it runs after one that the given order puts later

    # Claims
    OBJECTIVE_DIFFERS = "objective-differs"  # the objective value claimed is not the plan's
    BOUND_ABOVE_OBJECTIVE = "bound-above-objective"  # the lower bound claimed exceeds the objective value claimed
    OPTIMAL_UNPROVEN = "optimal-unproven"  # OPTIMAL is claimed with a lower bound below the objective value
    ANSWER_DENIED = "answer-denied"  # the status claimed says that there is no answer, and there is one
    FIGURE_DIFFERS = "figure-differs"  # a figure claimed is not what is recomputed

    # Packings
    FIXED_MOVED = "fixed-moved"  # a buffer with a fixed offset is elsewhere
    OFFSETS_MISCOUNTED = "offsets-miscounted"  # there is not one offset for each buffer
    ARENA_MISCOUNTED = "arena-miscounted"  # the arena said is not the highest end of a buffer
    OUTSIDE_MISCOUNTED = "outside-miscounted"  # the bytes said to be outside are not the sum of the sizes there

    # Mappings
    TOO_FEW_ITERATIONS = "too-few-iterations"  # the loops of a dimension multiply to less than its bound
    TOO_MANY_ITERATIONS = "too-many-iterations"  # to more, where bounds may not be padded
    NO_SUCH_DIMENSION = "no-such-dimension"  # a spatial loop runs along what the array does not have
    NOT_UNROLLED = "not-unrolled"  # the dimension of the array does not unroll that loop
    ARRAY_EXCEEDED = "array-exceeded"  # more units are needed along a dimension than there are
    NO_SUCH_MEMORY = "no-such-memory"  # an operand is kept where there is no memory
    NO_SUCH_OPERAND = "no-such-operand"  # something is kept that the layer does not have
    NOT_HELD = "not-held"  # the memory does not hold the operand, or the map between stacks
    MISPLACED = "misplaced"  # a memory stands above another that it does not stand above in the accelerator
    CAPACITY_EXCEEDED = "capacity-exceeded"  # tiles of all operands together need more than a memory has

    # Stacks
    UNKNOWN_LAYER = "unknown-layer"  # the network has no layer of this name
    LAYER_MISSING = "layer-missing"  # a layer of the network has no stack or mapping, an operator outside is not listed
    OVER_A_BRANCH = "over-a-branch"  # what is written is read outside its stack, and not by the stack's last operator
    OUTPUT_LOST = "output-lost"  # it leaves the network, and is not written by the stack's last operator
    TILE_EXCEEDS_MAP = "tile-exceeds-map"  # a tile is larger than the stack's last feature map
    NO_SUCH_HOME = "no-such-home"  # a map between stacks lies where no memory is
    HOME_EXCEEDED = "home-exceeded"  # the maps that lie in a memory at a time need more than it has
    OUTPUT_NOT_IN_DRAM = "output-not-in-dram"  # an output of the network, or what nobody reads, lies on the chip
    OPERATOR_IN_NO_STACK = "operator-in-no-stack"  # an operator of the network is in no stack
    STACK_NOT_CONVEX = "stack-not-convex"  # a path of the network leaves the stack and comes back

    # Tiles: what a schedule's stacks make of the network
    NOT_IN_TILES = "not-in-tiles"  # a stack cannot run in tiles, or makes too many, or its tiles' names are taken
    TOO_MANY_TILES = "too-many-tiles"  # there are more tile operators than a schedule may have
    TENSOR_DIFFERS = "tensor-differs"  # a tensor is neither one of the network nor a band of one
    BANDS_DO_NOT_PARTITION = "bands-do-not-partition"  # bands of what is not computed again overlap, or leave a gap
    TILE_DIFFERS = "tile-differs"  # a tile operator is not the part of an operator of the network that its place says
    TILE_MISSING = "tile-missing"  # a part of what leaves a stack is computed by no tile operator
    TILE_OUT_OF_ORDER = "tile-out-of-order"  # a tile operator stands after one that runs later
    REGION_NOT_WRITTEN = "region-not-written"  # the bands that it writes are not what it computes
    WINDOW_NOT_READ = "window-not-read"  # the bands that it reads do not have all that its windows see
    PARAMETERS_DIFFER = "parameters-differ"  # it does not read the parameters that its kind reads

    # Homes, mappings and workspaces
    TENSOR_NOT_HELD = "tensor-not-held"  # a tensor is allocated in a memory that may not hold it
    OUTPUT_APART = "output-apart"  # some bands of an output are resident in a memory, and others are not
    MAPPING_MISSING = "mapping-missing"  # no mapping is for this loop nest of this stack at these homes
    MAPPING_UNUSED = "mapping-unused"  # no Compute runs by this mapping
    WORKSPACE_MISSING = "workspace-missing"  # an operator runs without the workspace that its mapping needs
    WORKSPACE_NOT_NEEDED = "workspace-not-needed"  # its mapping needs none in this memory
    WORKSPACE_STAYS = "workspace-stays"  # a workspace is resident while another operator runs
    WORKSPACE_COPIED = "workspace-copied"  # a workspace moves

    # Beyond what is legal
    OUTSIDE_CHECK_FAILED = "outside-check-failed"  # a check that a plug-in adds has found something


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule broken in one place.

    `subject` is the tensor, operator, memory, buffer, loop, operand, stack or field it is about. `instruction` is an
    index into `Plan.instructions`, `step` the number of operators run before it; both are None where the violation
    is of the whole answer, or of one without instructions.
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
