"""Architectures of torchvision, timm and transformers with seeded random weights, as files of ONNX and of torch.export.

    VENV/bin/python benchmarks/corpus_exports.py FOLDER [--only NAME ...]

Runs in a virtual environment of its own (`corpus_models.py` makes it), as none of this may be installed beside onchip.
Each model becomes `NAME.onnx` (opset 17); some `NAME.qdq.onnx` and `NAME.qoperator.onnx` as well, statically quantised
by onnxruntime to int8; some `NAME.pt2`, and `NAME.pt2e.pt2`, quantised by torchao. What is there already stays.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import torch

Module: TypeAlias = Any
"""A torch module; none of these packages has types."""
Made: TypeAlias = tuple[Module, tuple[torch.Tensor, ...]]
OPSET: Final = 17
IR_VERSION: Final = 8
CALIBRATION_SAMPLES: Final = 2


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model to be made: its package, its name there, the side of its images, and what becomes of it."""

    package: str
    name: str
    side: int = 224
    quantised: bool = False
    exported: bool = False
    by_pt2e: bool = False


ARCHITECTURES: Final = (
    Architecture("torchvision", "mobilenet_v2", quantised=True, exported=True, by_pt2e=True),
    Architecture("torchvision", "resnet18", quantised=True, exported=True),
    Architecture("torchvision", "resnet50", quantised=True),
    Architecture("torchvision", "squeezenet1_1", quantised=True, exported=True, by_pt2e=True),
    Architecture("torchvision", "shufflenet_v2_x1_0", quantised=True, exported=True),
    Architecture("torchvision", "mnasnet1_0", quantised=True),
    Architecture("torchvision", "mobilenet_v3_small", quantised=True, exported=True),
    Architecture("torchvision", "efficientnet_b0", quantised=True, exported=True),
    Architecture("torchvision", "regnet_y_400mf", quantised=True),
    Architecture("torchvision", "densenet121", quantised=True),
    Architecture("torchvision", "googlenet", quantised=True),
    Architecture("transformers", "bert_tiny", quantised=True, exported=True),
    Architecture("transformers", "gpt2_two_layers", exported=True),
    Architecture("transformers", "distilbert_two_layers", quantised=True, exported=True),
    Architecture("transformers", "whisper_tiny_encoder", exported=True),
    Architecture("transformers", "t5_small_encoder", exported=True),
    Architecture("transformers", "llama_two_layers", exported=True),
    Architecture("timm", "vit_tiny_patch16_224", quantised=True, exported=True),
    Architecture("timm", "deit_tiny_patch16_224"),
    Architecture("timm", "mobilevit_xxs", 256, exported=True),
    Architecture("timm", "convnext_atto", quantised=True, exported=True),
    Architecture("timm", "mobilenetv4_conv_small", quantised=True),
    Architecture("timm", "ghostnet_100", quantised=True),
    Architecture("timm", "repvgg_a0"),
    Architecture("timm", "lcnet_050", quantised=True),
    Architecture("timm", "edgenext_xx_small", 256),
    Architecture("timm", "efficientvit_b0"),
    Architecture("timm", "pvt_v2_b0"),
    Architecture("timm", "poolformer_s12"),
    Architecture("timm", "mixer_s32_224"),
    Architecture("timm", "levit_128s"),
    Architecture("timm", "coat_lite_tiny"),
    Architecture("timm", "xcit_nano_12_p16_224"),
    Architecture("timm", "resnest14d"),
    Architecture("timm", "ese_vovnet19b_dw"),
    Architecture("timm", "dla46_c"),
    Architecture("timm", "hrnet_w18_small"),
    Architecture("timm", "rexnet_100"),
    Architecture("timm", "fbnetc_100"),
    Architecture("timm", "mobileone_s0"),
    Architecture("timm", "tf_efficientnet_lite0", quantised=True),
    Architecture("timm", "fastvit_t8", 256),
    Architecture("timm", "starnet_s1"),
    Architecture("timm", "swin_tiny_patch4_window7_224"),
    Architecture("torchvision", "inception_v3", 299),
    Architecture("torchvision", "convnext_tiny"),
    Architecture("torchvision", "regnet_x_400mf"),
    Architecture("torchvision", "mobilenet_v3_large"),
    Architecture("torchvision", "lraspp_mobilenet_v3_large"),
    Architecture("torchvision", "deeplabv3_mobilenet_v3_large"),
    Architecture("transformers", "bert_base_layer"),
    Architecture("transformers", "whisper_tiny_layer"),
    Architecture("transformers", "llama_1b_layer_prefill"),
    Architecture("transformers", "llama_1b_layer_decode"),
    Architecture("transformers", "albert_two_layers"),
    Architecture("transformers", "electra_two_layers"),
    Architecture("transformers", "mobilebert_two_layers"),
    Architecture("transformers", "opt_two_layers"),
    Architecture("transformers", "segformer_b0"),
)


