"""Inference of language models by configuration, with shapes: prefill of a prompt, and decoding of one token.

Like Llama (RMS normalisation, rotary positions, heads that share keys, gated feed-forward), like GPT-2 (layer
normalisation, GELU), and mixtures of experts like Mixtral's. Operators are ONNX's, elements one byte unless said.

A decoding step reads the keys and values of all earlier tokens and writes those of all; `context` counts its own.
Which experts a token goes to is data: without a seed all experts get equal shares of the tokens (of which one token
goes to the first ones); with a seed each token of each layer draws its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor


@dataclass(frozen=True, slots=True)
class InferredModel:
    """A decoder-only transformer, `gated` as in Llama or else as in GPT-2.

    `inner` is the width of the feed-forward networks. There are `experts` of them; each token goes through `active`
    ones.
    """

    name: str
    layers: int
    width: int
    heads: int
    key_heads: int
    inner: int
    vocabulary: int
    gated: bool = True
    experts: int = 1
    active: int = 1

    @property
    def head_width(self) -> int:
        """Return how many elements a key has."""
        return self.width // self.heads


LLAMA_7B: Final = InferredModel("llama-7b", 32, 4096, 32, 32, 11008, 32000)
LLAMA3_8B: Final = InferredModel("llama3-8b", 32, 4096, 32, 8, 14336, 128256)
GPT2_SMALL: Final = InferredModel("gpt2-small", 12, 768, 12, 12, 3072, 50257, gated=False)
MIXTRAL_8X7B: Final = InferredModel("mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, experts=8, active=2)
MODELS: Final = (LLAMA_7B, LLAMA3_8B, GPT2_SMALL, MIXTRAL_8X7B)


def prefill(model: InferredModel, tokens: int, batch: int = 1, seed: int | None = None, bits: int = 8) -> Graph:
    """Return the pass over a prompt of `tokens` tokens, with the next token's logits."""
    return _Pass(model, tokens, tokens, batch, seed, bits).graph(f"{model.name}-prefill-{tokens}")


def decode(model: InferredModel, context: int, batch: int = 1, seed: int | None = None, bits: int = 8) -> Graph:
    """Return the step that makes one token of each sample, which meets `context` keys, its own among them."""
    return _Pass(model, 1, context, batch, seed, bits).graph(f"{model.name}-decode-{context}")


