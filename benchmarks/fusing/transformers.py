"""One block of transformers, fused and layer by layer: energy and latency, beside the lower bound.

    VENV/bin/python benchmarks/corpus_exports.py FOLDER --only base_layer tiny_layer 1b_layer  # as in corpus_models.py
    PYTHONPATH=benchmarks python -m fusing.transformers --models FOLDER/transformers --machine FILE.yaml
                                                        [--seconds 60] [--processor] [--kept FILE.jsonl]

Blocks of Llama 3.2 1B (512 tokens, and one token after 2,047), Whisper tiny's encoder and BERT base, as torch exports
them, and two bundled networks, with 8 bits per element, on `simba-large-buffers` and the machine of the file. A row is
met if fusion costs no more than layer by layer, and gains half of the distance to the bound or ends within 10 % of it.
With `--kept` rows that are in the file are not measured again.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from shared.runner import Row, asked_of, kept, options_of, report

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import LAYERS, OPTIMAL, ScheduleOptions
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.search.budget.limits import Limits

BUNDLED: Final = ("transformer", "vit_b_16")
OBJECTIVES: Final = (ScheduleObjective.ENERGY, ScheduleObjective.LATENCY)
MOST_GAP: Final = 0.1
LEAST_GAIN: Final = 0.5


def measured(asked: Namespace, name: str) -> Row:
    """Return the objective in fused groups and layer by layer, and the bound, in fJ or cycles."""
    network, machine, objective = name.split(" ")
    source = network if network in BUNDLED else str(next(asked.models.glob(f"{network}*.onnx")))
    row: Row = {}
    for groups, key in ((OPTIMAL, "value"), (LAYERS, "layers")):
        begun = time.process_time()
        request = ScheduleRequest(
            source,
            str(asked.machine) if machine == asked.machine.stem else machine,
            ScheduleObjective(objective),
            ScheduleOptions(groups=groups, uses_cache=False),
            reading=Reading(bits=8),
            limits=Limits(time_limit_seconds=asked.seconds),
        )
        result = schedule_network(request).result
        row |= {key: result.objective_value, "bound": result.lower_bound}
        row |= {f"{key}_groups": None if result.answer is None else len(result.answer.stacks)}
        row |= {f"{key}_cpu_seconds": round(time.process_time() - begun, 1)}
    return row | is_met(row)


def is_met(row: Row) -> Row:
    """Return the gap to the bound, the share of the distance from layer by layer that is gained, and the verdict."""
    value, layers, bound = row["value"], row["layers"], row["bound"]
    if value is None or layers is None:
        return {"gap": None, "gain": None, "met": False}
    gap, gain = 1 - bound / value, (layers - value) / max(layers - bound, 1)
    met = value <= layers and (gap <= MOST_GAP or gain >= LEAST_GAIN)
    return {"gap": round(gap, 4), "gain": round(gain, 3), "met": met}


def rows(asked: Namespace) -> Iterator[Row]:
    """Yield a row for each network, machine and objective."""
    models = [path.stem.partition(".")[0] for path in asked.models.glob("*_layer*.onnx") if "_layers" not in path.name]
    networks = [*sorted(models), *BUNDLED]
    machines = ("simba-large-buffers", asked.machine.stem)
    every = [f"{one} {machine} {which}" for one in networks for machine in machines for which in OBJECTIVES]
    return kept(asked.kept, every, partial(measured, asked))


def main() -> None:
    """Print a table."""
    parser = options_of(__doc__)
    parser.add_argument("--models", type=Path, required=True, metavar="FOLDER", help="where the exported blocks are")
    parser.add_argument("--machine", type=Path, required=True, metavar="FILE.yaml", help="an accelerator")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each schedule")
    parser.add_argument("--kept", type=Path, metavar="FILE.jsonl", help="rows measured before, to which new ones come")
    asked = asked_of(parser)
    report(asked, {"transformers": partial(rows, asked)})


if __name__ == "__main__":
    main()