def made(architecture: Architecture) -> Made:
    """Return the module with seeded weights, ready for inference, and an input for it."""
    torch.manual_seed(0)
    _let_torchvision_be_imported()
    if architecture.package == "transformers":
        return _of_transformers(architecture.name)
    image = torch.randn(1, 3, architecture.side, architecture.side)
    if architecture.package == "timm":
        import timm

        model = timm.create_model(architecture.name, pretrained=False, exportable=True)
    else:
        import torchvision

        options = {"init_weights": True, "aux_logits": True} if "inception" in architecture.name else {}
        options = {"init_weights": False, "aux_logits": False} if architecture.name == "googlenet" else options
        models = torchvision.models
        if hasattr(models.segmentation, architecture.name):
            model = getattr(models.segmentation, architecture.name)(weights_backbone=None)
            return _Logits(model).eval(), (image,)
        model = getattr(models, architecture.name)(weights=None, **options)
    return _normalised(model, architecture.side), (image,)


def _normalised(model: Module, side: int) -> Module:
    """Batch normalisations that have seen some images, so that values neither vanish nor explode."""
    for each in model.modules():
        if isinstance(each, torch.nn.modules.batchnorm._BatchNorm):
            each.momentum = 1.0
            each.train()
    with torch.no_grad(), suppress(ValueError):  # one value a channel
        model(torch.randn(2, 3, side, side))
    return model.eval()


class _Logits(torch.nn.Module):  # type: ignore[misc]
    """A model with a dictionary of outputs, reduced to the first output."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return next(iter(self.model(*inputs).values()))


def _let_torchvision_be_imported() -> None:
    """Declare two operators that a torchvision built for another torch lacks; where its library loads, it has them."""
    found = find_spec("torchvision")
    if "torchvision" in sys.modules or found is None or found.origin is None:
        return
    try:
        torch.ops.load_library(str(Path(found.origin).parent / "_C.so"))
    except OSError:
        global _DECLARED
        _DECLARED = torch.library.Library("torchvision", "DEF")
        _DECLARED.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARED.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_DECLARED: Any = None


def _of_transformers(name: str) -> Made:
    """Return small configurations, most with two layers, without downloads of weights."""
    import transformers as t

    tokens = torch.randint(0, 1000, (1, 32))
    small = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
    makers: dict[str, Callable[[], Made]] = {
        "bert_tiny": lambda: (t.BertModel(t.BertConfig(**small)), (tokens,)),
        "distilbert_two_layers": lambda: (t.DistilBertModel(t.DistilBertConfig(n_layers=2)), (tokens,)),
        "gpt2_two_layers": lambda: (t.GPT2Model(t.GPT2Config(n_layer=2, use_cache=False)), (tokens,)),
        "albert_two_layers": lambda: (t.AlbertModel(t.AlbertConfig(embedding_size=128, **small)), (tokens,)),
        "electra_two_layers": lambda: (t.ElectraModel(t.ElectraConfig(num_hidden_layers=2)), (tokens,)),
        "mobilebert_two_layers": lambda: (t.MobileBertModel(t.MobileBertConfig(num_hidden_layers=2)), (tokens,)),
        "opt_two_layers": lambda: (
            t.OPTModel(
                t.OPTConfig(
                    hidden_size=128,
                    num_hidden_layers=2,
                    num_attention_heads=2,
                    ffn_dim=512,
                    word_embed_proj_dim=128,
                    use_cache=False,
                )
            ),
            (tokens,),
        ),
        "llama_two_layers": lambda: (
            t.LlamaModel(t.LlamaConfig(vocab_size=1000, num_key_value_heads=1, use_cache=False, **small)),
            (tokens,),
        ),
        "t5_small_encoder": lambda: (t.T5EncoderModel(t.T5Config(vocab_size=1000)), (tokens,)),
        "whisper_tiny_encoder": lambda: (t.WhisperModel(t.WhisperConfig()).get_encoder(), (torch.randn(1, 80, 3000),)),
        "segformer_b0": lambda: (
            t.SegformerForImageClassification(t.SegformerConfig()),
            (torch.randn(1, 3, 224, 224),),
        ),
    }
    llama = {"hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192}
    one_layer = {"vocab_size": 32, "num_hidden_layers": 1, "attn_implementation": "eager"}
    makers |= {
        "bert_base_layer": lambda: (
            _Embedded(t.BertModel(t.BertConfig(**one_layer), add_pooling_layer=False)),
            (torch.randn(1, 128, 768),),
        ),
        "whisper_tiny_layer": lambda: (
            _Unmasked(t.WhisperModel(t.WhisperConfig(attn_implementation="eager")).get_encoder().layers[0]),
            (torch.randn(1, 1500, 384),),
        ),
        "llama_1b_layer_prefill": lambda: (
            _Embedded(t.LlamaModel(t.LlamaConfig(use_cache=False, **llama, **one_layer))),
            (torch.randn(1, 512, 2048),),
        ),
    }
    if name == "llama_1b_layer_decode":
        past = torch.randn(1, 8, 2047, 64)
        return _Cached(t.LlamaModel(t.LlamaConfig(**llama, **one_layer))).eval(), (torch.randn(1, 1, 2048), past, past)
    model, inputs = makers[name]()
    return _First(model).eval(), inputs


class _Embedded(torch.nn.Module):  # type: ignore[misc]
    """A model that reads embeddings in place of tokens."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: torch.Tensor) -> Module:
        return self.model(inputs_embeds=rows)


