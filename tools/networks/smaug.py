"""The eight networks of SMAUG (Xi et al., TACO 2020) on which the multi-scratchpad thesis (Jang, 2023) runs.

16 bits an element, batch 1, no biases; written here from their layers' sizes. Raw: an activation is an
operator of its own, though SMAUG runs most within the convolution or product (as `fuse` has it). What
only changes the layout (SMAUG's reorder before a product) copies nothing here and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from networks.builder import Builder
from onchip.ir.graph import Graph

BITS = 16
POOL = "pool"
CIFAR = (1, 3, 32, 32)
Layer = str | tuple[int, int]

VGG: tuple[Layer, ...] = (
    *((64, 3), (128, 3), POOL),
    *((128, 3), (128, 3), POOL),
    *((256, 3), (256, 3), (256, 3), POOL),
    *((512, 3), (512, 3), (512, 3), POOL),
)
ELU: tuple[Layer, ...] = (
    *((192, 5), POOL),
    *((192, 1), (240, 3), POOL),
    *((240, 1), (260, 2), POOL),
    *((260, 1), (280, 2), POOL),
    *((280, 1), (300, 2), POOL),
    *((300, 1), (100, 1)),
)
# The fifth pool leaves one pixel: from there a 2x2 kernel sees that pixel and three of padding.
LARGE_ELU: tuple[Layer, ...] = (
    *((384, 3), POOL),
    *((384, 1), (384, 2), (640, 2), (640, 2), POOL),
    *((640, 1), (768, 2), (768, 2), (768, 2), POOL),
    *((768, 1), (896, 2), (896, 2), POOL),
    *((896, 3), (1024, 2), (1024, 2), POOL),
    *((1024, 1), (1152, 2), (1152, 1), (100, 1)),
)
# Channels within and at the end of each stage's blocks, and how many blocks.
RESNET50 = ((64, 256, 3), (128, 512, 4), (256, 1024, 6), (512, 2048, 3))
STEPS, UNITS = 4, 32


def minerva() -> Graph:
    """Three hidden layers on MNIST's 784 pixels."""
    network = Builder(BITS)
    row = network.input("input", (1, 784))
    for index in range(3):
        row = network.elementwise(f"relu{index}", "Relu", network.fully_connected(f"fc{index}", row, 256))
    return network.graph("minerva", network.fully_connected("fc3", row, 10))


def lenet5() -> Graph:
    """Two valid 3x3 convolutions on MNIST, then 4608-128-10."""
    network = Builder(BITS)
    image = network.input("input", (1, 1, 28, 28))
    for index in range(2):
        image = network.convolution(f"conv{index}", image, 32, 3, same=False)
        image = network.elementwise(f"conv{index}.relu", "Relu", image)
    return network.graph("lenet5", _classifier(network, network.max_pool("pool", image), 128))


def smaug_cnn() -> Graph:
    """CIFAR-10. No batch norm follows a convolution directly, so that none folds into one."""
    network = Builder(BITS)
    image = _convolution(network, "conv0", network.input("input", CIFAR), 32)
    image = network.batch_norm("bn0", image)
    image = network.max_pool("pool0", _convolution(network, "conv1", image, 32))
    image = network.batch_norm("bn1", image)
    image = _convolution(network, "conv2", image, 64)
    image = network.max_pool("pool1", _convolution(network, "conv3", image, 64))
    return network.graph("smaug_cnn", _classifier(network, network.batch_norm("bn2", image), 512))


def vgg_cifar() -> Graph:
    """Ten 3x3 convolutions on CIFAR-10."""
    network = Builder(BITS)
    image = _layers(network, network.input("input", CIFAR), VGG, "Relu")
    return network.graph("vgg_cifar", _classifier(network, image, 512))


def elu_cifar100() -> Graph:
    """CIFAR-100 without fully connected layers; the last convolution has its ELU too."""
    network = Builder(BITS)
    return network.graph("elu_cifar100", _layers(network, network.input("input", CIFAR), ELU, "Elu"))


def large_elu() -> Graph:
    """The same, deeper and wider."""
    network = Builder(BITS)
    return network.graph("large_elu", _layers(network, network.input("input", CIFAR), LARGE_ELU, "Elu"))


def resnet50_smaug() -> Graph:
    """ResNet-50 on 225x225 pixels, 10 classes, no global pool.

    The stride is on a block's 3x3 convolution. SMAUG's pool is 3x3 of stride 2, which leaves 56 of 113
    pixels, as 2x2 would.
    """
    network = Builder(BITS)
    image = network.convolution("conv0", network.input("input", (1, 3, 225, 225)), 64, 7, 2, same=True)
    image = network.elementwise("relu0", "Relu", network.batch_norm("bn0", image))
    image = network.max_pool("pool", image, 3, 2)
    for stage, (within, channels, blocks) in enumerate(RESNET50):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            image = _bottleneck(network, f"stage{stage}.block{block}", image, within, channels, stride)
    return network.graph("resnet50_smaug", network.fully_connected("fc", image, 10))


