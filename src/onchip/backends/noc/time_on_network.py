"""A mapping file on a network on a chip: verify its mappings, then simulate each, cycle by cycle."""

from __future__ import annotations

from onchip.answer.layer_problem import LayerProblem
from onchip.api.check_mapping import MappingFile, accelerator_named, check_mapping_file
from onchip.api.phases import phase
from onchip.backends.noc.layer import layer_on_network
from onchip.backends.noc.network_timing import NetworkTiming, TimedMapping
from onchip.errors import InternalError, errors_in_file
from onchip.formats.foreign_files import load_any_accelerator
from onchip.formats.own.mapping_yaml import read_mappings


def time_on_network(file: MappingFile) -> NetworkTiming:
    """Simulate each mapping of a file on CoSA's network, if all are legal.

    Raises InputError for what cannot be read, and for a machine or a mapping that is none of that network's.
    """
    check = check_mapping_file(file)
    if not check.is_legal:
        return NetworkTiming(check)
    document = read_mappings(file.path)
    name = accelerator_named(file.accelerator, document.accelerator.name, file.path)
    accelerator, timed = load_any_accelerator(name), []
    with phase("simulating"):
        for one in document.answer:
            with errors_in_file(str(file.path)):
                run = layer_on_network(LayerProblem(one.layer, accelerator), one.mapping)
            if run is None:
                raise InternalError("a run that nobody stops was stopped", place="network on chip")
            timed.append(TimedMapping(one.names, run))
    return NetworkTiming(check, tuple(timed))
