"""Recurrent cells of all kinds, as ONNX models of one operator named `cell`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from onnx import numpy_helper
from onnx.helper import make_node

from support.onnx_networks import model, value

Values = npt.NDArray[np.float64]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True)
class Case:
    kind: str
    steps: int
    batch: int
    features: int
    state: int
    directions: int = 1
    has_state: bool = True
    is_reset_late: bool = False
    layout: int = 0

    @property
    def rows(self) -> int:
        return GATES[self.kind] * self.state

    def values(self, seed: int) -> dict[str, Values]:
        random = np.random.default_rng(seed)
        order = (self.batch, self.steps) if self.layout else (self.steps, self.batch)
        start = (self.batch, self.directions) if self.layout else (self.directions, self.batch)
        shapes = {
            "x": (*order, self.features),
            "w": (self.directions, self.rows, self.features),
            "r": (self.directions, self.rows, self.state),
            **({"h0": (*start, self.state)} if self.has_state else {}),
        }
        return {name: random.normal(size=shape).astype(np.float32).astype(float) for name, shape in shapes.items()}

    def model(self, values: dict[str, Values]) -> bytes:
        attributes: dict[str, Any] = {"hidden_size": self.state}
        if self.directions == 2:
            attributes["direction"] = "bidirectional"
        if self.layout:
            attributes["layout"] = 1
        if self.kind == "GRU":
            attributes["linear_before_reset"] = int(self.is_reset_late)
        inputs = ["x", "w", "r", "", "", *(["h0"] if self.has_state else [])]
        node = make_node(self.kind, inputs, ["y"], name="cell", **attributes)
        fed = [value(name, array.shape) for name, array in values.items() if name in ("x", "h0")]
        kept = [
            numpy_helper.from_array(array.astype(np.float32), name)
            for name, array in values.items()
            if name in ("w", "r")
        ]
        return bytes(model([node], fed, ["y"], kept).SerializeToString())


cases = st.builds(
    Case,
    st.sampled_from(sorted(GATES)),
    steps=st.integers(1, 3),
    batch=st.integers(1, 2),
    features=st.integers(1, 3),
    state=st.integers(1, 3),
    directions=st.integers(1, 2),
    has_state=st.booleans(),
    is_reset_late=st.booleans(),
)
