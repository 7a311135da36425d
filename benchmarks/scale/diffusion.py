"""The U-Net of latent diffusion by its configuration, operator by operator as an exporter writes it.

After Rombach et al. 2022 and the configuration files of Stable Diffusion: levels of residual blocks, most of them with
transformer blocks behind, skips from each block on the way down to one on the way up. Normalisations, activations and
attention are the operators that compute them; what only reshapes is no operator. Elements of two bytes, no parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scale.wiring import Wiring

from onchip.ir.graph import Graph

FEED_FORWARD: Final = 4
"""Times as wide, with a gate as wide again."""


@dataclass(frozen=True, slots=True)
class DiffusionUNet:
    """Channels of each level, from the top; the lowest `plain_levels` of them have no transformer blocks."""

    name: str
    side: int = 64
    latent_channels: int = 4
    channels: tuple[int, ...] = (320, 640, 1280, 1280)
    blocks: int = 2
    plain_levels: int = 1
    heads: int = 8
    depth: int = 1
    context_tokens: int = 77
    context_width: int = 768
    batch: int = 1


STABLE_DIFFUSION = DiffusionUNet("stable-diffusion-unet")
LARGE_UNET = DiffusionUNet("unet-of-three-blocks", blocks=3)
"""A block more in each level: 2,314 operators."""
DEEP_UNET = DiffusionUNet("unet-of-two-transformers", depth=2)
"""A transformer block more wherever there is one: 2,814 operators."""


def diffusion_unet(config: DiffusionUNet = STABLE_DIFFUSION) -> Graph:
    """Return one step of denoising."""
    return _Layers(config).graph()


class _Layers:
    def __init__(self, config: DiffusionUNet) -> None:
        self._config = config
        self._wiring = Wiring()
        self._width: dict[str, int] = {}
        self._time, self._context = "", ""

    def graph(self) -> Graph:
        config = self._config
        latent = self._wiring.input("latent", config.batch * config.latent_channels * config.side**2)
        step = self._wiring.input("step", config.batch)
        self._context = self._wiring.input("context", config.batch * config.context_tokens * config.context_width)
        self._time = self._embedding(step)
        hidden = self._conv(latent, config.channels[0], config.side)
        hidden, skips = self._way_down(hidden)
        hidden = self._residual(hidden, config.channels[-1], self._lowest_side)
        hidden = self._transformer(hidden, self._lowest_side)
        hidden = self._residual(hidden, config.channels[-1], self._lowest_side)
        hidden = self._way_up(hidden, skips)
        self._conv(self._active(self._group_norm(hidden)), config.latent_channels, config.side)
        return self._wiring.graph(config.name)

    @property
    def _lowest_side(self) -> int:
        return self._config.side >> (len(self._config.channels) - 1)

    def _has_attention(self, level: int) -> bool:
        return level < len(self._config.channels) - self._config.plain_levels

    def _way_down(self, hidden: str) -> tuple[str, list[str]]:
        config, side, skips = self._config, self._config.side, [hidden]
        for level, channels in enumerate(config.channels):
            for _ in range(config.blocks):
                hidden = self._residual(hidden, channels, side)
                if self._has_attention(level):
                    hidden = self._transformer(hidden, side)
                skips.append(hidden)
            if level + 1 < len(config.channels):
                side //= 2
                hidden = self._conv(hidden, channels, side)
                skips.append(hidden)
        return hidden, skips

    def _way_up(self, hidden: str, skips: list[str]) -> str:
        config, side = self._config, self._lowest_side
        for level, channels in reversed(list(enumerate(config.channels))):
            for _ in range(config.blocks + 1):
                skip = skips.pop()
                wide = self._width[hidden] + self._width[skip]
                hidden = self._residual(self._add("Concat", (hidden, skip), wide, side), channels, side)
                if self._has_attention(level):
                    hidden = self._transformer(hidden, side)
            if level:
                side *= 2
                hidden = self._conv(self._add("Resize", (hidden,), channels, side), channels, side)
        return hidden

    def _embedding(self, step: str) -> str:
        """Sines and cosines of the step, two layers."""
        batch, wide = self._config.batch, 4 * self._config.channels[0]
        angles = self._wiring.add("Mul", (step,), batch * wide // 8)
        waves = tuple(self._wiring.add(kind, (angles,), batch * wide // 8) for kind in ("Sin", "Cos"))
        hidden = self._wiring.add("Concat", waves, batch * wide // 4)
        hidden = self._silu(self._wiring.add("Gemm", (hidden,), batch * wide))
        return self._wiring.add("Gemm", (hidden,), batch * wide)

    def _residual(self, read: str, channels: int, side: int) -> str:
        hidden = self._conv(self._active(self._group_norm(read)), channels, side)
        time = self._wiring.add("Gemm", (self._silu(self._time),), self._config.batch * channels)
        hidden = self._add("Add", (hidden, time), channels, side)
        hidden = self._conv(self._active(self._group_norm(hidden)), channels, side)
        shortcut = read if self._width[read] == channels else self._conv(read, channels, side)
        return self._like("Div", self._like("Add", shortcut, hidden))

    def _transformer(self, read: str, side: int) -> str:
        """Add self-attention, attention to the context, and a gated feed-forward network, with a residual."""
        channels = self._width[read]
        hidden = self._like("Transpose", self._like("Conv", self._group_norm(read)))
        for _ in range(self._config.depth):
            hidden = self._like("Add", hidden, self._attention(self._layer_norm(hidden), ""))
            hidden = self._like("Add", hidden, self._attention(self._layer_norm(hidden), self._context))
            hidden = self._like("Add", hidden, self._feed_forward(self._layer_norm(hidden), channels, side))
        return self._like("Add", self._like("Conv", self._like("Transpose", hidden)), read)

    def _attention(self, read: str, context: str) -> str:
        """Add attention of every position to all others, or to the context if there is one."""
        config, wiring, elements = self._config, self._wiring, self._wiring.elements(read)
        queries = elements // self._width[read]
        keys = config.batch * config.context_tokens if context else queries
        query = self._like("Transpose", self._like("MatMul", read))
        key, value = (
            wiring.add("Transpose", (wiring.add("MatMul", (context or read,), keys * self._width[read]),), there)
            for there in (keys * self._width[read],) * 2
        )
        scores = config.heads * queries * keys // config.batch
        turned = wiring.add("Transpose", (key,), wiring.elements(key))
        scaled = wiring.add("Mul", (wiring.add("MatMul", (query, turned), scores),), scores)
        found = wiring.add("MatMul", (wiring.add("Softmax", (scaled,), scores), value), elements)
        self._width[found] = self._width[read]
        return self._like("Add", self._like("MatMul", self._like("Transpose", found)))

    def _feed_forward(self, read: str, channels: int, side: int) -> str:
        wide = FEED_FORWARD * channels
        both = self._add("Add", (self._add("MatMul", (read,), 2 * wide, side),), 2 * wide, side)
        value, gate = (self._add("Slice", (both,), wide, side) for _ in range(2))
        risen = self._like("Add", self._like("Erf", self._like("Div", gate)))
        active = self._like("Mul", self._like("Mul", gate, risen))
        out = self._add("MatMul", (self._like("Mul", value, active),), channels, side)
        return self._like("Add", out)

    def _group_norm(self, read: str) -> str:
        return self._like("Add", self._like("Mul", self._like("InstanceNormalization", read)))

    def _layer_norm(self, read: str) -> str:
        rows = self._wiring.elements(read) // self._width[read]
        centred = self._like("Sub", read, self._wiring.add("ReduceMean", (read,), rows))
        spread = self._wiring.add("ReduceMean", (self._like("Pow", centred),), rows)
        root = self._wiring.add("Sqrt", (self._wiring.add("Add", (spread,), rows),), rows)
        return self._like("Add", self._like("Mul", self._like("Div", centred, root)))

    def _active(self, read: str) -> str:
        return self._like("Mul", read, self._like("Sigmoid", read))

    def _silu(self, read: str) -> str:
        elements = self._wiring.elements(read)
        return self._wiring.add("Mul", (read, self._wiring.add("Sigmoid", (read,), elements)), elements)

    def _conv(self, read: str, channels: int, side: int) -> str:
        return self._add("Conv", (read,), channels, side)

    def _like(self, kind: str, read: str, *others: str) -> str:
        """Add an operator whose output is as large as its first input."""
        written = self._wiring.add(kind, (read, *others), self._wiring.elements(read))
        self._width[written] = self._width[read]
        return written

    def _add(self, kind: str, reads: tuple[str, ...], channels: int, side: int) -> str:
        written = self._wiring.add(kind, reads, self._config.batch * channels * side**2)
        self._width[written] = channels
        return written
