
// A residency is an array; these are the places of its fields.
const [TENSOR, MEMORY, OFFSET, START, STOP, BEGAN, SPILL, RELOAD, MOVE] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

// Texts about tensors, bytes and residencies.
function wordsOf(facts) {
  const number = new Intl.NumberFormat("en-US");
  const count = (n, noun) => `${number.format(n)} ${noun}${n === 1 ? "" : "s"}`;
  const cost = (n) => (facts.unit === "bytes" ? number.format(n) : `${number.format(n)} ${facts.unit}`);
  const bytes = (n) => count(n, "byte");
  const short = (n) => {
    for (const [unit, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
      if (Math.abs(n) >= unit) return `${+(n / unit).toPrecision(4)} ${name}`;
    return n ? `${+n.toPrecision(4)} B` : "0";
  };
  const clipped = (text, most = 60) => (text.length > most ? `${text.slice(0, most / 2)}…${text.slice(1 - most / 2)}` : text);
  const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const outside = { parameter: "a parameter", input: "the network's input" };
  const operator = (step, role = "input") => (step === null ? outside[role] : clipped(facts.operators[step].join(" · ")));
  const steps = (one) => (one[STOP] - one[START] > 1 ? `steps ${one[START]} to ${one[STOP] - 1}` : `step ${one[START]}`);

  function lines(index) {
    const one = facts.residencies[index];
    const tensor = facts.tensors[one[TENSOR]];
    const end = one[OFFSET] + tensor.bytes;
    const readers = tensor.read.slice(0, 4).map((step) => operator(step)).join(",\n");
    const more = tensor.read.length > 4 ? ` and ${tensor.read.length - 4} more` : "";
    return [
      ["", `${clipped(tensor.name, 80)} (${tensor.role})`],
      ["shape", `${tensor.shape}, ${bytes(tensor.bytes)}`],
      ["made by", operator(tensor.made, tensor.role)],
      ["read by", readers ? readers + more : "no operator"],
      ["here", `${steps(one)}, ${facts.memories.length > 1 ? `${one[MEMORY]}, ` : ""}addresses ${number.format(one[OFFSET])} to ${number.format(end)}, ${one[BEGAN]}`],
      ["spill", one[SPILL] ? `costs ${cost(one[SPILL])}` : "none"],
      ["reload", one[RELOAD] ? `cost ${cost(one[RELOAD])}` : "none"],
      ...(one[MOVE] ? [["move", `cost ${cost(one[MOVE])}`]] : []),
    ];
  }
  const hover = (index) =>
    lines(index).map(([key, value]) => (key ? `${key}: ${escaped(value).replaceAll("\n", "<br>    ")}` : `<b>${escaped(value)}</b>`)).join("<br>");
  return { count, short, clipped, escaped, steps, lines, hover };
}
