(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const { count, short, escaped, steps, lines, hover } = wordsOf(facts);
  const root = document.documentElement;
  const plots = Object.keys(facts.figures).filter((id) => document.getElementById(id));
  const full = {}; // what "show everything" means for each plot
  let inCycles = false;
  let followed = null; // the index of the tensor that is highlighted
  let current = null; // the index of the residency that the keyboard or a click is at
  let syncing = false;

  // Colours and axes

  const paint = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  function painted(trace) {
    const colour = paint(trace.meta.paint);
    if (trace.type === "bar") return { ...trace, marker: { ...trace.marker, color: colour, line: { width: 0, color: paint("surface") } } };
    if (trace.meta.marks) {
      const marker = { ...trace.marker, color: colour, line: { ...trace.marker.line, color: colour } };
      return { ...trace, marker };
    }
    const line = { ...trace.line, color: colour };
    return { ...trace, line, ...(trace.stackgroup ? { fillcolor: colour } : {}) };
  }

  const at = (step) => (inCycles ? facts.cycles[step] : step);

  function placed(trace) {
    if (!inCycles || !trace.meta) return trace;
    if (trace.type === "bar" && trace.meta.paint.match(/^(role|back)-/)) {
      const ones = trace.customdata.map((index) => facts.residencies[index]);
      return { ...trace, x: ones.map((r) => (at(r[START]) + at(r[STOP])) / 2), width: ones.map((r) => at(r[STOP]) - at(r[START])) };
    }
    if (trace.meta.level) return { ...trace, x: trace.x.map(at) };
    if (trace.meta.steps) {
      return { ...trace, x: facts.cycles, y: trace.y.slice(1), customdata: trace.customdata.slice(1), line: { ...trace.line, shape: "hv" } };
    }
    return trace.meta.paint === "forced" ? { ...trace, x: trace.x.map((x) => (at(Math.floor(x)) + at(Math.ceil(x))) / 2) } : trace;
  }

  function ticks([low, high], most = 6) {
    const step = 2 ** Math.ceil(Math.log2(Math.max(high - low, 1) / most));
    const values = [];
    for (let v = Math.ceil(low / step) * step; v <= high; v += step) values.push(v);
    return { tickvals: values, ticktext: values.map(short) };
  }

  function axis(title) {
    const line = paint("line");
    return { title: { text: title, standoff: 8 }, gridcolor: paint("grid"), linecolor: line, zerolinecolor: line, ticks: "" };
  }

  function layout(id) {
    const { kind, height } = facts.figures[id];
    const x = axis(kind === "traffic" ? "bytes moved" : kind === "timeline" || inCycles ? "cycle" : "step");
    const y = axis({ map: "address", footprint: "bytes resident" }[kind] || "");
    if (full[id].x) Object.assign(x, { range: [...full[id].x], tickformat: ",d", nticks: 12 });
    if (full[id].y) Object.assign(y, { range: [...full[id].y], tickmode: "array", ...ticks(full[id].y) });
    if (kind === "traffic") {
      Object.assign(x, { tickmode: "array", ...ticks([0, full[id].most]), range: [0, full[id].most], fixedrange: true });
      Object.assign(y, { autorange: "reversed", fixedrange: true });
    }
    if (kind === "timeline") Object.assign(y, { fixedrange: true, categoryorder: "array", categoryarray: [...facts.figures[id].lanes].reverse() });
    return {
      height, xaxis: x, yaxis: y, bargap: 0.35, barmode: kind === "traffic" ? "stack" : "overlay",
      hovermode: kind === "footprint" ? "x" : "closest", dragmode: kind === "traffic" ? false : "zoom",
      margin: { l: kind === "traffic" ? 170 : 92, r: 12, t: 34, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, Segoe UI, Roboto, DejaVu Sans, sans-serif", size: 12.5, color: paint("ink") },
      hoverlabel: { bgcolor: paint("surface"), bordercolor: paint("soft"), font: { color: paint("ink"), size: 12.5 }, align: "left", namelength: -1 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" },
      uniformtext: kind === "map" ? { mode: "hide", minsize: 9 } : undefined, showlegend: true,
    };
  }

  // Drawing

  function traces(id, range) {
    const drawn = facts.figures[id].traces.map((trace) => painted(placed(trace)));
    if (facts.figures[id].kind !== "map") return drawn;
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

  function outline(id, [low, high]) { // none where residencies are as narrow as it
    const memory = facts.memories[+id.split("-")[1]];
    const shown = facts.residencies.filter((r) => r[MEMORY] === memory && at(r[STOP]) > low && at(r[START]) < high).length;
    return shown < 250 ? 1 : 0;
  }

  function path(id) { // from each residency of the followed tensor to the next
    const memory = facts.memories[+id.split("-")[1]];
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
  const drawAll = (keepView) => plots.forEach((id) => draw(id, keepView));

  function measure() {
    for (const id of plots) {
      const { kind, x, y, traces } = facts.figures[id];
      const end = facts.cycles[facts.cycles.length - 1];
      full[id] = { x: kind !== "timeline" && inCycles && x ? [0, end] : x, y };
      if (kind === "traffic") {
        const sums = traces[0].y.map((_, row) => traces.reduce((sum, t) => Math.max(t.meta.marks ? t.x[row] : sum + t.x[row], sum), 0));
        full[id].most = Math.max(...sums, 1) * 1.06;
      }
    }
  }

  // Moving the view; the map and the footprint share their time

  const sharesTime = (id) => ["map", "footprint"].includes(facts.figures[id].kind);

  function show(id, x, y) {
    const change = { "xaxis.range": x };
    if (y) Object.assign(change, { "yaxis.range": y, "yaxis.tickvals": ticks(y).tickvals, "yaxis.ticktext": ticks(y).ticktext });
    syncing = true;
    const done = [Plotly.relayout(id, change)];
    const affected = plots.filter((other) => other === id || (sharesTime(id) && sharesTime(other)));
    affected.filter((other) => other !== id).forEach((other) => done.push(Plotly.relayout(other, { "xaxis.range": x })));
    affected.filter((other) => facts.figures[other].kind === "map").forEach((other) => done.push(outlined(other)));
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
    for (const id of plots.filter((name) => facts.figures[name].kind === "map")) {
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
    const memory = facts.memories[+id.split("-")[1]];
    const order = facts.residencies.flatMap((r, index) => (r[MEMORY] === memory ? [index] : []));
    const next = order[(order.indexOf(current) + by + order.length) % order.length];
    follow(facts.residencies[next][TENSOR], next);
  }

  function listen(id) {
    const plot = document.getElementById(id);
    const kind = facts.figures[id].kind;
    if (kind === "traffic") return;
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

  function setTheme(theme) {
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    button.textContent = theme === "dark" ? "Light" : "Dark";
    if (document.querySelector(".js-plotly-plot")) drawAll(true);
  }

  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
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
  document.getElementById("tensor-names").append(...[...names].map((name) => new Option(name, name)));

  let themeOnScreen = null;
  addEventListener("beforeprint", () => {
    themeOnScreen = root.dataset.theme;
    document.querySelector("details.facts").open = true;
    setTheme("light");
    plots.forEach((id) => Plotly.relayout(id, { width: 1000 }));
  });
  addEventListener("afterprint", () => {
    plots.forEach((id) => Plotly.relayout(id, { width: null, autosize: true }));
    setTheme(themeOnScreen);
  });

  setTheme(prefersDark.matches ? "dark" : "light");
  measure();
  Promise.all(plots.map((id) => draw(id, false))).then(() => {
    plots.forEach(listen);
    performance.mark("drawn");
    root.dataset.ready = "yes";
  });
})();
