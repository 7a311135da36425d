"""Inputs of the Python API: networks, layers and targets, as objects, names or files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.options.choices import choice
from onchip.answer.options.verb_options import PlanOptions
from onchip.answer.problem import Count, Objective, Recompute
from onchip.api.networks import Network, Origin, load_graph, text_of
from onchip.api.target import Target
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.arch.sharing import Share
from onchip.errors import UsageError
from onchip.formats.foreign_files import load_any_accelerator
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Limits

if TYPE_CHECKING:
    import torch

    from onchip.api.plan import Request


NetworkLike: TypeAlias = Graph | str | Path
"""A network: a graph, a bundled name, or a file."""
TargetLike: TypeAlias = Accelerator | Memory | str | Path
"""A target: an accelerator, its bundled name or file, one memory, or its size or budget (`64KiB`, `m_r`)."""
_NONE: Mapping[str, int] = MappingProxyType({})
_NO_SHAPES: Mapping[str, Sequence[int]] = MappingProxyType({})
_NO_VALUES: Mapping[str, float | Sequence[float]] = MappingProxyType({})
_NO_STATES: Mapping[str, str] = MappingProxyType({})


def load_network(
    source: str | Path,
    *,
    bits: int | None = None,
    dims: Mapping[str, int] = _NONE,
    shapes: Mapping[str, Sequence[int]] = _NO_SHAPES,
    values: Mapping[str, float | Sequence[float]] = _NO_VALUES,
    states: Mapping[str, str] = _NO_STATES,
    granularity: str = "fused",
) -> Graph:
    """Read a network by name or from a file.

    Parameters
    ----------
    source
        A bundled name, or an .onnx, .tflite, .pt2 or .json file.
    bits
        Bits of every element; by default each tensor has the data type of the model.
    dims, shapes, values
        Sizes of symbolic dimensions, shapes of network inputs, and network inputs that are constants, each by name.
    states
        Map from network input to the output that is its value in the next inference.
    granularity
        `fused` fuses activations and normalisations into the operators before them; `raw` keeps each node.

    Returns
    -------
    Graph
        The network; verbs that run it use the operators of its file.

    Raises
    ------
    OnchipError
        The source is unknown or unreadable, or leaves a size open.

    Examples
    --------
    >>> load_network("lenet5", bits=8).name
    'lenet5'

    """
    numbers = {name: (one,) if isinstance(one, int | float) else tuple(one) for name, one in values.items()}
    bindings = Bindings(dict(dims), {name: tuple(shape) for name, shape in shapes.items()}, numbers)
    reading = Reading.of(bindings, choice(Granularity, granularity, "granularity"))
    return load_graph(str(source), replace(reading, bits=bits, states=dict(states)))


def from_torch(
    module: torch.nn.Module | torch.export.ExportedProgram,
    inputs: Sequence[object] = (),
    *,
    name: str | None = None,
    dims: Mapping[str, int] = _NONE,
    expand_attention: bool = False,
) -> Graph:
    """Return the graph of a PyTorch module or exported program.

    Parameters
    ----------
    module
        A module, which is exported in inference mode, or an exported program.
    inputs
        Example inputs of the module, which set the shapes; they may be on the device `meta`.
    name
        Name of the graph; by default the name of the module's class.
    dims
        Sizes of the symbols of an exported program.
    expand_attention
        Replace scaled-dot-product attention by its matrix products and softmax.

    Returns
    -------
    Graph
        The network at the granularity of its operators. It has no file: verbs that run it use synthetic kernels.

    Raises
    ------
    OnchipError
        PyTorch is not installed, or the program is not supported.

    """
    from onchip.formats.networks import graph_from_torch

    bindings = Bindings(dict(dims))
    return graph_from_torch(module, inputs, name, expand_attention=expand_attention, bindings=bindings)


def load_accelerator(source: str | Path) -> Accelerator:
    """Read an accelerator by name or from a file.

    Parameters
    ----------
    source
        A bundled name (`simba`; `simba@64KiB` resizes its scratchpads), or a file of onchip, Timeloop or ZigZag.

    Returns
    -------
    Accelerator
        The accelerator; `resized` changes its capacities.

    Raises
    ------
    OnchipError
        The accelerator is unknown or its file unreadable.

    Examples
    --------
    >>> load_accelerator("simba").resized(global_buffer="32KiB").scratchpads[-1].capacity_bytes
    32768

    """
    return load_any_accelerator(str(source))


def conv(
    *,
    k: int,
    c: int,
    p: int,
    q: int,
    r: int = 1,
    s: int = 1,
    n: int = 1,
    stride: int = 1,
    dilation: int = 1,
    pad: int = 0,
    groups: int = 1,
    bits: int = 8,
) -> Layer:
    """Return a convolution with `k` output and `c` input channels over all groups, and a `p` x `q` output.

    Parameters
    ----------
    k, c, p, q, r, s, n
        Output channels, input channels, output height and width, filter height and width, batch.
    stride, dilation, pad, groups
        Geometry of the windows, the same in both directions.
    bits
        Bits of an element of every operand.

    Returns
    -------
    Layer
        The loop nest.

    Raises
    ------
    OnchipError
        A size is below 1, or the sizes contradict each other.

    Examples
    --------
    >>> conv(k=64, c=64, p=56, q=56, r=3, s=3, pad=1).macs
    115605504

    """
    sizes = f"n{n}k{k}c{c}p{p}q{q}r{r}s{s}"
    text = f"conv:{sizes}:stride{stride}:dilation{dilation}:pad{pad}:groups{groups}"
    return Precision(bits).of(Layer.of_text(text))


def gemm(m: int, n: int, k: int, *, bits: int = 8) -> Layer:
    """Return the product of an `m` x `k` and a `k` x `n` matrix.

    Parameters
    ----------
    m, n, k
        Rows of the output, columns of the output, and length of the sums.
    bits
        Bits of an element of every operand.

    Returns
    -------
    Layer
        The loop nest.

    Raises
    ------
    OnchipError
        A size is below 1, or the sizes contradict each other.

    Examples
    --------
    >>> gemm(64, 256, 512).macs
    8388608

    """
    return Precision(bits).of(Layer.of_text(f"gemm:m{m}n{n}k{k}"))


@dataclass(frozen=True, slots=True)
class GivenNetwork:
    """A network as verbs take it, and the reading that it was loaded with."""

    source: Network
    reading: Reading

    @classmethod
    def of(cls, network: NetworkLike) -> GivenNetwork:
        """Return the network of an argument; raises UsageError for another type."""
        if isinstance(network, Graph):
            return cls(network, network.origin.reading if isinstance(network.origin, Origin) else Reading())
        if isinstance(network, str | Path):
            return cls(str(network), Reading())
        what = f"the argument is a {type(network).__name__}"
        raise UsageError(what, place="network", expected="a graph, a bundled name or a file")


def machine_of(target: TargetLike) -> Accelerator | str:
    """Return the accelerator of a verb that needs a compute array; raises UsageError for a memory."""
    if isinstance(target, Memory):
        raise UsageError("a memory has no compute array", place="target", expected="an accelerator")
    return target if isinstance(target, Accelerator) else str(target)


def target_of(target: TargetLike | None, alignment_bytes: int | None = None) -> Target:
    """Return the target of a plan; raises UsageError for an invalid size or budget."""
    if target is None:
        return Target(alignment_bytes=alignment_bytes)
    if isinstance(target, Memory):
        return Target(accelerator=Accelerator(target.name, (target,)), alignment_bytes=alignment_bytes)
    if isinstance(target, str) and (target[:1].isdigit() or target.lower().startswith("m_")):
        try:
            return Target.of_text(target, None, alignment_bytes)
        except UsageError as error:
            error.place = "target"
            raise
    return Target(accelerator=machine_of(target), alignment_bytes=alignment_bytes)


SourceT = TypeVar("SourceT")
ObjectiveT = TypeVar("ObjectiveT")
OptionsT = TypeVar("OptionsT")
MINIMIZE: Final = "minimize"
"""Name of the objective in errors."""
MICRO_ALIGNMENT_BYTES: Final = 16
"""Alignment of the arena of TFLite Micro."""


@dataclass(frozen=True, slots=True)
class VerbRequest(Generic[SourceT, ObjectiveT, OptionsT]):
    """A network or a layer, an accelerator, an objective, and the options, the reading and the limits of the search."""

    source: SourceT
    accelerator: str | Accelerator
    objective: ObjectiveT
    options: OptionsT
    reading: Reading = field(default_factory=Reading)
    limits: Limits = field(default_factory=Limits)

    @property
    def plain_reading(self) -> Reading:
        """Return the reading at the model's own bits, without the parts that only plans use."""
        return Reading.of(self.reading.bindings, self.reading.granularity)


