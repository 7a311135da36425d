"""Networks that torchvision and timm define, without weights."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn


def torchvision_network(name: str) -> nn.Module:
    """A network of torchvision, of any of its families."""
    options: dict[str, Any] = {"weights": None}
    _make_torchvision_importable()
    from torchvision.models import get_model, list_models

    if name in list_models(module=__import__("torchvision.models.segmentation", fromlist=["_"])):
        options["weights_backbone"] = None
    return get_model(name, **options)


def timm_network(name: str) -> nn.Module:
    """A network of timm."""
    _make_torchvision_importable()
    import timm

    return timm.create_model(name, pretrained=False)


@cache
def _make_torchvision_importable() -> list[Any]:
    """Beside a CPU torch, torchvision's own library may not load; then its schemas are declared.

    They are declared only after the library was tried: where it loads, a second declaration aborts.
    """
    from importlib.util import find_spec

    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return []
    try:
        torch.ops.load_library(str(Path(spec.origin).parent / "_C.so"))
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return [library]
    return []
