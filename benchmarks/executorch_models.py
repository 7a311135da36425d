"""Models planned for ExecuTorch: ten networks of torchvision, three transformers, random weights, float or int8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from corpus_exports import Architecture, Module, made

if TYPE_CHECKING:
    import torch

NETWORKS: Final = (
    Architecture("torchvision", "squeezenet1_1"),
    Architecture("torchvision", "mobilenet_v2"),
    Architecture("torchvision", "mobilenet_v3_small"),
    Architecture("torchvision", "shufflenet_v2_x1_0"),
    Architecture("torchvision", "resnet18"),
    Architecture("torchvision", "googlenet"),
    Architecture("torchvision", "efficientnet_b0"),
    Architecture("torchvision", "resnet50"),
    Architecture("torchvision", "densenet121"),
    Architecture("torchvision", "swin_t"),
    Architecture("transformers", "bert_tiny"),
    Architecture("transformers", "gpt2_two_layers"),
    Architecture("transformers", "t5_small_encoder"),
)
NOT_IN_INT8: Final = ("gpt2_two_layers", "t5_small_encoder")
"""Models whose int8 versions by pt2e and XNNPACK's quantizer do not run in eager torch: integers become floats."""


@dataclass(frozen=True, slots=True)
class Network:
    """A module at inference, and inputs that give its shapes."""

    name: str
    module: Module
    inputs: tuple[torch.Tensor, ...]


def network(name: str, *, int8: bool) -> Network:
    """Make one of them, the same every time; in int8 as pt2e makes it of one example."""
    architecture = next(each for each in NETWORKS if each.name == name)
    module, inputs = made(architecture)
    embeds = architecture.package == "transformers"
    return Network(name, _quantized(module, inputs, linear_only=embeds) if int8 else module, inputs)


def _quantized(module: Module, inputs: tuple[torch.Tensor, ...], *, linear_only: bool) -> Module:
    """Quantise everything, or only linear layers: the indices of an embedding are not values."""
    import executorch.kernels.quantized  # noqa: F401 (registers the kernels)
    import torch
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer, config = XNNPACKQuantizer(), get_symmetric_quantization_config()
    quantizer = quantizer.set_module_type(torch.nn.Linear, config) if linear_only else quantizer.set_global(config)
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(), quantizer)
    with torch.no_grad():
        prepared(*inputs)
    return convert_pt2e(prepared)
