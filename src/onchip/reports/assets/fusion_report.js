(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const root = document.documentElement;
  const paint = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const LEVELS = ["good", "role-input", "back-input", "role-activation", "role-output", "back-output", "back-activation", "capacity"];

  function heat(trace) {
    if (trace.meta.scale === "levels") {
      const labels = trace.meta.labels, last = labels.length - 1;
      const colour = (at) => paint(at === last ? "capacity" : LEVELS[at % LEVELS.length]);
      const colorscale = labels.flatMap((_, at) => [[at / labels.length, colour(at)], [(at + 1) / labels.length, colour(at)]]);
      return { ...trace, zmin: -0.5, zmax: last + 0.5, colorscale, xgap: 1, ygap: 1,
        colorbar: { tickvals: labels.map((_, at) => at), ticktext: labels, tickfont: { color: paint("ink") } } };
    }
    const z = trace.z.map((line) => line.map((value) => (value ? Math.log10(value) : null)));
    return { ...trace, z, colorscale: [[0, paint("good")], [0.5, paint("back-input")], [1, paint("capacity")]], showscale: false, xgap: 1, ygap: 1 };
  }

  function painted(trace) {
    if (trace.type === "heatmap") return heat(trace);
    const colour = paint(trace.meta.paint);
    if (trace.type === "bar") return { ...trace, marker: { color: colour, line: { width: 0 } } };
    return { ...trace, marker: { ...trace.marker, color: colour }, line: { ...trace.line, color: colour } };
  }

  function axis({ title, type, hidden, is_reversed }) {
    const line = paint("line");
    return { type, visible: !hidden, autorange: is_reversed ? "reversed" : true, title: { text: title || "", standoff: 8 }, automargin: true,
      gridcolor: paint("grid"), linecolor: line, zerolinecolor: line, ticks: "" };
  }

  function draw(id) {
    const { traces, x, y, height, bars } = facts[id];
    const font = { family: "system-ui, Segoe UI, Roboto, DejaVu Sans, sans-serif", size: 12.5, color: paint("ink") };
    const layout = {
      height: height || 380, barmode: bars || "stack", bargap: 0.25, xaxis: axis(x), yaxis: axis(y), font, hovermode: "closest", showlegend: true,
      margin: { l: 76, r: 12, t: 34, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: { bgcolor: paint("surface"), bordercolor: paint("soft"), font: { color: paint("ink"), size: 12.5 }, align: "left", namelength: -1 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" },
    };
    Plotly.react(id, traces.map(painted), layout, { responsive: true, displayModeBar: false });
  }

  const button = document.getElementById("theme");
  function show(theme) {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    Object.keys(facts).forEach(draw);
  }
  button.addEventListener("click", () => show(root.dataset.theme === "dark" ? "light" : "dark"));
  show(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
})();
