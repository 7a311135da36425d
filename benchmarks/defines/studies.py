"""Tables of DeFiNES's case studies 2 and 3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from defines import published
from defines.mappers import Clock, TileMapper, peak_mib
from defines.networks import (
    ANY_CUTS,
    FIXED,
    LAYER_BY_LAYER,
    ONE_TILING,
    OWN_TILINGS,
    SINGLE,
    Cell,
    Row,
    rows_of,
)

from onchip.model.accounting.conventions import DEFINES, OURS

PJ_OF_MJ = 1e9
MILLION = 1e6
STRATEGIES = (SINGLE, LAYER_BY_LAYER, FIXED, ONE_TILING, OWN_TILINGS, ANY_CUTS)


@dataclass(frozen=True, slots=True)
class Asked:
    """`is_unpadded`: DeFiNES's networks as it ships them; `seconds` are for each search of any cuts."""

    mappers: Sequence[TileMapper]
    is_unpadded: bool
    seconds: float
    workers: int

    @property
    def kind(self) -> str:
        """Whose networks they are."""
        return "networks as DeFiNES has them" if self.is_unpadded else "networks as they are"

    @property
    def networks(self) -> tuple[str, ...]:
        """Bundled names."""
        return tuple(f"{name}-defines" if self.is_unpadded else name for name in published.NETWORKS)

    def cells(self, mapper: TileMapper, machines: Iterable[str]) -> list[Cell]:
        """DeFiNES's mapper by its conventions and in its space; others by ours, with any cuts."""
        is_theirs = mapper.name == "loma"
        conventions, seconds = (DEFINES, 0.0) if is_theirs else (OURS, self.seconds)
        return [Cell(network, one, mapper, conventions, seconds) for one in machines for network in self.networks]


def case_study_2(asked: Asked) -> list[Row]:
    """Print five networks, five strategies and the search."""
    every: list[Row] = []
    for mapper in asked.mappers:
        title = "DeFiNES's conventions" if mapper.name == "loma" else "our conventions"
        print(
            f"\ncase study 2 on {published.CASE_STUDY_MACHINE}, {asked.kind}, by {mapper.name}, {title}: mJ / Mcycles"
        )
        print(f"{'network':20}" + "".join(f"{name:>22}" for name in STRATEGIES))
        rows = {}
        for row in rows_of(asked.cells(mapper, [published.CASE_STUDY_MACHINE]), asked.workers):
            print(_line(row), flush=True)
            rows[row.cell.network] = row
        _ratios(rows)
        every += rows.values()
    return every


def case_study_3(asked: Asked) -> list[Row]:
    """Print ten machines, by layer and depth-first."""
    every: list[Row] = []
    machines = [one for pair in published.MACHINES.items() for one in pair]
    for mapper in asked.mappers:
        clock = Clock()
        title = "DeFiNES's conventions" if mapper.name == "loma" else "our conventions"
        print(f"\ncase study 3, {asked.kind}, by {mapper.name}, {title}: mJ / Mcycles")
        rows: dict[tuple[str, str], Row] = {}
        for row in rows_of(asked.cells(mapper, machines), asked.workers):
            print(f"{len(rows) + 1:2} of 50 {row.cell.machine:17} {_line(row)}", flush=True)
            rows[row.cell.machine, row.cell.network] = row
        _means(rows, machines, asked.networks)
        longest = max(row.seconds + row.searched_seconds for row in rows.values())
        print(f"{clock}, the longest cell {longest:.0f} s; {peak_mib()}")
        every += rows.values()
    return every


def _line(row: Row) -> str:
    parts = [f"{row.cell.network:20}"]
    for name in STRATEGIES:
        if name in row.found:
            one = row.found[name]
            parts.append(f"{one.energy_pj / PJ_OF_MJ:11.3f} / {one.cycles / MILLION:8.2f}")
    searched = f", searched {row.searched_seconds:.0f} s {row.status} gap {row.gap:.1%}" if row.status else ""
    worse = f" WORSE THAN {', '.join(row.worse)}" if row.worse else ""
    tilings = row.found[OWN_TILINGS].tilings or "single layers"
    made = f"{row.stacks} stacks, {tilings}; {row.mappings} mappings, {row.seconds:.0f} s ({row.cpu_seconds:.0f})"
    return f"{''.join(parts)}  {made}{searched}{worse}"


