"""The five networks on which DeFiNES (HPCA 2023) runs, as their own papers have them: with padding and activations.

8 bits an element, no biases; written here from their layers' sizes. Raw: batch norms and activations are operators of
their own. Image sizes are those of DeFiNES's last feature maps, ImageNet's for the two classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from networks.builder import Builder
from networks.defines import BITS, DMCNN_VD, FSRCNN, MC_CNN, MOBILENETV1, RESNET18
from onchip.ir.graph import Graph


def fsrcnn() -> Graph:
    """FSRCNN(56, 12, 4) of Dong et al. (ECCV 2016): 960 x 540 pixels become 3840 x 2160 in the last layer."""
    network = Builder(BITS)
    image = network.input("input", (1, 1, 540, 960))
    for index, (channels, kernel) in enumerate(FSRCNN[:-1]):
        image = network.convolution(f"conv{index}", image, channels, kernel, same=True)
        slope = network.parameter(f"conv{index}.slope", (channels, 1, 1))
        image = network.operator(f"conv{index}.prelu", "PRelu", (image,), network.shape(image), (slope,))
    return network.graph("fsrcnn", network.transposed_convolution("deconv7", image, 1, 9, 4, pad=4, more=3))


def dmcnn_vd() -> Graph:
    """The deeper network of Syu et al. (2018) on 768 x 512 pixels, one of Kodak's images.

    What it computes is added to a bilinear interpolation, outside the network.
    """
    network = Builder(BITS)
    image = network.input("input", (1, 3, 512, 768))
    for index, (channels, kernel) in enumerate(DMCNN_VD[:-1]):
        image = network.convolution(f"conv{index}", image, channels, kernel, same=True)
        image = network.elementwise(f"conv{index}.selu", "Selu", network.batch_norm(f"conv{index}.bn", image))
    return network.graph("dmcnn-vd", network.convolution("conv19", image, *DMCNN_VD[-1], same=True))


def mc_cnn() -> Graph:
    """The features of one image in the fast network of Zbontar and LeCun (JMLR 2016), on 1242 x 376 of KITTI's pixels.

    Their comparison with the other image's is outside the network.
    """
    network = Builder(BITS)
    image = network.input("input", (1, 1, 376, 1242))
    for index, (channels, kernel) in enumerate(MC_CNN):
        image = network.convolution(f"conv{index}", image, channels, kernel, same=True)
        if index < len(MC_CNN) - 1:
            image = network.elementwise(f"conv{index}.relu", "Relu", image)
    return network.graph("mc-cnn", image)


def mobilenetv1() -> Graph:
    """Howard et al. (2017), width 1, on 224 x 224 pixels, padded as TensorFlow does."""
    network = Builder(BITS)
    image = _normalised(network, "conv0", network.input("input", (1, 3, 224, 224)), 32, 2)
    for index, (channels, stride) in enumerate(MOBILENETV1):
        depth = network.shape(image)[1]
        image = _normalised(network, f"depthwise{index}", image, depth, stride, groups=depth)
        image = _normalised(network, f"pointwise{index}", image, channels, kernel=1)
    return network.graph("mobilenetv1", network.fully_connected("fc", network.average_of_all("pool", image), 1000))


def resnet18() -> Graph:
    """He et al. (CVPR 2016) on 224 x 224 pixels, as torchvision has it: projections where a block halves the map."""
    network = Builder(BITS)
    image = network.convolution("conv0", network.input("input", (1, 3, 224, 224)), 64, 7, 2, same=False, pad=3)
    image = network.elementwise("conv0.relu", "Relu", network.batch_norm("conv0.bn", image))
    image = network.max_pool("pool0", image, 3, 2, pad=1)
    for block, channels in enumerate(RESNET18):
        image = _block(network, f"block{block}", image, channels)
    return network.graph("resnet18", network.fully_connected("fc", network.average_of_all("pool", image), 1000))


def _normalised(
    network: Builder, name: str, source: str, channels: int, stride: int = 1, *, kernel: int = 3, groups: int = 1
) -> str:
    image = network.convolution(name, source, channels, kernel, stride, same=True, groups=groups)
    return network.elementwise(f"{name}.relu", "Relu", network.batch_norm(f"{name}.bn", image))


def _block(network: Builder, name: str, source: str, channels: int) -> str:
    stride = channels // network.shape(source)[1]
    image = network.convolution(f"{name}.conv0", source, channels, 3, stride, same=False, pad=1)
    image = network.elementwise(f"{name}.relu0", "Relu", network.batch_norm(f"{name}.bn0", image))
    image = network.convolution(f"{name}.conv1", image, channels, 3, same=False, pad=1)
    image = network.batch_norm(f"{name}.bn1", image)
    shortcut = source
    if stride > 1:
        shortcut = network.convolution(f"{name}.shortcut", source, channels, 1, stride, same=False)
        shortcut = network.batch_norm(f"{name}.shortcut.bn", shortcut)
    return network.elementwise(f"{name}.relu", "Relu", network.elementwise(f"{name}.add", "Add", image, shortcut))


PADDED_NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "dmcnn-vd": dmcnn_vd,
    "fsrcnn": fsrcnn,
    "mc-cnn": mc_cnn,
    "mobilenetv1": mobilenetv1,
    "resnet18": resnet18,
}
