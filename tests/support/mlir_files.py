"""Random `.mlir` files of IREE's pack operations and of memref allocations."""

from __future__ import annotations

from random import Random


def iree_pack_file(seed: int) -> str:
    """Return one or two functions, each with a pack of constant slices, whose results are returned."""
    random = Random(seed)
    alignment = random.choice((1, 16, 64))
    lines = [
        "#config = #stream.resource_config<{",
        "  max_allocation_size = 1073741824,",
        f"  min_buffer_offset_alignment = {alignment},",
        "  max_buffer_range = 1073741824,",
        f"  min_buffer_range_alignment = {alignment},",
        "  index_bits = 32",
        "}>",
        "",
    ]
    for number in range(random.choice((1, 2))):
        count = random.randint(3, 12)
        sizes = {size: f"%c{size}" for size in (100, 200, 300, 4096, 10000)}
        types = ", ".join(["index"] * (count + 1))
        lines.append(f"util.func public @pack{number}() -> ({types}) attributes {{stream.resources = #config}} {{")
        lines += [f"  {name} = arith.constant {size} : index" for size, name in sizes.items()]
        lines.append(f"  %t:{count + 1} = stream.resource.pack slices({{")
        slices = []
        for _ in range(count):
            start = random.randint(0, 8)
            slices.append(f"    [{start}, {start + random.randint(0, 5)}] = {random.choice(list(sizes.values()))}")
        lines.append(",\n".join(slices))
        lines.append("  }) : index")
        lines.append(f"  util.return {', '.join(f'%t#{at}' for at in range(count + 1))} : {types}")
        lines.append("}")
    return "\n".join(lines) + "\n"


def memref_file(seed: int) -> str:
    """Return a function of layers that allocate, compute and free; some memrefs are freed late, or used in a loop."""
    random = Random(seed)
    lines = [
        "func.func private @layer(memref<*xf32>, memref<*xf32>)",
        "func.func @main(%input: memref<4x64xf32>) {",
        "  %c0 = arith.constant 0 : index",
        "  %c1 = arith.constant 1 : index",
        "  %c4 = arith.constant 4 : index",
        "  %zero = arith.constant 0.0 : f32",
    ]
    aligned = random.choice((" {alignment = 64 : i64}", " alignment = 64"))  # before MLIR 23, and since
    before, waiting = ("%input", "memref<4x64xf32>"), list[tuple[str, str]]()
    for number in range(random.randint(4, 10)):
        shape = f"{random.choice((4, 8))}x{random.choice((16, 64, 100))}"
        memref = f"memref<{shape}xf32>"
        attributes = random.choice(("", aligned))
        name = f"%b{number}"
        lines.append(f"  {name} = memref.alloc(){attributes} : {memref}")
        for one, of in (before, (name, memref)):
            lines.append(f"  {one}_{number} = memref.cast {one} : {of} to memref<*xf32>")
        lines.append(
            f"  func.call @layer({before[0]}_{number}, {name}_{number}) : (memref<*xf32>, memref<*xf32>) -> ()"
        )
        if random.random() < 0.4:
            lines += [
                "  scf.for %i = %c0 to %c4 step %c1 {",
                f"    memref.store %zero, {name}[%i, %c0] : {memref}",
                "  }",
            ]
        if before[0] != "%input":
            waiting.append(before)
        while waiting and random.random() < 0.6:
            freed, of = waiting.pop(random.randrange(len(waiting)))
            lines.append(f"  memref.dealloc {freed} : {of}")
        before = (name, memref)
    for freed, of in (*waiting, before):
        lines.append(f"  memref.dealloc {freed} : {of}")
    return "\n".join([*lines, "  return", "}"]) + "\n"