def _energy(row: Row, strategy: str) -> float:
    return row.found[strategy].energy_pj


def _ratios(rows: Mapping[str, Row]) -> None:
    """Energies as the paper compares them, and what the search gains."""
    for name in published.NETWORKS:
        row = next(one for network, one in rows.items() if network.removesuffix("-defines") == name)
        single, fixed, best = (_energy(row, strategy) for strategy in (SINGLE, FIXED, OWN_TILINGS))
        paper = {SINGLE: "", FIXED: "", OWN_TILINGS: ""}
        if name in published.SINGLE_LAYERS_TO_4X72:
            paper[SINGLE] = f" (the paper {published.SINGLE_LAYERS_TO_4X72[name]:.0f})"
        if name == "mobilenetv1":
            paper[FIXED] = f" (the paper {published.MOBILENET_4X72_TO_BEST})"
            paper[OWN_TILINGS] = f" (the paper {published.MOBILENET_SINGLE_LAYERS_TO_BEST})"
        text = (
            f"  {name:12} single layers / 4x72 {single / fixed:.2f}{paper[SINGLE]},"
            f" 4x72 / best combination {fixed / best:.2f}{paper[FIXED]},"
            f" single layers / best combination {single / best:.2f}{paper[OWN_TILINGS]}"
        )
        if ANY_CUTS in row.found:
            gain = best / _energy(row, ANY_CUTS)
            text += f"; any cuts are {gain:.3f} times better than that, {fixed / _energy(row, ANY_CUTS):.3f} than 4x72"
        print(text)


def _means(rows: Mapping[tuple[str, str], Row], machines: Sequence[str], networks: Sequence[str]) -> None:
    """Figure 17, and its ratios."""
    strategies = [name for name in STRATEGIES if all(name in row.found for row in rows.values())]
    energy = {
        (machine, name): geometric_mean(_energy(rows[machine, network], name) for network in networks)
        for machine in machines
        for name in strategies
    }
    print(f"\ngeometric means, mJ / Mcycles\n{'':20}" + "".join(f"{name:>22}" for name in strategies))
    for machine in machines:
        line = f"{machine:20}"
        for name in strategies:
            cycles = geometric_mean(rows[machine, network].found[name].cycles for network in networks)
            line += f"{energy[machine, name] / PJ_OF_MJ:11.3f} / {cycles / MILLION:8.2f}"
        print(line)
    for designed, variant in published.MACHINES.items():
        gains = {
            "as designed, layer by layer / depth-first": energy[designed, LAYER_BY_LAYER]
            / energy[designed, ONE_TILING],
            "depth-first, as designed / variant": energy[designed, ONE_TILING] / energy[variant, ONE_TILING],
            "layer by layer, variant / as designed": energy[variant, LAYER_BY_LAYER] / energy[designed, LAYER_BY_LAYER],
            "layer by layer as designed / depth-first on the variant": energy[designed, LAYER_BY_LAYER]
            / energy[variant, ONE_TILING],
        }
        print(f"  {designed}: " + ", ".join(f"{name} {gain:.3f}" for name, gain in gains.items()))
    print(
        f"  the paper: the first at most {published.GREATEST_GAIN_AS_DESIGNED}, below 1 on"
        f" {published.NO_GAIN_AS_DESIGNED} alone; the second {_told(published.GAIN_BY_VARIANT)}; the third at most"
        f" {published.VARIANT_LAYER_BY_LAYER}; the fourth at most {_told(published.GAIN_OF_BOTH)}"
    )


def _told(gains: Mapping[str, float]) -> str:
    return ", ".join(f"{gain} on {machine}" for machine, gain in gains.items())
