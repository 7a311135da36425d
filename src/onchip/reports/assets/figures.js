"use strict";
// Drawing on every page: the theme's colours, axes, layouts, and figures without zoom.
const drawing = (() => {
  const root = document.documentElement;
  const paint = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const CLOSE_TO_FAR = ["good", "role-input", "back-input", "role-activation", "role-output", "back-output", "back-activation", "capacity"];

  function classes(trace) { // cells of a heat map are places in a list of labels
    const { labels, paints } = trace.meta, last = labels.length - 1;
    const colour = (place) => paint(paints ? paints[place] : place === last ? "capacity" : CLOSE_TO_FAR[place % CLOSE_TO_FAR.length]);
    const colorscale = labels.flatMap((_, place) => [[place / labels.length, colour(place)], [(place + 1) / labels.length, colour(place)]]);
    const colorbar = { tickvals: labels.map((_, place) => place), ticktext: labels, tickfont: { color: paint("ink") } };
    return { ...trace, zmin: -0.5, zmax: last + 0.5, colorscale, colorbar, showscale: !paints };
  }

  function heat(trace) {
    const gaps = trace.meta.edges ? {} : { xgap: 1, ygap: 1 };
    if (trace.meta.scale === "levels") return { ...classes(trace), ...gaps };
    const z = trace.z.map((line) => line.map((value) => (value ? Math.log10(value) : null)));
    return { ...trace, z, colorscale: [[0, paint("good")], [0.5, paint("back-input")], [1, paint("capacity")]], showscale: false, ...gaps };
  }

  function painted(trace) {
    if (trace.type === "heatmap") return heat(trace);
    const colour = paint(trace.meta.paint);
    if (trace.type === "bar") return { ...trace, marker: { ...trace.marker, color: colour, line: { width: 0, color: paint("surface") } } };
    const line = { ...trace.line, color: colour };
    const marker = { ...trace.marker, color: colour, line: { ...(trace.marker || {}).line, color: colour } };
    return { ...trace, line, marker, ...(trace.stackgroup ? { fillcolor: colour } : {}) };
  }

  function axis(title, more = {}) {
    const line = paint("line");
    return { title: { text: title || "", standoff: 8 }, gridcolor: paint("grid"), linecolor: line, zerolinecolor: line, ticks: "", ...more };
  }

  function layout(more) {
    return {
      bargap: 0.25, hovermode: "closest", showlegend: true, margin: { l: 76, r: 12, t: 34, b: 44 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, Segoe UI, Roboto, DejaVu Sans, sans-serif", size: 12.5, color: paint("ink") },
      hoverlabel: { bgcolor: paint("surface"), bordercolor: paint("soft"), font: { color: paint("ink"), size: 12.5 }, align: "left", namelength: -1 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" },
      ...more,
    };
  }

  function stillAxis({ title, type, tickformat, tickvals, ticktext, hidden, is_reversed, lowest, highest }) {
    const range = highest ? [Math.log10(lowest), Math.log10(highest)] : undefined;
    return axis(title, { type, tickformat, tickvals, ticktext, range, visible: !hidden, autorange: range ? false : is_reversed ? "reversed" : true, automargin: true, fixedrange: true });
  }

  function still(id, { traces, x, y, height, bars }) {
    const wanted = layout({ height: height || 380, dragmode: false, barmode: bars || "stack", xaxis: stillAxis(x), yaxis: stillAxis(y) });
    wanted.showlegend = traces.length > 1;
    const plot = document.getElementById(id), isNew = !plot.layout;
    return Plotly.react(id, traces.map(painted), wanted, { responsive: true, displayModeBar: false }).then(() => {
      if (isNew) plot.on("plotly_click", ({ points: [{ data, pointNumber }] }) => open(data.meta.opens && data.meta.opens[pointNumber]));
    });
  }

  function open(id) { // the part of the page that a click on a mark leads to
    const found = id && document.getElementById(id);
    if (!found) return;
    document.querySelectorAll(".picked").forEach((one) => one.classList.remove("picked"));
    found.classList.add("picked");
    if ("open" in found) found.open = true;
    found.scrollIntoView({ block: "nearest" });
  }

  // The reader's theme, and the button that switches it; `redraw` draws all figures again.
  function themed(redraw) {
    const button = document.getElementById("theme");
    const prefersDark = matchMedia("(prefers-color-scheme: dark)");
    function set(theme) {
      root.dataset.theme = theme;
      button.textContent = theme === "dark" ? "Light" : "Dark";
      redraw();
    }
    prefersDark.addEventListener("change", () => set(prefersDark.matches ? "dark" : "light"));
    button.addEventListener("click", () => set(root.dataset.theme === "dark" ? "light" : "dark"));
    root.dataset.theme = prefersDark.matches ? "dark" : "light";
    button.textContent = prefersDark.matches ? "Light" : "Dark";
    return set;
  }

  function drawn() {
    performance.mark("drawn");
    root.dataset.ready = "yes";
  }

  return { root, paint, painted, axis, layout, still, themed, drawn };
})();
