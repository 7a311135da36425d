"""The networks that torch builds: how each is made and the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from torch import nn

from networks.amoebanet import AmoebaNetD
from networks.darts import DartsV2
from networks.published import timm_network, torchvision_network

IMAGE = ((1, 3, 224, 224),)
VIDEO = ((1, 3, 16, 224, 224),)


@dataclass(frozen=True)
class Network:
    """`build` makes the module on the current device."""

    build: Callable[[], nn.Module]
    input_shapes: tuple[tuple[int, ...], ...]


NETWORKS: Mapping[str, Network] = {
    "amoebanetd_18_256": Network(AmoebaNetD, IMAGE),
    "darts_v2": Network(DartsV2, IMAGE),
    "deeplabv3_resnet50": Network(partial(torchvision_network, "deeplabv3_resnet50"), IMAGE),
    "densenet121": Network(partial(torchvision_network, "densenet121"), IMAGE),
    "fcn_resnet50": Network(partial(torchvision_network, "fcn_resnet50"), IMAGE),
    "lraspp_mobilenet_v3_large": Network(partial(torchvision_network, "lraspp_mobilenet_v3_large"), IMAGE),
    "nasnetalarge": Network(partial(timm_network, "nasnetalarge"), IMAGE),
    "pnasnet5large": Network(partial(timm_network, "pnasnet5large"), IMAGE),
    "r2plus1d_18": Network(partial(torchvision_network, "r2plus1d_18"), VIDEO),
    "resnet50": Network(partial(torchvision_network, "resnet50"), IMAGE),
    "resnext50_32x4d": Network(partial(torchvision_network, "resnext50_32x4d"), IMAGE),
    "s3d": Network(partial(torchvision_network, "s3d"), VIDEO),
    "transformer": Network(nn.Transformer, ((10, 32, 512), (20, 32, 512))),
    "vit_b_16": Network(partial(torchvision_network, "vit_b_16"), IMAGE),
}
