"""Exhaustive answers for tiny networks in one scratchpad: every order, every gap between uses, every address.

A network is numbers: the sizes, inputs and outputs. Nothing is shared with the solver, not even data types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from oracles.packing import Buffer, fits

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """`sizes` and `roles` by tensor; `reads` and `writes` (counted tensors only) by operator, in the given order."""

    sizes: tuple[int, ...]
    roles: tuple[str, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    alignment: int = 1

    def operands(self, operator: int) -> set[int]:
        """Return the distinct operands of the operator."""
        return {*self.reads[operator], *self.writes[operator]}

    def orders(self) -> Iterator[Order]:
        """Yield every order in which each operator follows the writers of its inputs."""
        yield from self._orders_after(())

    def _orders_after(self, done: Order) -> Iterator[Order]:
        if len(done) == len(self.reads):
            yield done
        made = {tensor for operator in done for tensor in self.writes[operator]}
        anywhere = {tensor for written in self.writes for tensor in written}
        for operator in range(len(self.reads)):
            if operator not in done and all(t in made or t not in anywhere for t in self.reads[operator]):
                yield from self._orders_after((*done, operator))

    def uses(self, order: Order) -> dict[int, list[int]]:
        """Return the steps that need each tensor."""
        uses: dict[int, list[int]] = {}
        for step, operator in enumerate(order):
            for tensor in self.operands(operator):
                uses.setdefault(tensor, []).append(step)
        return uses

    def whole_lives(self, order: Order) -> list[Buffer]:
        """Return the live ranges from first use to last, without spills."""
        return [(steps[0], steps[-1] + 1, self.sizes[tensor]) for tensor, steps in self.uses(order).items()]


def packed_bytes(sizes: Sequence[int], alignment: int) -> int:
    """Return the least capacity for all at once: all but the topmost are padded, so the most padded one is on top."""
    padded = [-(-size // alignment) * alignment for size in sizes]
    return min((sum(padded) - p + size for p, size in zip(padded, sizes, strict=True)), default=0)


def required_bytes(question: Question) -> int:
    """Return M_R: the need of the most demanding operator."""
    needs = ([question.sizes[t] for t in question.operands(o)] for o in range(len(question.reads)))
    return max(packed_bytes(need, question.alignment) for need in needs)


def peak_of(question: Question, order: Order) -> int:
    """Return the most bytes live at once without spills, packed."""
    lives = question.whole_lives(order)
    live = ([size for start, stop, size in lives if start <= step < stop] for step in range(len(order)))
    return max(packed_bytes(sizes, question.alignment) for sizes in live)


def least_peak(question: Question) -> int:
    """Return M_P: the least peak over all orders."""
    return min(peak_of(question, order) for order in question.orders())


def least_arena(question: Question, orders: Sequence[Order], capacity: int) -> int | None:
    """Return the least capacity into which some order packs without spills; None if it is above `capacity`."""
    lives = [question.whole_lives(order) for order in orders]
    lowest = min(peak_of(question, order) for order in orders)
    for arena in range(lowest, capacity + 1):
        if any(fits(live, arena, question.alignment) for live in lives):
            return arena
    return None


def least_traffic(question: Question, orders: Sequence[Order], capacity: int) -> int | None:
    """Return the least non-compulsory bytes of any legal plan in one of these orders; None if no plan is legal."""
    if required_bytes(question) > capacity:
        return None
    best: int | None = None
    for order in orders:
        for cost, buffers in _choices(question, order):
            if best is not None and cost >= best:
                break
            if _fits_in_bytes(buffers, capacity) and fits(buffers, capacity, question.alignment):
                best = cost
                break
    return best


def _choices(question: Question, order: Order) -> list[tuple[int, list[Buffer]]]:
    """Return every choice of the gaps between uses over which tensors are evicted, cheapest first.

    A tensor may be evicted between two consecutive steps too: it returns at another address.
    """
    ways = [_ways(question, tensor, steps) for tensor, steps in question.uses(order).items()]
    choices = [
        (sum(cost for cost, _ in chosen), [buffer for _, buffers in chosen for buffer in buffers])
        for chosen in product(*ways)
    ]
    return sorted(choices, key=lambda choice: choice[0])


def _ways(question: Question, tensor: int, steps: list[int]) -> list[tuple[int, list[Buffer]]]:
    """Return the cost of each choice of one tensor's gaps, with its residencies."""
    size, ways = question.sizes[tensor], []
    for away in product((False, True), repeat=len(steps) - 1):
        store = size if any(away) and question.roles[tensor] == "activation" else 0
        residencies, start = [], steps[0]
        for (before, after), is_away in zip(pairwise(steps), away, strict=True):
            if is_away:
                residencies.append((start, before + 1, size))
                start = after
        ways.append((sum(away) * size + store, [*residencies, (start, steps[-1] + 1, size)]))
    return ways


def _fits_in_bytes(buffers: Sequence[Buffer], capacity: int) -> bool:
    starts = {start for start, _, _ in buffers}
    return all(sum(size for start, stop, size in buffers if start <= at < stop) <= capacity for at in starts)
