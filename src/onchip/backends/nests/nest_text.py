"""Lines of C with their indentation, and the loops that all parts of a nest write alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from onchip.backends.nests.nest_loops import CLoop, CNest
from onchip.backends.nests.nest_places import OperandPlace


@dataclass(slots=True)
class CText:
    """Lines of C, written from the outside in.

    `left` names, for each dimension that ends short, how many elements are left where a line is; `pointers` names, for
    each operand, the pointer to the first of its elements that the loops inside touch.
    """

    nest: CNest
    lines: list[str] = field(default_factory=list)
    depth: int = 0
    left: dict[str, str] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    declared: list[tuple[str, int]] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Add a line, indented as deep as it stands."""
        self.lines.append("    " * self.depth + line if line else "")

    def declare(self, kind: str, name: str, value: str) -> None:
        """A constant of the block; its line goes where nothing in the block uses it."""
        self.declared.append((name, len(self.lines)))
        self.add(f"{kind}const {name} = {value};")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What stands between braces after `head`; what is named in it is forgotten after it."""
        self.add(f"{head} {{")
        self.depth += 1
        left, pointers, declared = dict(self.left), dict(self.pointers), self.declared
        self.declared = []
        yield
        for name, place in reversed(self.declared):
            if not any(name in line for line in self.lines[place + 1 :]):
                del self.lines[place]
        self.left, self.pointers, self.declared = left, pointers, declared
        self.depth -= 1
        self.add("}")

    @contextmanager
    def loop(self, loop: CLoop) -> Iterator[None]:
        """The body of a loop, which ends where its dimension does."""
        left, count = self.left.get(loop.dimension), str(loop.size)
        if left is not None:
            whole = left if loop.step == 1 else f"({left} + {loop.step - 1}) / {loop.step}"
            count = f"smaller({loop.size}, {whole})"
        with self.block(f"for (long {loop.name} = 0; {loop.name} < {count}; {loop.name}++)"):
            if left is not None and loop.step > 1:
                self.left[loop.dimension] = f"{loop.name}_left"
                self.declare("long ", f"{loop.name}_left", f"{left} - {times(loop.name, loop.step)}")
            yield

    def move(self, loop: CLoop, places: Mapping[str, OperandPlace], kinds: Mapping[str, str]) -> None:
        """Move the pointers of operands that a loop leads on in: `kinds` are what they point to."""
        for operand, place in places.items():
            if stride := place.loops.get(loop.name):
                name = f"{operand}_{loop.name}"
                self.declare(f"{kinds[operand]} *", name, f"{self.pointers[operand]} + {times(loop.name, stride)}")
                self.pointers[operand] = name


def times(name: str, factor: int) -> str:
    """A product, without a factor of one."""
    return name if factor == 1 else f"{name} * {factor}"


def at(pointer: str, *terms: tuple[str, int]) -> str:
    """A pointer so many elements on: a sum of names times factors."""
    return " + ".join((pointer, *(times(name, factor) for name, factor in terms)))
