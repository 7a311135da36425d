"""Operators that `schedule` costs as data movement, over bundled networks and models of others.

    python benchmarks/uncosted.py [--folder FOLDER] [--all]

Each line has the multiply-accumulates that no figure contains, their share of the model's, and the operators' kinds;
models that lose none are left out without `--all`. With `--folder` the corpus in it is read too, with the open
dimensions that `info` asks for.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from corpus import bindings_in, command
from corpus_models import corpus

import onchip
from onchip.api.networks import taken_apart
from onchip.commands.bindings import dims_of, shapes_of, values_of
from onchip.errors import OnchipError
from onchip.formats.own.graph_json import bundled_networks
from onchip.ir.graph import Graph
from onchip.model.timeline.mac_count import uncosted_operators
from onchip.ops.layers_of import Precision
from onchip.ops.nests import NestsOfNetwork


def graphs(folder: Path | None) -> Iterator[Graph | str]:
    """Yield each network, or the line with which it is refused."""
    yield from (onchip.load_network(name) for name in bundled_networks())
    for model in () if folder is None else corpus(folder):
        words = bindings_in(str(command(("info", str(model.path))).found.get("command", "")))
        options = defaultdict[str, list[str]](list)
        for flag, value in zip(words[::2], words[1::2], strict=True):
            options[flag].append(value)
        dims, shapes, values = options["--dim"], options["--shape"], options["--value"]
        try:
            yield onchip.load_network(
                model.path, dims=dims_of(dims), shapes=shapes_of(shapes), values=values_of(values)
            )
        except OnchipError as error:
            yield f"{model.name}: {error}"


def line_of(graph: Graph) -> tuple[int, float, str]:
    """Return the multiply-accumulates that are lost, their share, and the kinds that lose some or may lose some."""
    nests = NestsOfNetwork(graph, Precision())
    whole = {one.name: nests.whole(one) for one in graph.operators}
    found = uncosted_operators(graph, {name for name, own in whole.items() if not own})
    lost, macs = sum(one.macs or 0 for one in found), sum(nest.macs for own in whole.values() for nest in own)
    kinds = Counter(f"{one.kind} ({'unknown' if one.macs is None else 'known'})" for one in found if one.macs != 0)
    return lost, lost / max(lost + macs, 1), ", ".join(f"{kind} x {count}" for kind, count in kinds.items())


def main() -> None:
    """Print a line for each network that loses multiply-accumulates, and the sum over all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_args()
    print("| network | lost multiply-accumulates | share | kinds |")
    print("|---|---|---|---|")
    count = 0
    for each in graphs(asked.folder):
        count += 1
        if isinstance(each, str):
            print(f"| {each} |  |  | refused |")
            continue
        lost, share, kinds = line_of(taken_apart(each))
        if kinds or asked.all:
            print(f"| {each.name} | {lost:,} | {share:.2%} | {kinds} |", flush=True)
    print(f"{count} networks")


if __name__ == "__main__":
    main()