@dataclass(slots=True)
class _Pass:
    """Operators in the order in which they run; `new` tokens of each sample meet `met` keys."""

    model: InferredModel
    new: int
    met: int
    batch: int
    seed: int | None
    bits: int
    _tensors: dict[str, tuple[Role, tuple[int, ...]]] = field(default_factory=dict)
    _operators: list[Operator] = field(default_factory=list)

    def graph(self, name: str) -> Graph:
        model, random = self.model, None if self.seed is None else Random(self.seed)
        tokens = self._given("tokens", Role.INPUT, (self.batch, self.new))
        table = self._given("embedding", Role.PARAMETER, (model.vocabulary, model.width))
        hidden = self._add("embedded", "Gather", (tokens,), (self.batch, self.new, model.width), (table,))
        for at in range(model.layers):
            layer = f"layer{at}"
            mixed = self._attention(layer, self._norm(f"{layer}.norm", hidden))
            hidden = self._sum(f"{layer}.attended", hidden, mixed)
            fed = self._norm(f"{layer}.feed_norm", hidden)
            fed = self._mixture(layer, fed, random) if model.experts > 1 else self._feed_forward(layer, fed)
            hidden = self._sum(f"{layer}.fed", hidden, fed)
        last = self._norm("norm", hidden)
        if self.new > 1:
            last = self._add("last", "Slice", (last,), (self.batch, 1, model.width))
        self._linear("logits", last, model.vocabulary)
        return self._named(name)

    def _attention(self, layer: str, hidden: str) -> str:
        model, keys_width = self.model, self.model.key_heads * self.model.head_width
        query = self._linear(f"{layer}.query", hidden, model.width)
        key = self._linear(f"{layer}.key", hidden, keys_width)
        value = self._linear(f"{layer}.value", hidden, keys_width)
        if model.gated:
            query, key = (
                self._add(f"{one}.rotated", "RotaryEmbedding", (one,), self._shape(one)) for one in (query, key)
            )
        cache = [
            self._given(f"{layer}.past_{what}", Role.INPUT, self._cache(self.met - self.new))
            for what in ("keys", "values")
            if self.met > self.new
        ]
        present = (f"{layer}.keys", f"{layer}.values")
        for name in present:
            self._tensors[name] = Role.OUTPUT, self._cache(self.met)
        heads: dict[str, AttributeValue] = {"q_num_heads": model.heads, "kv_num_heads": model.key_heads}
        met = self._shape(query)
        mixed = self._add(f"{layer}.attention", "Attention", (query, key, value, *cache), met, (), heads, present)
        return self._linear(f"{layer}.projected", mixed, model.width)

    def _cache(self, keys: int) -> tuple[int, ...]:
        return self.batch, self.model.key_heads, keys, self.model.head_width

    def _feed_forward(self, name: str, hidden: str) -> str:
        inner = self._linear(f"{name}.inner", hidden, self.model.inner)
        active = self._add(f"{inner}.active", "Silu" if self.model.gated else "Gelu", (inner,), self._shape(inner))
        if self.model.gated:
            upper = self._linear(f"{name}.upper", hidden, self.model.inner)
            active = self._add(f"{name}.gated", "Mul", (active, upper), self._shape(inner))
        return self._linear(f"{name}.outer", active, self.model.width)

    def _mixture(self, layer: str, hidden: str, random: Random | None) -> str:
        """Add the experts, each of which reads its tokens' rows, and the weighted sum of their outputs."""
        scores = self._linear(f"{layer}.router", hidden, self.model.experts)
        chosen = self._add(f"{layer}.chosen", "TopK", (scores,), (self.batch, self.new, self.model.active))
        written = []
        for expert, rows in enumerate(self._rows_of_experts(random)):
            if rows:
                name = f"{layer}.expert{expert}"
                own = self._add(f"{name}.rows", "Gather", (hidden, chosen), (1, rows, self.model.width))
                written.append(self._feed_forward(name, own))
        return self._add(f"{layer}.mixed", "ScatterElements", (*written, chosen), self._shape(hidden))

    def _rows_of_experts(self, random: Random | None) -> Sequence[int]:
        model, tokens = self.model, self.batch * self.new
        if random is None:
            share, left = divmod(tokens * model.active, model.experts)
            return [share + (expert < left) for expert in range(model.experts)]
        drawn = Counter(one for _ in range(tokens) for one in random.sample(range(model.experts), model.active))
        return [drawn[expert] for expert in range(model.experts)]

    def _linear(self, name: str, read: str, width: int) -> str:
        *rows, depth = self._shape(read)
        weight = self._given(f"{name}.weight", Role.PARAMETER, (depth, width))
        return self._add(name, "MatMul", (read,), (*rows, width), (weight,))

    def _norm(self, name: str, read: str) -> str:
        kind = "RMSNormalization" if self.model.gated else "LayerNormalization"
        scale = self._given(f"{name}.scale", Role.PARAMETER, (self.model.width,))
        return self._add(name, kind, (read,), self._shape(read), (scale,))

    def _sum(self, name: str, one: str, other: str) -> str:
        return self._add(name, "Add", (one, other), self._shape(one))

    def _shape(self, tensor: str) -> tuple[int, ...]:
        return self._tensors[tensor][1]

    def _given(self, name: str, role: Role, shape: tuple[int, ...]) -> str:
        self._tensors[name] = role, shape
        return name

    def _add(
        self,
        name: str,
        kind: str,
        reads: tuple[str, ...],
        shape: tuple[int, ...],
        parameters: tuple[str, ...] = (),
        attributes: dict[str, AttributeValue] | None = None,
        beside: tuple[str, ...] = (),
    ) -> str:
        """Add an operator that writes a tensor of its own name, and the tensors `beside`; return the name."""
        self._tensors[name] = Role.ACTIVATION, shape
        self._operators.append(Operator(name, kind, reads, (name, *beside), parameters, attributes or {}))
        return name

    def _named(self, name: str) -> Graph:
        read = {tensor for operator in self._operators for tensor in operator.inputs}
        tensors = []
        for tensor, (role, shape) in self._tensors.items():
            is_last = role is Role.ACTIVATION and tensor not in read
            size = -(-prod(shape) * self.bits // 8)
            tensors.append(Tensor(tensor, size, Role.OUTPUT if is_last else role, shape, self.bits))
        samples = "" if self.batch == 1 else f"-batch-{self.batch}"
        drawn = "" if self.seed is None else f"-seed-{self.seed}"
        return Graph(f"{name}{samples}{drawn}", tuple(tensors), tuple(self._operators))
