"""Results of `pack` as lines and JSON objects."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.packing import Overflow, Packing, PackingProblem, StaticPacking, StaticPackingProblem
from onchip.answer.result import SearchResult, Status
from onchip.answer.words import counted, exact_bytes, picked
from onchip.reports.shared.facts import Proof, Rows, seconds_words


@dataclass(frozen=True, slots=True)
class PackingOutcome:
    """A packing; `ids[i]` names `problem.buffers[i]`, and `capacity_bytes` is None if none was given.

    `conflict` names buffers that do not fit together; it is irreducible if every proper subset is proven to fit.
    """

    ids: tuple[str, ...]
    problem: PackingProblem
    result: SearchResult[Packing]
    capacity_bytes: int | None
    seconds: float
    conflict: tuple[str, ...] = ()
    is_irreducible: bool = False

    @property
    def rows(self) -> Rows:
        """The facts of the packing and its proof, or buffers that do not fit together."""
        result, capacity = self.result, self.capacity_bytes
        rows = [("buffers", f"{len(self.ids):,}"), *_capacity_rows(capacity)]
        rows += Proof.of(result, "arena", "bytes", "every packing").rows
        if result.status is Status.INFEASIBLE:
            rows.append(("infeasible", f"the buffers need at least {exact_bytes(result.lower_bound)}"))
        if self.conflict:
            kind = "any fewer of them fit" if self.is_irreducible else "fewer of them may not fit, too"
            rows.append(("conflict", f"{', '.join(self.conflict)} do not fit together; {kind}"))
        return [*rows, ("time", seconds_words({"solve": self.seconds}))]


def _capacity_rows(capacity_bytes: int | None) -> Rows:
    return [] if capacity_bytes is None else [("capacity", exact_bytes(capacity_bytes))]


def packing_object(outcome: PackingOutcome) -> dict[str, object]:
    """Return what `--json` prints of a packing."""
    result = outcome.result
    offsets = None
    if result.answer is not None:
        offsets = dict(zip(outcome.ids, result.answer.offsets_bytes, strict=True))
    return {
        **picked(result, "status", "stopped_by"),
        "capacity_bytes": outcome.capacity_bytes,
        "alignment_bytes": outcome.problem.alignment_bytes,
        "buffers": len(outcome.ids),
        "lower_bound": result.lower_bound,
        "arena_bytes": result.objective_value,
        "gap": result.gap,
        "offsets": offsets,
        "conflict": list(outcome.conflict) or None,
        "seconds": outcome.seconds,
    }


@dataclass(frozen=True, slots=True)
class MemoriesOutcome:
    """Buffers in several memories or allocations; `names[m]` names `problem.memories[m]`, None: outside.

    The objective is `objective`: the bytes in memories other than the preferred ones, or the number of allocations.
    """

    ids: tuple[str, ...]
    problem: StaticPackingProblem
    names: tuple[str | None, ...]
    objective: str
    result: SearchResult[StaticPacking]
    seconds: float

    @property
    def offsets(self) -> dict[str, int | None]:
        """Return the offset of each buffer; None outside."""
        places = self.result.answer.places if self.result.answer else ()
        return {
            name: None if self.names[place.memory] is None else place.offset_bytes
            for name, place in zip(self.ids, places, strict=False)
        }

    @property
    def memories(self) -> dict[str, str | None]:
        """Return the memory of each buffer; None outside."""
        places = self.result.answer.places if self.result.answer else ()
        return {name: self.names[place.memory] for name, place in zip(self.ids, places, strict=False)}

    @property
    def outside(self) -> list[str]:
        """Return the names of the buffers outside."""
        return [name for name, memory in self.memories.items() if memory is None]

    @property
    def rows(self) -> Rows:
        """The facts of the packing and its proof, and those of each memory."""
        result, unit = self.result, "allocations" if self.objective == "allocations" else "bytes"
        rows = [("buffers", f"{len(self.ids):,}")]
        rows += Proof.of(result, self.objective, unit, "every packing").rows
        places = result.answer.places if result.answer else ()
        for memory, name in enumerate(self.names):
            inside = [index for index, place in enumerate(places) if place.memory == memory]
            ends = (places[index].offset_bytes + self.problem.buffers[index].size_bytes for index in inside)
            if inside:
                held = f"{counted(len(inside), 'buffer')}, {exact_bytes(max(ends))}"
                rows.append(("outside" if name is None else name, held))
        return [*rows, ("time", seconds_words({"solve": self.seconds}))]


def memories_object(outcome: MemoriesOutcome) -> dict[str, object]:
    """Return what `--json` prints of buffers in several memories."""
    result = outcome.result
    return {
        **picked(result, "status", "stopped_by"),
        "objective": outcome.objective,
        "objective_value": result.objective_value,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "buffers": len(outcome.ids),
        "memories": outcome.memories or None,
        "offsets": outcome.offsets or None,
        "outside": outcome.outside,
        "seconds": outcome.seconds,
    }


@dataclass(frozen=True, slots=True)
class OverflowOutcome:
    """A packing with buffers outside; `ids[i]` names `problem.buffers[i]`."""

    ids: tuple[str, ...]
    problem: PackingProblem
    result: SearchResult[Overflow]
    seconds: float

    @property
    def outside(self) -> list[str]:
        """Return the names of the buffers that have no place."""
        return [self.ids[index] for index in self.result.answer.outside] if self.result.answer else []

    @property
    def outside_share(self) -> float:
        """Share of all bytes that is outside, 0 without buffers."""
        total = sum(buffer.size_bytes for buffer in self.problem.buffers)
        return (self.result.objective_value or 0) / total if total else 0.0

    @property
    def rows(self) -> Rows:
        """The facts of the packing and its proof, and the buffers outside."""
        kept, bytes_outside = len(self.ids) - len(self.outside), self.result.objective_value or 0
        rows = [("buffers", f"{len(self.ids):,}, {kept:,} kept"), *_capacity_rows(self.problem.capacity_bytes)]
        rows += Proof.of(self.result, "bytes outside", "bytes", "every packing").rows
        if self.outside:
            share = f"{exact_bytes(bytes_outside)} ({self.outside_share:.1%})"
            rows.append(("outside", f"{share}: {', '.join(self.outside)}"))
        return [*rows, ("time", seconds_words({"solve": self.seconds}))]


def overflow_object(outcome: OverflowOutcome) -> dict[str, object]:
    """Return what `--overflow --json` prints; `offsets` has the kept buffers only."""
    result, ids = outcome.result, outcome.ids
    answer = result.answer or Overflow((None,) * len(ids))
    return {
        **picked(result, "status", "stopped_by"),
        "capacity_bytes": outcome.problem.capacity_bytes,
        "alignment_bytes": outcome.problem.alignment_bytes,
        "buffers": len(ids),
        "outside_bytes": result.objective_value,
        "outside_share": outcome.outside_share,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "outside": outcome.outside,
        "kept": [ids[index] for index in answer.kept],
        "offsets": {ids[index]: answer.offsets_bytes[index] for index in answer.kept},
        "seconds": outcome.seconds,
    }
