"""Random tiny packings with every feature, compared with brute force over all places.

PYTHONPATH=src:tests python -m support.packing_features --cases 5000 --seed 0
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import lcm
from random import Random

import onchip as oc
from onchip.answer.result import Status
from oracles.packing import Item, Pools, is_legal, items_fit, least_cost


def least_arena(items: Sequence[Item], most: int) -> int | None:
    """Return the least capacity that suffices, None if that is more than `most`."""
    return next((capacity for capacity in range(most + 1) if items_fit(items, capacity)), None)


def is_irreducible(items: Sequence[Item], capacity: int) -> bool:
    """Return True if the buffers do not fit, and all but any one of them do."""
    return not items_fit(items, capacity) and all(
        items_fit([*items[:at], *items[at + 1 :]], capacity) for at in range(len(items))
    )


MOST_BYTES = 60
Names = tuple[str, ...]


def random_buffers(random: Random, most: int = 6) -> dict[str, oc.Buffer]:
    """Return a few buffers; fixed offsets, gaps and alignments are all there, some, or none."""
    alignments = random.choice(((1,), (1,), (1, 2), (1, 2, 3), (2, 4), (1, 4)))
    fixed, gaps, greatest = random.choice((0, 0, 0.3)), random.choice((0, 0.3, 0.7)), random.choice((3, 6))
    buffers = {}
    for number in range(random.randint(2, most)):
        start, alignment = random.randint(0, 5), random.choice(alignments)
        stop = start + random.randint(1, 5)
        some: tuple[tuple[int, int], ...] = ()
        if random.random() < gaps and stop - start > 2:
            begin = random.randint(start, stop - 2)
            some = ((begin, random.randint(begin + 1, stop - 1)),)
        offset = alignment * random.randint(0, 4) if random.random() < fixed else None
        buffers[f"b{number}"] = oc.Buffer(start, stop, random.randint(1, greatest), offset, alignment, some)
    return buffers


def items_of(buffers: dict[str, oc.Buffer], alignment: int = 1) -> dict[str, Item]:
    """Return the buffers for the oracle, which counts their steps one by one."""
    return {
        name: Item(
            frozenset(range(one.start, one.stop)) - {step for a, b in one.gaps for step in range(a, b)},
            one.size_bytes,
            lcm(one.alignment_bytes, alignment),
            one.offset_bytes,
        )
        for name, one in buffers.items()
    }


def arena_fault(random: Random) -> str | None:
    """Compare the least arena, a capacity about it, and the conflict below it."""
    buffers, alignment = random_buffers(random), random.choice((1, 1, 1, 2))
    if any((one.offset_bytes or 0) % alignment for one in buffers.values()):
        alignment = 1
    items, options = items_of(buffers, alignment), oc.PackOptions(alignment_bytes=alignment)
    least = least_arena(list(items.values()), MOST_BYTES)
    found = oc.pack(buffers, options=options)
    if least is None:
        return None if found.status is Status.INFEASIBLE else f"not infeasible: {buffers}"
    offsets = [found.offsets[name] or 0 for name in items]
    if not (found.status is Status.OPTIMAL and found.arena_bytes == least == found.lower_bound):
        return f"{found.status} {found.arena_bytes} of {least}: {buffers}, {alignment}"
    if not is_legal(list(items.values()), offsets, least):
        return f"illegal {offsets}: {buffers}"
    capacity = max(1, least - random.randint(0, 2))
    fitted = oc.pack(buffers, capacity, options=options)
    if (fitted.answer is not None) != (capacity >= least):
        return f"{fitted.status} in {capacity}, least {least}: {buffers}"
    if fitted.answer is None and not is_irreducible([items[name] for name in fitted.conflict], capacity):
        return f"no irreducible conflict in {capacity}: {fitted.conflict} of {buffers}"
    return None


def outside_fault(random: Random) -> str | None:
    """Compare the fewest bytes outside."""
    buffers = random_buffers(random, 5)
    items, capacity = items_of(buffers), random.randint(3, 14)
    pools = Pools([(capacity, 1)], [{0: 0, None: one.size_bytes} for one in buffers.values()])
    least = least_cost(list(items.values()), pools)
    found = oc.pack(buffers, capacity, options=oc.PackOptions(overflow=True))
    kept = {name: at for name, at in found.offsets.items() if at is not None}
    is_kept_legal = is_legal([items[name] for name in kept], list(kept.values()), capacity)
    outside = sum(one.size_bytes for name, one in buffers.items() if name not in kept)
    is_right = found.status is Status.OPTIMAL and found.objective == least == outside
    return None if is_right and is_kept_legal else f"{found} of {least} in {capacity}: {buffers}"


@dataclass(frozen=True, slots=True)
class MemoryCase:
    """A random problem of several memories."""

    buffers: dict[str, oc.Buffer]
    memories: tuple[oc.Memory, ...]
    together: tuple[Names, ...]
    apart: tuple[Names, ...]
    overflow: bool

    @classmethod
    def drawn(cls, random: Random) -> MemoryCase:
        """Return two or three memories, preferences, and perhaps groups."""
        names = ("m0", "m1", "m2")[: random.choice((2, 2, 3))]
        memories = tuple(oc.Memory(name, random.randint(3, 10), random.choice((1, 1, 2))) for name in names)
        buffers = {
            name: oc.Buffer(
                one.start,
                one.stop,
                one.size_bytes,
                one.offset_bytes,
                one.alignment_bytes,
                one.gaps,
                tuple(random.sample(names, random.randint(1, len(names)))) if random.random() < 0.5 else (),
            )
            for name, one in random_buffers(random, 5).items()
        }
        groups = [tuple(random.sample(sorted(buffers), 2)) if random.random() < 0.3 else () for _ in range(2)]
        together, apart = ((one,) if one else () for one in groups)
        return cls(buffers, memories, together, apart, random.random() < 0.5)

    def pools(self) -> Pools:
        """Return the problem for the oracle."""
        names, index = [one.name for one in self.memories], {name: at for at, name in enumerate(self.buffers)}
        costs: list[dict[int | None, int]] = []
        for one in self.buffers.values():
            ranked = one.memories or tuple(names)
            own: dict[int | None, int] = {names.index(name): rank * one.size_bytes for rank, name in enumerate(ranked)}
            costs.append(own | ({None: len(ranked) * one.size_bytes} if self.overflow else {}))
        groups = [[[index[name] for name in group] for group in some] for some in (self.together, self.apart)]
        return Pools([(one.capacity_bytes, one.alignment_bytes) for one in self.memories], costs, *groups)


def memories_fault(random: Random) -> str | None:
    """Compare the least cost in several memories."""
    case = MemoryCase.drawn(random)
    least = least_cost(list(items_of(case.buffers).values()), case.pools())
    options = oc.PackOptions(overflow=case.overflow, together=case.together, apart=case.apart)
    found = oc.pack(case.buffers, memories=case.memories, options=options)
    if least is None:
        return None if found.status is Status.INFEASIBLE else f"{found.status}, not infeasible: {case}"
    if not (found.status is Status.OPTIMAL and found.objective == least == found.lower_bound):
        return f"{found} of {least}: {case}"
    for memory in case.memories:
        items = items_of(case.buffers, memory.alignment_bytes)
        inside = [name for name, held in found.memories.items() if held == memory.name]
        offsets = [found.offsets[name] or 0 for name in inside]
        if not is_legal([items[name] for name in inside], offsets, memory.capacity_bytes):
            return f"illegal in {memory}: {found.offsets} of {case}"
    return None


def split_fault(random: Random) -> str | None:
    """Compare the fewest allocations of a greatest size."""
    buffers, capacity, alignment = random_buffers(random, 5), random.randint(4, 9), random.choice((1, 1, 2, 3))
    if any((one.offset_bytes or 0) % alignment for one in buffers.values()):
        alignment = 1
    items = list(items_of(buffers, alignment).values())
    found = oc.pack(buffers, capacity, options=oc.PackOptions(splits=True, alignment_bytes=alignment))
    for count in range(1, len(items) + 1):
        costs: list[dict[int | None, int]] = [dict.fromkeys(range(count), 0) for _ in items]
        if least_cost(items, Pools([(capacity, 1)] * count, costs)) is not None:
            is_right = found.status is Status.OPTIMAL and found.objective == count
            return None if is_right else f"{found} of {count} in {capacity}: {buffers}"
    can_lie_alone = all(items_fit([one], capacity) for one in items)
    return None if found.status is Status.INFEASIBLE and not can_lie_alone else f"{found} in {capacity}: {buffers}"


KINDS: tuple[Callable[[Random], str | None], ...] = (
    arena_fault,
    arena_fault,
    outside_fault,
    memories_fault,
    split_fault,
)


def faults(cases: int, seed: int) -> Iterator[tuple[str, str | None]]:
    """Yield the kind of each case, and its fault or None."""
    random = Random(seed)
    for number in range(cases):
        kind = KINDS[number % len(KINDS)]
        yield kind.__name__, kind(random)


def main() -> None:
    """Run the cases, print the faults, and end with 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    counts, wrong = Counter[str](), 0
    for kind, fault in faults(asked.cases, asked.seed):
        counts[kind] += 1
        if fault:
            wrong += 1
            print(f"{kind}: {fault}", flush=True)
    print(f"{asked.cases} cases, {wrong} wrong: {dict(counts)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
