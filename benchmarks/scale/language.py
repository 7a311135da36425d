"""Language models by their configuration: forward, and a training step."""

from __future__ import annotations

from dataclasses import dataclass

from scale.training import ForwardPass, trained
from scale.wiring import Wiring

from onchip.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A stack of transformer layers; `norm_first` as in GPT-2, otherwise as in BERT.

    With `heads_apart` the attention of each head consists of separate operators.
    """

    name: str
    layers: int
    width: int
    heads: int
    vocabulary: int
    norm_first: bool = True
    heads_apart: bool = False


GPT2 = LanguageModel("gpt2", 12, 768, 12, 50257)
GPT2_HEADS_APART = LanguageModel("gpt2-heads", 12, 768, 12, 50257, heads_apart=True)
BERT = LanguageModel("bert", 12, 768, 12, 30522, norm_first=False)


def forward_pass(model: LanguageModel, tokens: int, batch: int) -> tuple[ForwardPass, str]:
    """Return the operators of one pass over `tokens` tokens of each sample, and the name of the logits."""
    layers = _Layers(model, tokens, batch)
    return layers.forward, layers.logits()


def training_of(model: LanguageModel, tokens: int = 1024, batch: int = 1) -> Graph:
    """Return a training step in two-byte elements."""
    forward, logits = forward_pass(model, tokens, batch)
    target = forward.wiring.input("target", tokens * batch)
    return trained(f"{model.name}-training", forward, logits, target)


class _Layers:
    def __init__(self, model: LanguageModel, tokens: int, batch: int) -> None:
        self._model, self._tokens, self._batch = model, tokens, batch
        self.forward = ForwardPass(Wiring())

    def logits(self) -> str:
        model, rows = self._model, self._tokens * self._batch
        ids = self.forward.wiring.input("tokens", rows)
        hidden = self.forward.add("Embedding", (ids,), rows * model.width, model.vocabulary * model.width)
        for _ in range(model.layers):
            hidden = self._layer(hidden)
        if model.norm_first:
            hidden = self._norm(hidden)
        return self._linear(hidden, model.vocabulary)

    def _layer(self, hidden: str) -> str:
        if self._model.norm_first:
            hidden = self._sum(hidden, self._attention(self._norm(hidden)))
            return self._sum(hidden, self._feed_forward(self._norm(hidden)))
        hidden = self._norm(self._sum(hidden, self._attention(hidden)))
        return self._norm(self._sum(hidden, self._feed_forward(hidden)))

    def _attention(self, hidden: str) -> str:
        model = self._model
        groups = model.heads if model.heads_apart else 1
        heads = model.heads // groups
        found = [self._head(hidden, model.width // groups, heads) for _ in range(groups)]
        mixed = found[0] if groups == 1 else self.forward.add("Concat", tuple(found), self._rows * model.width)
        return self._linear(mixed, model.width)

    def _head(self, hidden: str, width: int, heads: int) -> str:
        query, key, value = (self._linear(hidden, width) for _ in range(3))
        scores = heads * self._rows * self._tokens
        macs = self._rows * self._tokens * width
        product = self.forward.add("MatMul", (query, key), scores, macs=macs)
        weights = self.forward.add("Softmax", (self.forward.add("Scale", (product,), scores),), scores)
        return self.forward.add("MatMul", (weights, value), self._rows * width, macs=macs)

    def _feed_forward(self, hidden: str) -> str:
        inner = self._linear(hidden, 4 * self._model.width)
        active = self.forward.add("Gelu", (inner,), self.forward.wiring.elements(inner))
        return self._linear(active, self._model.width)

    @property
    def _rows(self) -> int:
        return self._tokens * self._batch

    def _linear(self, read: str, width: int) -> str:
        weights = self.forward.wiring.elements(read) // self._rows * width
        return self.forward.add("Linear", (read,), self._rows * width, weights, self._rows * weights)

    def _norm(self, read: str) -> str:
        return self.forward.add("LayerNorm", (read,), self.forward.wiring.elements(read), 2 * self._model.width)

    def _sum(self, one: str, other: str) -> str:
        return self.forward.add("Add", (one, other), self.forward.wiring.elements(one))