class _Unmasked(torch.nn.Module):  # type: ignore[misc]
    """A layer that reads no mask; its output is a tuple."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: torch.Tensor) -> Module:
        found = self.model(rows, None)
        return found if isinstance(found, tuple) else (found,)


class _Cached(torch.nn.Module):  # type: ignore[misc]
    """A model of one layer that appends a token to given keys and values, and returns these, too."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, row: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Module:
        from transformers.cache_utils import DynamicCache

        cache = DynamicCache()
        cache.update(keys, values, 0)
        found = self.model(inputs_embeds=row, past_key_values=cache, use_cache=True)
        layer = found.past_key_values.layers[0]
        return found[0], layer.keys, layer.values


class _First(torch.nn.Module):  # type: ignore[misc]
    """A model reduced to its first output."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(*inputs)[0]


def write_onnx(model: Module, inputs: Sequence[torch.Tensor], path: Path) -> None:
    """Write what torch's exporter makes of the module, its shapes fixed."""
    import onnx

    temporary = path.with_suffix(".part")
    named = {"input_names": _names(inputs)}
    try:
        torch.onnx.export(model, tuple(inputs), str(temporary), dynamo=False, opset_version=OPSET, **named)
    except torch.onnx.errors.UnsupportedOperatorError:  # known only to the newer exporter
        torch.onnx.export(model, tuple(inputs), str(temporary), dynamo=True, external_data=False, **named)
    exported = onnx.load(str(temporary))
    exported.ir_version = IR_VERSION
    onnx.save(exported, str(path))
    temporary.unlink()


def _names(inputs: Sequence[torch.Tensor]) -> list[str]:
    return [f"input{index}" for index in range(len(inputs))]


def write_quantised(source: Path, target: Path, how: str, inputs: Sequence[torch.Tensor]) -> None:
    """Write the model statically quantised to int8: `how` is QDQ or QOperator."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(_samples(inputs))

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.left, None)

    temporary, prepared = target.with_suffix(".part"), target.with_suffix(".prepared")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared),
        str(temporary),
        Samples(),
        quant_format=getattr(QuantFormat, how),
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    prepared.unlink()
    temporary.rename(target)


def _samples(inputs: Sequence[torch.Tensor]) -> Iterator[dict[str, np.ndarray]]:
    torch.manual_seed(1)
    for _ in range(CALIBRATION_SAMPLES):
        drawn = [
            torch.randn_like(each) if each.is_floating_point() else torch.randint_like(each, 0, 1000) for each in inputs
        ]
        yield {name: each.numpy() for name, each in zip(_names(inputs), drawn, strict=True)}


def write_program(model: Module, inputs: Sequence[torch.Tensor], path: Path) -> None:
    """Write what torch.export makes of the module."""
    torch.export.save(torch.export.export(model, tuple(inputs), strict=False), str(path))


def write_quantised_program(model: Module, inputs: Sequence[torch.Tensor], path: Path) -> None:
    """Write the program that pt2e makes of the module for int8."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
        X86InductorQuantizer,
        get_default_x86_inductor_quantization_config,
    )

    quantizer = X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config())
    prepared = prepare_pt2e(torch.export.export(model, tuple(inputs)).module(), quantizer)
    prepared(*inputs)
    write_program(convert_pt2e(prepared), inputs, path)


def write(architecture: Architecture, folder: Path) -> None:
    """Write all files of an architecture that are not there."""
    stem = folder / architecture.package / architecture.name
    stem.parent.mkdir(parents=True, exist_ok=True)
    wanted = {".onnx"} | ({".pt2"} if architecture.exported else set())
    wanted |= {".qdq.onnx", ".qoperator.onnx"} if architecture.quantised else set()
    wanted |= {".pt2e.pt2"} if architecture.by_pt2e else set()
    missing = {suffix for suffix in wanted if not stem.with_name(stem.name + suffix).exists()}
    if not missing:
        return
    model, inputs = made(architecture)
    path = {suffix: stem.with_name(stem.name + suffix) for suffix in wanted}
    with torch.no_grad():
        if ".onnx" in missing:
            write_onnx(model, inputs, path[".onnx"])
        for suffix, how in ((".qdq.onnx", "QDQ"), (".qoperator.onnx", "QOperator")):
            if suffix in missing:
                write_quantised(path[".onnx"], path[suffix], how, inputs)
        if ".pt2" in missing:
            write_program(model, inputs, path[".pt2"])
        if ".pt2e.pt2" in missing:
            write_quantised_program(model, inputs, path[".pt2e.pt2"])


def main() -> None:
    """Write the requested models; report and skip those that cannot be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for architecture in ARCHITECTURES:
        if asked.only is None or any(one in architecture.name for one in asked.only):
            try:
                write(architecture, asked.folder)
                print(f"{architecture.package}/{architecture.name}", flush=True)
            except Exception as error:
                reason = traceback.format_exception_only(error)[-1].strip().partition("\n")[0]
                print(f"{architecture.package}/{architecture.name}: {reason}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
