"""YAML by name that is made to exhaust its reader."""

from __future__ import annotations

from pathlib import Path

from support.hostile_files import Maker

YAML_HEAD = "format: onchip-accelerator\nversion: 1\nname: chip\n"
MAPPING_HEAD = "format: onchip-mapping\nversion: 1\naccelerator: {name: simba}\nlayers:\n"
LAYER = "{names: [a], layer: {loops: {K: 2}}, nest: [K2]}"


def laughs(path: Path) -> None:
    """Write aliases of lists of aliases: 10**30 values."""
    lines = ["l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 10)}]" for at in range(1, 30)]
    path.write_text(YAML_HEAD + "\n".join(lines) + "\nmemories: *l29\n")


def merged_laughs(path: Path) -> None:
    """Write the same with merged mappings."""
    lines = ["l0: &l0 {a: lol}"]
    lines += [f"l{at}: &l{at} {{<<: [{', '.join([f'*l{at - 1}'] * 10)}]}}" for at in range(1, 30)]
    path.write_text(YAML_HEAD + "\n".join(lines) + "\n<<: *l29\n")


def layer_laughs(path: Path) -> None:
    """Write aliases in a file that begins like a ZigZag layer."""
    lines = ["- operator_type: Conv", "  l0: &l0 [lol, lol]"]
    lines += [f"  l{at}: &l{at} [*l{at - 1}, *l{at - 1}]" for at in range(1, 60)]
    path.write_text("\n".join(lines))


def deep_yaml(path: Path) -> None:
    path.write_text(YAML_HEAD + "memories: " + "[" * 10**6)


def deep_mappings(path: Path) -> None:
    path.write_text(YAML_HEAD + "\n".join(f"{' ' * at}a:" for at in range(5000)))


def long_yaml(path: Path) -> None:
    path.write_text(YAML_HEAD + "memories:\n" + "- {name: m, capacity: 1KiB}\n" * 10**6)


def huge_name(path: Path) -> None:
    path.write_text(f"{YAML_HEAD}? {'a' * 10**8}\n: 1\n")


def huge_text(path: Path) -> None:
    path.write_text(f"- operator_type: {'😀' * 2**24}\n")


def many_twice(path: Path) -> None:
    """Write repeated fields, where the last one counts, in a file that begins like a ZigZag layer."""
    path.write_text("- operator_type: Conv\n" + "  id: 1\n" * 10**7)


def long_lists(path: Path) -> None:
    path.write_text(f"- operator_type: Conv\n  loop_sizes: [{'1,' * 10**7}]\n")


def deep_long_names(path: Path) -> None:
    """Write a million values, each with a path of 50,000 characters."""
    path.write_text("".join(f"{' ' * at}{'a' * 500}:\n" for at in range(99)) + f"{' ' * 99}[{'x,' * 10**6}]")


def mapping_laughs(path: Path) -> None:
    """Write the same aliases in the layers of a mapping file, which are read one by one."""
    lines = ["l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 10)}]" for at in range(1, 30)]
    path.write_text(f"{MAPPING_HEAD}- names: [a]\n  " + "\n  ".join(lines) + "\n")


def long_mappings(path: Path) -> None:
    path.write_text(MAPPING_HEAD + "- {names: [a]}\n" * 10**6)


def long_mapping(path: Path) -> None:
    path.write_text(f"{MAPPING_HEAD}- names: [{'a,' * 10**7}]\n")


def long_beside_mappings(path: Path) -> None:
    path.write_text(f"{MAPPING_HEAD}- {LAYER}\nnetworks: [{'a,' * 10**7}]\n")


def deep_mapping(path: Path) -> None:
    path.write_text(MAPPING_HEAD + "- " + "[" * 10**6)


def layers_twice(path: Path) -> None:
    path.write_text(MAPPING_HEAD + f"- {LAYER}\n" + "layers: []\n" * 10**6)


def yaml_number(text: str) -> Maker:
    def write(path: Path) -> None:
        path.write_text(f"{YAML_HEAD}memories:\n- {{name: m, capacity: {text}, scratchpad: true}}\n")

    return write


YAML: dict[str, Maker] = {
    "mapping_laughs": mapping_laughs, "deep_mapping": deep_mapping, "layers_twice": layers_twice,
    "laughs": laughs, "merged_laughs": merged_laughs, "layer_laughs": layer_laughs,
    "deep_yaml": deep_yaml, "deep_mappings": deep_mappings,
    "yaml_nan": yaml_number(".nan"), "yaml_inf": yaml_number("-.inf"),
    "yaml_1e400": yaml_number("1.0e+400"), "yaml_long": yaml_number("9" * 10**6), "yaml_2_63": yaml_number(str(2**63)),
    "yaml_base_60": yaml_number("1:" * 10**5 + "1"), "yaml_binary": yaml_number("0b" + "1" * 10**6),
}  # fmt: skip
LONG_YAML: dict[str, Maker] = {
    "long_mappings": long_mappings, "long_mapping": long_mapping, "long_beside_mappings": long_beside_mappings,
    "huge_name": huge_name, "huge_text": huge_text, "many_twice": many_twice, "long_lists": long_lists,
    "deep_long_names": deep_long_names, "long_yaml": long_yaml,
}  # fmt: skip
"""Files that take seconds to read before the one reader of all YAML refuses them."""
