"""Print the path of a light model of the onnx package: real networks whose weights are constants.

python examples/light_model.py resnet50
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path


def light_models() -> dict[str, Path]:
    """Each light model's file by its name; finding them does not import onnx."""
    spec = find_spec("onnx")
    if spec is None or spec.origin is None:
        sys.exit("onnx is not installed")
    directory = Path(spec.origin).parent / "backend" / "test" / "data" / "light"
    return {path.stem.removeprefix("light_"): path for path in sorted(directory.glob("light_*.onnx"))}


def main() -> None:
    """Print one path, or say which names there are."""
    models = light_models()
    names = sys.argv[1:]
    if len(names) != 1 or names[0] not in models:
        sys.exit(f"usage: light_model.py NAME, with NAME one of {', '.join(models)}")
    print(models[names[0]])


if __name__ == "__main__":
    main()
