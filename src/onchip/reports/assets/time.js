// A page of time: maps of addresses, footprints and timelines in which the reader moves, and what is looked at as a whole.
(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const { count, short, clipped, escaped, steps, lines, hover } = wordsOf(facts);
  const { root, paint, painted, axis } = drawing;
  const MOVING = ["map", "coarse", "footprint", "timeline"]; // all other figures have no zoom
  const kindOf = (id) => facts.figures[id].kind;
  const hasAddresses = (id) => ["map", "coarse"].includes(kindOf(id));
  const stills = Object.keys(facts.figures).filter((id) => !MOVING.includes(kindOf(id)));
  const plots = Object.keys(facts.figures).filter((id) => MOVING.includes(kindOf(id)));
  const full = {}; // what "show everything" means for each plot
  let inCycles = false;
  let followed = null; // the index of the tensor that is highlighted
  let current = null; // the index of the residency that the keyboard or a click is at
  let syncing = false;

  // Axes

  const memoryOf = (id) => facts.memories[+id.split("-")[1]];
  const at = (step) => (inCycles ? facts.cycles[step] : step);

  function placed(trace) {
    if (!inCycles || !trace.meta || trace.meta.timed) return trace;
    if (trace.meta.residencies) {
      const ones = trace.customdata.map((index) => facts.residencies[index]);
      return { ...trace, x: ones.map((r) => (at(r[START]) + at(r[STOP])) / 2), width: ones.map((r) => at(r[STOP]) - at(r[START])) };
    }
    if (trace.meta.edges) return { ...trace, x: trace.x.map(at) };
    return trace.meta.paint === "forced" ? { ...trace, x: trace.x.map((x) => (at(Math.floor(x)) + at(Math.ceil(x))) / 2) } : trace;
  }

  function ticks([low, high], most = 6) {
    const step = 2 ** Math.ceil(Math.log2(Math.max(high - low, 1) / most));
    const values = [];
    for (let v = Math.ceil(low / step) * step; v <= high; v += step) values.push(v);
    return { tickvals: values, ticktext: values.map(short) };
  }

  function layout(id) {
    const { kind, height } = facts.figures[id];
    const x = axis(kind === "timeline" || inCycles ? "cycle" : "step");
    const y = axis({ map: "address", coarse: "address", footprint: "bytes resident" }[kind] || "");
    if (full[id].x) Object.assign(x, { range: [...full[id].x], tickformat: ",d", nticks: 12 });
    if (full[id].y) Object.assign(y, { range: [...full[id].y], tickmode: "array", ...ticks(full[id].y) });
    if (kind === "timeline") Object.assign(y, { fixedrange: true, categoryorder: "array", categoryarray: [...facts.figures[id].lanes].reverse() });
    return drawing.layout({ ...(kind === "timeline" ? below(facts.figures[id], x, y) : {}),
      height, xaxis: x, yaxis: y, bargap: 0.35, barmode: "overlay",
      hovermode: kind === "footprint" ? "x" : "closest", dragmode: "zoom",
      margin: { l: 92, r: 12, t: 34, b: 44 },
      uniformtext: kind === "map" ? { mode: "hide", minsize: 9 } : undefined,
    });
  }

  // The lanes of a timeline take the upper part of it, its scratchpads the rest; all have one axis of cycles.
  function below({ memories, sizes }, x, y) {
    const all = sizes.lane + sizes.memory * memories.length, gap = 26 / all, axes = {};
    y.domain = [1 - sizes.lane / all, 1];
    x.anchor = memories.length ? `y${memories.length + 1}` : "y";
    memories.forEach(({ name, top }, number) => {
      const high = 1 - (sizes.lane + sizes.memory * number) / all - gap;
      const domain = [Math.max(0, high - sizes.memory / all + gap), high];
      axes[`yaxis${number + 2}`] = axis(clipped(name, 24), { domain, range: [0, top * 1.02], fixedrange: true, tickmode: "array", ...ticks([0, top], 4) });
    });
    return axes;
  }

  // Drawing

  function traces(id, range) {
    const drawn = facts.figures[id].traces.map((trace) => painted(placed(trace)));
    if (["coarse", "timeline"].includes(kindOf(id))) return drawn.map(told);
    if (kindOf(id) !== "map") return drawn;
    const chosen = (trace) => trace.customdata.flatMap((index, at) => (facts.residencies[index][TENSOR] === followed ? [at] : []));
    for (const trace of drawn) {
      if (trace.type !== "bar") continue;
      trace.marker.line.width = outline(id, range);
      trace.hovertext = trace.customdata.map(hover);
      trace.insidetextfont = { color: paint("surface") };
      trace.selectedpoints = followed === null ? null : chosen(trace);
      trace.unselected = { marker: { opacity: 0.16 } };
      trace.selected = { marker: { opacity: 1 } };
    }
    return followed === null ? drawn : [...drawn, path(id)];
  }

  function told(trace) { // what lies in each cell of a coarse map, in words
    if (trace.type !== "heatmap") return trace;
    return { ...trace, text: trace.z.map((line) => line.map((place) => (place === null ? "free" : trace.meta.labels[place]))) };
  }

  function outline(id, [low, high]) { // none where residencies are as narrow as it
    const memory = memoryOf(id);
    const shown = facts.residencies.filter((r) => r[MEMORY] === memory && at(r[STOP]) > low && at(r[START]) < high).length;
    return shown < 250 ? 1 : 0;
  }

  function path(id) { // from each residency of the followed tensor to the next
    const memory = memoryOf(id);
    const ones = facts.residencies.filter((r) => r[TENSOR] === followed && r[MEMORY] === memory);
    const half = facts.tensors[followed].bytes / 2;
    const x = [], y = [];
    ones.slice(1).forEach((next, index) => {
      x.push(at(ones[index][STOP]), at(next[START]), null);
      y.push(ones[index][OFFSET] + half, next[OFFSET] + half, null);
    });
    return { type: "scatter", mode: "lines+markers", name: "away", x, y, hoverinfo: "skip", showlegend: x.length > 0, meta: {},
      line: { color: paint("glow"), width: 1.5, dash: "dot" }, marker: { size: 5, color: paint("glow") } };
  }

  function draw(id, keepView) {
    const plot = document.getElementById(id);
    const wanted = layout(id);
    plot.style.height = `${wanted.height}px`;
    if (keepView && plot.layout) {
      wanted.xaxis.range = [...plot.layout.xaxis.range];
      if (full[id].y) Object.assign(wanted.yaxis, { range: [...plot.layout.yaxis.range], ...ticks(plot.layout.yaxis.range) });
    }
    const config = { displaylogo: false, responsive: true, displayModeBar: false, doubleClick: false };
    return Plotly.react(plot, traces(id, wanted.xaxis.range), wanted, config);
  }
  const drawStills = () => stills.map((id) => drawing.still(id, facts.figures[id]));
  const drawAll = (keepView) => [...plots.map((id) => draw(id, keepView)), ...drawStills()];

  function measure() {
    for (const id of plots) {
      const { kind, x, y } = facts.figures[id];
      const end = facts.cycles[facts.cycles.length - 1];
      full[id] = { x: kind !== "timeline" && inCycles && x ? [0, end] : x, y };
    }
  }

  // Moving the view; the map and the footprint share their time

  const sharesTime = (id) => hasAddresses(id) || kindOf(id) === "footprint";

  function show(id, x, y) {
    const change = { "xaxis.range": x };
    if (y) Object.assign(change, { "yaxis.range": y, "yaxis.tickvals": ticks(y).tickvals, "yaxis.ticktext": ticks(y).ticktext });
    syncing = true;
    const done = [Plotly.relayout(id, change)];
    const affected = plots.filter((other) => other === id || (sharesTime(id) && sharesTime(other)));
    affected.filter((other) => other !== id).forEach((other) => done.push(Plotly.relayout(other, { "xaxis.range": x })));
    affected.filter((other) => kindOf(other) === "map").forEach((other) => done.push(outlined(other)));
    return Promise.all(done).finally(() => { syncing = false; });
  }

  function outlined(id) {
    const plot = document.getElementById(id);
    const bars = plot.data.flatMap((trace, index) => (trace.type === "bar" ? [index] : []));
    const width = outline(id, plot.layout.xaxis.range);
    return plot.data[bars[0]].marker.line.width === width ? null : Plotly.restyle(plot, { "marker.line.width": width }, bars);
  }

  function within([low, high], [least, most]) {
    const size = Math.min(high - low, most - least);
    const start = Math.min(Math.max(low, least), most - size);
    return [start, start + size];
  }

  function move(id, action) {
    const plot = document.getElementById(id);
    const x = plot.layout.xaxis.range, y = full[id].y && plot.layout.yaxis.range;
    const scaled = ([low, high], by) => [(low + high) / 2 - ((high - low) * by) / 2, (low + high) / 2 + ((high - low) * by) / 2];
    const moved = ([low, high], by) => [low + (high - low) * by, high + (high - low) * by];
    const actions = {
      in: () => [scaled(x, 0.6), y], out: () => [scaled(x, 1 / 0.6), y],
      left: () => [moved(x, -0.25), y], right: () => [moved(x, 0.25), y],
      up: () => [x, y && moved(y, 0.25)], down: () => [x, y && moved(y, -0.25)],
      reset: () => [full[id].x, full[id].y],
    };
    const [newX, newY] = actions[action]();
    return show(id, within(newX, full[id].x), newY && within(newY, full[id].y));
  }

  // Following a tensor

  function follow(tensor, residency = null) {
    followed = tensor;
    current = residency;
    for (const id of plots.filter((name) => kindOf(name) === "map")) {
      draw(id, true);
      const panel = document.getElementById(`${id}-detail`);
      panel.dataset.hint = panel.dataset.hint || panel.innerHTML;
      if (tensor === null) { panel.innerHTML = panel.dataset.hint; continue; }
      const all = facts.residencies.flatMap((r, index) => (r[TENSOR] === tensor ? [index] : []));
      const chosen = residency === null ? all[0] : residency;
      const words = chosen === undefined ? "" : lines(chosen).map(([key, value]) => (key ? `<span class="more">${key}</span> ${escaped(value)}` : `<b>${escaped(value)}</b>`)).join(" · ");
      const where = (one) => (facts.memories.length > 1 ? ` in ${one[MEMORY]}` : "");
      const others = all.map((index) => escaped(steps(facts.residencies[index]) + where(facts.residencies[index]))).join("; ");
      panel.innerHTML = `<p>${words}</p><p class="more">${count(all.length, "residency").replace("residencys", "residencies")}: ${others}</p>`;
    }
  }

  function walk(id, by) {
    const memory = memoryOf(id);
    const order = facts.residencies.flatMap((r, index) => (r[MEMORY] === memory ? [index] : []));
    const next = order[(order.indexOf(current) + by + order.length) % order.length];
    follow(facts.residencies[next][TENSOR], next);
  }

  function listen(id) {
    const plot = document.getElementById(id);
    const kind = kindOf(id);
    plot.on("plotly_relayout", (event) => {
      if (syncing || !("xaxis.range[0]" in event || "yaxis.range[0]" in event)) return;
      show(id, [...plot.layout.xaxis.range], full[id].y && [...plot.layout.yaxis.range]);
    });
    plot.on("plotly_doubleclick", () => { move(id, "reset"); });
    if (kind === "map") plot.on("plotly_click", ({ points }) => {
      const index = points[0].customdata;
      if (typeof index === "number") follow(facts.residencies[index][TENSOR], index);
    });
    const keys = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", "+": "in", "=": "in", "-": "out", 0: "reset" };
    plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (keys[event.key]) move(id, keys[event.key]);
      else if (kind === "map" && "npNP".includes(event.key)) walk(id, event.key.toLowerCase() === "n" ? 1 : -1);
      else if (kind === "map" && event.key === "Escape") follow(null);
      else return;
      event.preventDefault();
    });
  }

  // The page

  const setTheme = drawing.themed(() => drawAll(true));
  document.querySelectorAll("[data-action]").forEach((button) => button.addEventListener("click", () => move(button.dataset.view, button.dataset.action)));
  document.querySelectorAll("[data-follow]").forEach((button) => button.addEventListener("click", () => {
    follow(facts.tensors.findIndex((tensor) => tensor.name === button.dataset.follow));
    document.getElementById("memory-map").scrollIntoView();
  }));
  document.querySelectorAll("[data-find]").forEach((input) => input.addEventListener("input", () => {
    const found = facts.tensors.findIndex((tensor) => tensor.name === input.value);
    if (found >= 0) follow(found); else if (!input.value) follow(null);
  }));
  document.querySelectorAll("[data-axis]").forEach((box) => box.addEventListener("change", () => {
    inCycles = box.checked;
    document.querySelectorAll("[data-axis]").forEach((other) => { other.checked = inCycles; });
    measure();
    drawAll(false);
  }));
  const names = new Set(facts.residencies.map((one) => facts.tensors[one[TENSOR]].name));
  document.getElementById("tensor-names")?.append(...[...names].map((name) => new Option(name, name)));

  let themeOnScreen = null;
  addEventListener("beforeprint", () => {
    themeOnScreen = root.dataset.theme;
    const figures = document.querySelector("details.facts");
    if (figures) figures.open = true;
    setTheme("light");
    plots.forEach((id) => Plotly.relayout(id, { width: 1000 }));
  });
  addEventListener("afterprint", () => {
    plots.forEach((id) => Plotly.relayout(id, { width: null, autosize: true }));
    setTheme(themeOnScreen);
  });

  measure();
  Promise.all(drawAll(false)).then(() => {
    plots.forEach(listen);
    drawing.drawn();
  });
})();
