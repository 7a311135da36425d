"""Mutants that change no answer, each with the reason."""

from __future__ import annotations

from support.mutants import Mutant

_FASTER = "a shorter way to the same answer"
_LONGER = "a longer way to the same answer"
_UNCOMPARED = "derivations are not compared"
_ARRAY = "without an array there are no units"
_BITS = "what has a shape has bits"
_EQUAL = "of two that are equal either will do"
_JOINED = "a part of a concatenation has a shape"
_NO_CACHE = "nothing comes from a cache that there is not, nor goes to it"
_QUEUES = "queues are alike, whichever takes the first copy"
_STRICT = "the lengths are equal wherever it stands; strict says so to the reader"

EQUIVALENT: dict[str, dict[str, str]] = {
    "mapping": {"_array: accelerator.array is None or loop.along not in units -> loop.along not in units": _ARRAY},
    "packing": {
        "_lives: if not buffer.gaps: -> if False:": _LONGER,
        "_overlaps: if not _any_overlap(placed): -> if False:": _LONGER,
        "_overlaps: return -> pass": _LONGER,
        "_any_overlap: stops[ending[ended]] <= start -> stops[ending[ended]] < start": _LONGER,
        (
            "_any_overlap: if at > 0 and alive_highs[at - 1] > low or (at < len(alive_lows) and alive_lows[at] < high):"
            " -> if True:"
        ): _LONGER,
        "_any_overlap: at > 0 and alive_highs[at - 1] > low -> at > 0": _LONGER,
        "_any_overlap: return False -> return True": _LONGER,
        "_any_overlap: alive_highs[at - 1] > low -> alive_highs[at - 1] >= low": _LONGER,
        "_any_overlap: alive_lows[at] < high -> alive_lows[at] <= high": _LONGER,
        "_any_overlap: at < len(alive_lows) and alive_lows[at] < high -> at < len(alive_lows)": _LONGER,
        "_within: default=0 -> default=1": "a memory without buffers has no fault, whatever its capacity",
    },
    "schedule/tiles": {
        "_stack_order: places[writer] > place -> places[writer] >= place": "no operator reads what it writes",
        "cover: if wanted in parts: -> if False:": _FASTER,
        "_moves_nothing: whole.shape or () -> whole.shape": "a map without a shape has been refused",
        "_moves_nothing: one.shape or () -> one.shape": "a map without a shape has been refused",
        "_common: first >= behind -> first > behind": "a part without elements has no cells",
        "_common: start > start_other -> start >= start_other": _EQUAL,
        "_common: stop < stop_other -> stop <= stop_other": _EQUAL,
        "_order: -1 -> -2": "both are below the first place",
        "_Part._boxes: tensor.shape or () -> tensor.shape": _JOINED,
        "_begins: network.tensor[name].shape or () -> network.tensor[name].shape": _JOINED,
        (
            "_order: stacks[run.stack].tiling is not None and nests.of(run.original) is None"
            " -> nests.of(run.original) is None"
        ): "what runs whole is one operator, once",
    },
    "schedule/verifier": {
        "_RunningSchedule._expenses_of_program: if key not in copies: -> if True:": _FASTER,
        "_RunningSchedule._expense_of_compute: if key not in self._expenses: -> if True:": _FASTER,
        (
            "_RunningSchedule._expense_of_compute: tensors[run.original.outputs[0]].bits or BITS_PER_BYTE"
            " -> tensors[run.original.outputs[0]].bits"
        ): _BITS,
    },
    "schedule/costs": {
        "_row_bits: not band.shape or band.bits is None -> not band.shape": _BITS,
        "module: written_at: int = 0 -> written_at: int = 1": "what is read has been written, which says when",
        "module: _copies: int = 0 -> _copies: int = 1": _QUEUES,
    },
    "schedule/machine": {
        "AddressedMachine.hops: first < last -> first <= last": "a copy has two ends",
        "MappingsInUse.unused: is_input=False -> is_input=True": "what is printed does not say it",
    },
    "schedule/streaming": {
        (
            "homes_of_nests: None if nests.weight is None else homes.get(nests.weight)"
            " -> None if False else homes.get(nests.weight)"
        ): "no tensor is called None"
    },
    "schedule/nests": {
        "_place_of_matrix: is_model=True -> is_model=False": "another layout fits as well",
        "matrix_product: shapes[0] -> shapes[1]": "both orders fit square matrices alone, with one nest",
        "matrix_product: transposes[0] -> transposes[1] (2)": "the turned product has the same nest",
        "matrix_product: second is None or not first -> second is None": "a number has no rows, which ends alike",
        "element_by_element: max(len(extents), 2) -> max(len(extents), 3)": "a row of one element is no row",
        "module: compare=False -> compare=True": _UNCOMPARED,
        "module: compare=False -> compare=True (2)": _UNCOMPARED,
        "NestDerivation.of: if region is not None: -> if True:": _FASTER,
        "NestDerivation.of: if operator.name not in self._whole: -> if True:": _FASTER,
        "NestDerivation._of_region: if key not in self._known: -> if True:": _FASTER,
        "NestDerivation._with_bits: self.network.tensor[name].bits or 8 -> self.network.tensor[name].bits or 9": _BITS,
        "NestDerivation._with_bits: self.network.tensor[name].bits or 8 -> self.network.tensor[name].bits": _BITS,
        "_phase: not places or not taps -> not places": "outputs without taps make no nest, whatever else is said",
        "_as_seen: output[0] -> output[1]": "the batch of a nest is that of the region",
    },
    "schedule/windows": {
        "kernel_of: default=0 -> default=1": "without dimensions there is no axis",
        (
            "as_stored: prod((shape[at] for at in seen)) < prod((stored[at] for at in run))"
            " -> prod((shape[at] for at in seen)) <= prod((stored[at] for at in run))"
        ): "both are compared where they differ",
        "_position: position = 0 -> position = 1": "both positions move by a whole tensor, which is dropped",
    },
    "latency": {
        (
            "UsedBytes._begin_at: if place == len(self.starts) or self.starts[place] != address: -> if True:"
        ): "an empty range more changes no maximum",
        "module: _copies: int = 0 -> _copies: int = 1": _QUEUES,
    },
    "stack/tile_run": {
        "TileRunByMappings._brought: if cache is not None: -> if True:": _NO_CACHE,
        (
            "TileRunByMappings._cached: rows is not None and rows not in (place, home) -> rows not in (place, home)"
        ): _NO_CACHE,
        (
            "TileRunByMappings._cached: columns is not None and columns not in (place, home)"
            " -> columns not in (place, home)"
        ): _NO_CACHE,
    },
    "strategy": {
        "_cover: places[other] > places[name] -> places[other] >= places[name]": "no layer is given twice",
        "_homes: read_until.get(name, 0) -> read_until.get(name, 1)": "the first stack reads no output of a stack",
        "_homes: -1 -> -2": "both are before the first stack",
    },
}
"""Map from module to a map from mutant key to reason."""


def explanation(mutant: Mutant) -> str | None:
    """Return why no input distinguishes the mutant from the module; None if no reason is recorded."""
    if mutant.change.partition(" (")[0] == "strict=True -> strict=False":
        return _STRICT
    return EQUIVALENT.get(mutant.module, {}).get(mutant.key)
