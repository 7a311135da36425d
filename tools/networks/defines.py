"""The five networks of DeFiNES (HPCA 2023), KULeuven-MICAS/DeFiNES, commit 7097d60, inputs/WL (BSD-3-Clause).

8 bits an element, no padding, no activations: each layer reads as many pixels as its outputs see, so that feature
maps grow towards the input. DeFiNES works out all sizes backwards from the last layer, whatever its files say: its
DMCNN-VD has ten columns more in the first fifteen layers than in the file, and the inputs of three networks are
larger. Operators are named for their kind and their number in the files.

ResNet18 has no projections there: an addition reads what lies in the middle of the larger map. Where its block halves
the map, we take every second pixel, and zeros for the channels that are missing (option A of ResNet's authors).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from networks.builder import Builder, Shape
from onchip.ir.graph import Graph

BITS = 8
Layer = tuple[int, int]
"""Output channels, and rows and columns of the kernel."""

FSRCNN: tuple[Layer, ...] = ((56, 5), (12, 1), (12, 3), (12, 3), (12, 3), (12, 3), (56, 1), (16, 3))
DMCNN_VD: tuple[Layer, ...] = (*(((64, 3),) * 19), (3, 3))
MC_CNN: tuple[Layer, ...] = ((64, 3),) * 4
# Channels of the convolution that mixes them, and the stride of the one before it, which does not.
MOBILENETV1 = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *(((512, 1),) * 5),
    *((1024, 2), (1024, 1)),
)
RESNET18 = (64, 64, 128, 128, 256, 256, 512, 512)


def fsrcnn_defines() -> Graph:
    """The last layer is the transposed convolution by 4, as one convolution to each of 16 pixels: 960 x 540 of them."""
    return _chain("fsrcnn-defines", (1, 1, 554, 974), FSRCNN)


def dmcnn_vd_defines() -> Graph:
    """Writes 768 x 512 pixels."""
    return _chain("dmcnn-vd-defines", (1, 3, 552, 808), DMCNN_VD)


def mc_cnn_defines() -> Graph:
    """One of the two images; lies on its side: 376 columns of 1242 rows."""
    return _chain("mc-cnn-defines", (1, 1, 1250, 384), MC_CNN)


def mobilenetv1_defines() -> Graph:
    """The last layer, fully connected, is a convolution over one pixel."""
    network = Builder(BITS)
    image = network.convolution("conv0", network.input("input", (1, 3, 507, 507)), 32, 3, 2, same=False)
    for index, (channels, stride) in enumerate(MOBILENETV1):
        depth = network.shape(image)[1]
        image = network.convolution(f"conv{2 * index + 1}", image, depth, 3, stride, same=False, groups=depth)
        image = network.convolution(f"conv{2 * index + 2}", image, channels, 1, same=False)
    image = network.average_of_all("pool27", image)
    return network.graph("mobilenetv1-defines", network.convolution("conv28", image, 1000, 1, same=False))


def resnet18_defines() -> Graph:
    """Two convolutions and an addition a block."""
    network = Builder(BITS)
    image = network.convolution("conv0", network.input("input", (1, 3, 627, 627)), 64, 7, 2, same=False)
    image = network.max_pool("pool1", image, 3, 2)
    for block, channels in enumerate(RESNET18):
        first = 3 * block + 2
        stride = channels // network.shape(image)[1]
        inner = network.convolution(f"conv{first}", image, channels, 3, stride, same=False)
        inner = network.convolution(f"conv{first + 1}", inner, channels, 3, same=False)
        middle = network.crop(f"crop{first + 2}", image, 1 + stride, network.shape(inner)[-1], stride)
        if stride > 1:
            middle = network.more_channels(f"pad{first + 2}", middle, channels)
        image = network.elementwise(f"add{first + 2}", "Add", middle, inner)
    image = network.average_of_all("pool26", image)
    return network.graph("resnet18-defines", network.convolution("conv27", image, 1000, 1, same=False))


def _chain(name: str, shape: Shape, layers: tuple[Layer, ...]) -> Graph:
    network = Builder(BITS)
    image = network.input("input", shape)
    for index, (channels, kernel) in enumerate(layers):
        image = network.convolution(f"conv{index}", image, channels, kernel, same=False)
    return network.graph(name, image)


DEFINES_NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "dmcnn-vd-defines": dmcnn_vd_defines,
    "fsrcnn-defines": fsrcnn_defines,
    "mc-cnn-defines": mc_cnn_defines,
    "mobilenetv1-defines": mobilenetv1_defines,
    "resnet18-defines": resnet18_defines,
}
