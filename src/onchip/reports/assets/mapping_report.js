(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const root = document.documentElement;
  const paint = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  function painted(trace) {
    const colour = paint(trace.meta.paint);
    if (trace.type === "bar") return { ...trace, marker: { color: colour, line: { width: 0 } } };
    return { ...trace, marker: { ...trace.marker, color: colour }, line: { color: colour } };
  }

  function axis({ title, type, tickformat, lowest, highest }) {
    const line = paint("line");
    const range = highest ? [Math.log10(lowest), Math.log10(highest)] : undefined;
    return { type, tickformat, range, title: { text: title || "", standoff: 8 }, automargin: true,
      gridcolor: paint("grid"), linecolor: line, zerolinecolor: line, ticks: "" };
  }

  function draw(id) {
    const { traces, x, y } = facts[id];
    const font = { family: "system-ui, Segoe UI, Roboto, DejaVu Sans, sans-serif", size: 12.5, color: paint("ink") };
    const layout = {
      height: 380, barmode: "stack", bargap: 0.25, xaxis: axis(x), yaxis: axis(y), font, hovermode: "closest", showlegend: true,
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
