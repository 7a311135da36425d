"""Tiny random networks of unusual layers, as the adversary makes them."""

from __future__ import annotations

import json
from random import Random

from adversary.fusing import KINDS, graph_file, random_network
from onchip.errors import InputError
from onchip.formats.own.graph_json import graph_from_json
from onchip.ops.fusable import FusableNetwork
from onchip.ops.fusable_reading import fusable_of


def tiny(seed: int, kinds: tuple[str, ...] = KINDS) -> tuple[dict[str, object], FusableNetwork]:
    """Return the facts of a random readable network, and the network."""
    random = Random(seed)
    while True:
        facts = random_network(random, kinds)
        try:
            return facts, fusable_of(graph_from_json(json.dumps(graph_file(facts)).encode(), "tiny.json"))
        except InputError:
            continue
