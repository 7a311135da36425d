"""Windows: the steps in which an operator can run and a tensor can be used (COSMA, III-F)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from onchip.model.lifetimes.bit_masks import bits, mask_of
from onchip.model.lifetimes.indexed import IndexedProblem


@dataclass(frozen=True)
class Windows:
    """The time windows of operators and tensors, from the mask of all ancestors of each operator."""

    indexed: IndexedProblem
    ancestors: tuple[int, ...]

    @classmethod
    def of(cls, indexed: IndexedProblem) -> Windows:
        """Return the windows from the transitive closure; operators are indexed in a topological order."""
        ancestors: list[int] = []
        for befores in indexed.predecessor_lists:
            closed = mask_of(befores)
            for before in befores:
                closed |= ancestors[before]
            ancestors.append(closed)
        return cls(indexed, tuple(ancestors))

    @cached_property
    def steps(self) -> tuple[range, ...]:
        """Return for each operator its steps from the earliest to the latest."""
        after = [0] * len(self.ancestors)
        for befores in self.ancestors:
            for before in bits(befores):
                after[before] += 1
        count = len(self.ancestors)
        return tuple(
            range(befores.bit_count(), count - behind) for befores, behind in zip(self.ancestors, after, strict=True)
        )

    @cached_property
    def users(self) -> tuple[int, ...]:
        """Return for each tensor the mask of its producer and its readers."""
        producers = (1 << producer if producer >= 0 else 0 for producer in self.indexed.producer)
        return tuple(made | read for made, read in zip(producers, self.indexed.readers, strict=True))

    @cached_property
    def lifetimes(self) -> tuple[range, ...]:
        """Return for each tensor the steps from its earliest to its latest use; empty without a use."""
        return tuple(self._lifetime(users) for users in self.users)

    def _lifetime(self, users: int) -> range:
        windows = [self.steps[operator] for operator in bits(users)]
        return range(min(w.start for w in windows), max(w.stop for w in windows)) if windows else range(0)

    @cached_property
    def _common_ancestors(self) -> tuple[int, ...]:
        """Return for each tensor the operators that must run before all of its users."""
        common = []
        for users in self.users:
            mask = -1
            for operator in bits(users):
                mask &= self.ancestors[operator]
            common.append(mask)
        return tuple(common)

    def shared_steps(self, first: int, second: int) -> range:
        """Return the steps in which both tensors may be used.

        Empty if every use of one must precede every use of the other in any order.
        """
        for before, after in ((first, second), (second, first)):
            if not self.users[before] & ~self._common_ancestors[after]:
                return range(0)
        ours, theirs = self.lifetimes[first], self.lifetimes[second]
        return range(max(ours.start, theirs.start), max(0, min(ours.stop, theirs.stop)))