def lstm() -> Graph:
    """Two layers of 32 units over four steps, unrolled; the output is the last step's hidden state.

    The initial states are network inputs. One Split makes the sequence's rows; of a step's 13 operators
    the gates' order is input, forget, new, output.
    """
    network = Builder(BITS)
    rows = network.split("unstack", network.input("input", (1, STEPS, UNITS)), STEPS, (1, UNITS), axis=1)
    for layer in range(2):
        rows = _lstm_layer(network, f"lstm{layer}", rows)
    return network.graph("lstm", rows[-1])


def _lstm_layer(network: Builder, name: str, rows: tuple[str, ...]) -> tuple[str, ...]:
    kernel = network.parameter(f"{name}.kernel", (4 * UNITS, UNITS))
    recurrent = network.parameter(f"{name}.recurrent_kernel", (4 * UNITS, UNITS))
    hidden, cell = (network.input(f"{name}.{state}", (1, UNITS)) for state in ("hidden", "cell"))
    written = []
    for step, row in enumerate(rows):
        at = f"{name}.step{step}"
        products = network.product(f"{at}.matmul_x", row, kernel), network.product(f"{at}.matmul_h", hidden, recurrent)
        gates = network.split(
            f"{at}.split", network.elementwise(f"{at}.add_z", "Add", *products), 4, (1, UNITS), axis=1
        )
        admit, forget, new, emit = (
            network.elementwise(f"{at}.{kind.lower()}_{gate}", kind, source)
            for gate, kind, source in zip("ifco", ("Sigmoid", "Sigmoid", "Tanh", "Sigmoid"), gates, strict=True)
        )
        kept = network.elementwise(f"{at}.mul_f", "Mul", forget, cell)
        cell = network.elementwise(f"{at}.add_c", "Add", kept, network.elementwise(f"{at}.mul_i", "Mul", admit, new))
        hidden = network.elementwise(f"{at}.mul_h", "Mul", emit, network.elementwise(f"{at}.tanh_h", "Tanh", cell))
        written.append(hidden)
    return tuple(written)


def _bottleneck(network: Builder, name: str, source: str, within: int, channels: int, stride: int) -> str:
    """Each stage's first block has a convolution on its shortcut."""
    image = source
    for index, (width, kernel) in enumerate(((within, 1), (within, 3), (channels, 1))):
        image = network.convolution(f"{name}.conv{index}", image, width, kernel, stride if index == 1 else 1, same=True)
        image = network.batch_norm(f"{name}.bn{index}", image)
        if index < 2:
            image = network.elementwise(f"{name}.relu{index}", "Relu", image)
    shortcut = source
    if network.shape(source)[1] != channels:
        shortcut = network.convolution(f"{name}.shortcut", source, channels, 1, stride, same=True)
        shortcut = network.batch_norm(f"{name}.shortcut.bn", shortcut)
    return network.elementwise(f"{name}.relu", "Relu", network.elementwise(f"{name}.add", "Add", image, shortcut))


def _layers(network: Builder, source: str, layers: tuple[Layer, ...], activation: str) -> str:
    """Convolutions of stride 1 with `same` padding and an activation, and pools, one after the other."""
    convolutions = pools = 0
    for layer in layers:
        if isinstance(layer, str):
            source = network.max_pool(f"pool{pools}", source)
            pools += 1
        else:
            source = _convolution(network, f"conv{convolutions}", source, *layer, activation=activation)
            convolutions += 1
    return source


def _convolution(
    network: Builder, name: str, source: str, channels: int, kernel: int = 3, *, activation: str = "Relu"
) -> str:
    image = network.convolution(name, source, channels, kernel, same=True)
    return network.elementwise(f"{name}.{activation.lower()}", activation, image)


def _classifier(network: Builder, image: str, hidden: int) -> str:
    row = network.elementwise("fc0.relu", "Relu", network.fully_connected("fc0", image, hidden))
    return network.fully_connected("fc1", row, 10)


SMAUG_NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "elu_cifar100": elu_cifar100,
    "large_elu": large_elu,
    "lenet5": lenet5,
    "lstm": lstm,
    "minerva": minerva,
    "resnet50_smaug": resnet50_smaug,
    "smaug_cnn": smaug_cnn,
    "vgg_cifar": vgg_cifar,
}
