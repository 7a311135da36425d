"""BatchNormalizations into which a view is folded write the map with other dimensions of one element."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from onchip.api.networks import read_network
from support.onnx_networks import integers, make_node, model, value
from support.tiled import difference_in_tiles, split_to_share, whole_tensor_differences

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models: pip install 'onchip[run]'")


@pytest.mark.parametrize("written", [[1, 24, 6], [24, 1, 6], [24, 6, 1, 1]])
def test_it_is_cut_along_the_dimensions_that_both_have(written: list[int], tmp_path: Path) -> None:
    chance = np.random.default_rng(2)
    names = ["s", "b", "m", "v"]
    parameters = [numpy_helper.from_array(chance.uniform(1, 2, 6).astype(np.float32), name) for name in names]
    nodes = [
        make_node("BatchNormalization", ["x", *names], ["y"], name="op"),
        make_node("Reshape", ["y", "shape"], ["r"], name="view"),
        make_node("Relu", ["r"], ["z"], name="after"),
    ]
    path = tmp_path / "network.onnx"
    network = model(nodes, [value("x", [24, 6])], ["z"], [*parameters, integers("shape", written)])
    path.write_bytes(network.SerializeToString())
    whole = read_network(str(path))
    assert whole.tensor[whole.operator["op"].outputs[0]].shape == tuple(written)
    for share in (0.6, 0.1):
        assert difference_in_tiles(split_to_share(whole, share, is_model=True), whole, path) == 0
        assert whole_tensor_differences(split_to_share(whole, share, is_model=False), whole) == ()
