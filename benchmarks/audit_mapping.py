"""Verdicts of a second prover on mappings that `exact` has proven, for the layers of a table: a row each, and totals.

    python benchmarks/audit_mapping.py [TABLE [ACCELERATOR [SECONDS [OBJECTIVE]]]]

SECONDS (600) are shared among the layers of an objective; without OBJECTIVE all three are used.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from mapping_exact import proven_layers

from onchip.answer.document import Claim
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.audits.mapping import audit_mapping
from onchip.formats.own.accelerator_yaml import load_accelerator


def main(
    table: str = "resnet50", accelerator_name: str = "simba", seconds: str = "600", objective: str | None = None
) -> None:
    """Prints the ruling on each layer's bound."""
    accelerator = load_accelerator(accelerator_name)
    for asked in MappingObjective if objective is None else (MappingObjective(objective),):
        rulings: Counter[str] = Counter()
        rows = [row for row in proven_layers(table, accelerator, asked, 60.0) if row.result.objective_value is not None]
        left = float(seconds)
        for number, (name, layer, result) in enumerate(rows):
            started = time.monotonic()
            value = float(result.objective_value or 0)
            claim = Claim(result.method, result.status, str(asked), value, result.lower_bound)
            finding = audit_mapping(LayerProblem(layer, accelerator), claim, left / (len(rows) - number))
            left -= time.monotonic() - started
            rulings[finding.ruling] += 1
            print(f"{asked:8} {name:20} {finding.ruling:10} {claim.lower_bound} {finding.seconds:.1f} s", flush=True)
        print(f"{asked}: {dict(rulings)} of {len(rows)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