def plan_request(
    network: Network, reading: Reading, target: Target, minimize: str, options: PlanOptions, limits: Limits
) -> Request:
    """Return the request of a plan; raises UsageError for an unknown objective."""
    from onchip.api.plan import Request

    objective = choice(Objective, minimize, MINIMIZE)
    count = options.count or target.counted(objective)
    fitted = replace(reading, count=count, cap_tensors=options.cap_tensors)
    reading = replace(fitted, bands=options.bands, recompute=options.recompute)
    if options.alignment_bytes is not None:
        target = replace(target, alignment_bytes=options.alignment_bytes)
    if options.runtime is not None:
        reading, target = _for_runtime(network, reading, target, options)
    method = options.method or ("timed" if objective is Objective.LATENCY else "exact")
    how = objective, options.order, method, options.placement, limits, options.share
    tiling = options.tiles, options.max_recompute / 100
    return Request(network, reading, target, *how, options.cost, options.recompute_price, *tiling)


def _for_runtime(network: Network, reading: Reading, target: Target, options: PlanOptions) -> tuple[Reading, Target]:
    """Return the reading and the target of a plan for TFLite Micro; raises UsageError for what it cannot run."""
    alignment_bytes = target.alignment_bytes or MICRO_ALIGNMENT_BYTES
    refusals = (
        ("network", not text_of(network).endswith(".tflite"), "a .tflite file"),
        ("accelerator", target.accelerator is not None, "`sram`: the runtime has one arena"),
        ("bits", reading.bits is not None, "the model's own bits"),
        ("shapes", bool(reading.shapes), "the model's own shapes"),
        ("states", bool(reading.states), "the model's own states"),
        ("count", reading.count is not Count.ACTIVATIONS, f"`count='{Count.ACTIVATIONS}'`"),
        ("share", options.share not in (None, Share.NONE), f"`share='{Share.NONE}'`"),
        ("recompute", reading.recompute is not Recompute.NEVER, f"`recompute='{Recompute.NEVER}'`"),
        ("cap_tensors", reading.cap_tensors, "whole tensors"),
        ("alignment", alignment_bytes % MICRO_ALIGNMENT_BYTES != 0, f"a multiple of {MICRO_ALIGNMENT_BYTES}"),
    )
    for place, is_refused, expected in refusals:
        if is_refused:
            raise UsageError(f"{options.runtime} does not run such plans", place=place, expected=expected)
    own = replace(reading, runtime=options.runtime, granularity=Granularity.RAW)
    return own, replace(target, alignment_bytes=alignment_bytes)
