"""The multiplications of a convolution or pool, from the definition of its kind: the elements that meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

Index = tuple[int, ...]


@dataclass(frozen=True)
class WindowReads:
    """A convolution, transposed convolution or pool, with the padding `pads` before each pixel dimension."""

    kind: str
    source: Index
    output: Index
    kernel: Index
    strides: Index
    dilations: Index
    pads: Index
    groups: int = 1

    def __iter__(self) -> Iterator[tuple[Index, Index, Index]]:
        """Yield the elements of output, input and weight of each multiplication; a pool's weight is all ones."""
        meetings = [self._meetings(at) for at in range(len(self.kernel))]
        for batch in range(self.output[0]):
            for written, read, weight in self._channels():
                for pixels in product(*meetings):
                    to, source, tap = zip(*pixels, strict=True)
                    yield (batch, written, *to), (batch, read, *source), (*weight, *tap)

    def _channels(self) -> Iterator[tuple[int, int, Index]]:
        """Yield an output channel, an input channel that it reads, and their position in the weight."""
        written, read = self.output[1] // self.groups, self.source[1] // self.groups
        if "Pool" in self.kind:
            yield from ((channel, channel, (channel, 0)) for channel in range(self.output[1]))
            return
        for group, k, c in product(range(self.groups), range(written), range(read)):
            to, source = group * written + k, group * read + c
            yield to, source, ((source, k) if self.kind == "ConvTranspose" else (to, c))

    def _meetings(self, at: int) -> Sequence[tuple[int, int, int]]:
        """Return the pixels of output and input that meet along one dimension, and the tap that joins them."""
        outside, inside = self.output[2 + at], self.source[2 + at]
        if self.kind.startswith("Global"):
            return [(0, pixel, 0) for pixel in range(inside)]
        moved, still = (inside, outside) if self.kind == "ConvTranspose" else (outside, inside)
        met = []
        for pixel, tap in product(range(moved), range(self.kernel[at])):
            other = pixel * self.strides[at] + tap * self.dilations[at] - self.pads[at]
            if 0 <= other < still:
                met.append((other, pixel, tap) if self.kind == "ConvTranspose" else (pixel, other, tap))
        return met
