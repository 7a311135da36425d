"use strict";
// The page of a sweep: the filter applies to all figures and to the table; a click shows the command of a row.
(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const { colour, short, lines, cells, parallel, rowAt } = canvases;
  const $ = (id) => document.getElementById(id);
  const PAGE = 100, MOST_SERIES = 60;
  const column = new Map(facts.columns.map((name, place) => [name, place])), rows = facts.rows;
  let texts = null, chosen, sorted = { by: "number", down: false }, page = 0, picked = null, range = null;

  const value = (row, name) => row[column.get(name)];
  const isNumber = (name) => rows.some((row) => typeof value(row, name) === "number");
  const varies = (name) => new Set(rows.map((row) => value(row, name)).filter((one) => one !== null)).size > 1;
  const metrics = () => facts.metrics.filter(isNumber);
  const parameters = () => facts.parameters.filter((name) => rows.some((row) => value(row, name) !== null));
  // The axis of a column: its name, its unit and the larger units.
  function axisOf(name) {
    const own = ["objective_value", "lower_bound"].includes(name) ? new Set(rows.map((row) => value(row, "unit")).filter(Boolean)) : new Set();
    const unit = own.size === 1 ? [...own][0] : facts.units[name] || "";
    return { name: name.replaceAll("_", " "), unit, scales: facts.scales[unit] || [] };
  }

  function offered(select, names, wanted) {
    const before = select.value;
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    select.value = names.includes(before) && before ? before : names.includes(wanted) ? wanted : names[0] || "";
  }

  function offer() {
    const given = parameters(), figures = metrics(), choices = [...given, "network", "accelerator"];
    const first = [...given, ...facts.costs].find(varies) || "number";
    const shown = ["objective_value", "traffic_bytes", ...figures].find((name) => figures.includes(name) && varies(name)) || figures[0];
    offered($("curve-x"), [...given, ...facts.costs, "number", ...figures], first);
    offered($("curve-y"), figures, shown);
    offered($("heat-x"), choices, choices.find(varies));
    offered($("heat-y"), choices, choices.filter((name) => varies(name))[1] || "network");
    offered($("heat-z"), figures, shown);
    offered($("front-x"), [...facts.costs, ...given, "number", ...figures].filter(isNumber), [...facts.costs, ...given].filter(isNumber).find(varies) || first);
    offered($("front-y"), figures, shown);
  }

  // What is shown

  function filter() {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && !texts) texts = rows.map((row) => row.map((one) => String(one ?? "")).join(" ").toLowerCase());
    const inRange = (row) => !range || (typeof value(row, range.name) === "number" && value(row, range.name) >= range.low && value(row, range.name) <= range.high);
    chosen = rows.filter((row, place) => words.every((word) => texts[place].includes(word)) && inRange(row));
  }

  function series(x, y) {
    const groups = new Map();
    const others = [...new Set(["study", "verb", "network", "accelerator", "objective", ...facts.parameters])].filter((name) => name !== x && varies(name));
    const kept = others.map((name) => column.get(name));
    for (const row of chosen) {
      if (typeof value(row, y) !== "number" || value(row, x) === null) continue;
      const name = kept.map((place) => row[place]).filter((one) => one !== null).map(file).join(" · ");
      if (!groups.has(name)) groups.set(name, []);
      const low = y === "objective_value" ? value(row, "lower_bound") : undefined;
      groups.get(name).push({ x: value(row, x), y: value(row, y), low: low === null ? undefined : low, row });
    }
    return [...groups].map(([name, points], place) => ({ name, paint: colour(place), points: points.sort((a, b) => (a.x < b.x ? -1 : 1)) }));
  }

  const file = (name) => (typeof name === "string" ? name.split("/").pop() : name); // a path without its folders

  function legend(id, all) {
    if (all.length === 1 && !all[0].name) return $(id).replaceChildren();
    $(id).replaceChildren(...all.slice(0, MOST_SERIES).map(({ name, paint }) => {
      const item = document.createElement("span"), mark = document.createElement("i");
      mark.style.background = paint;
      item.append(mark, name);
      return item;
    }));
    if (all.length > MOST_SERIES) $(id).append(`and ${all.length - MOST_SERIES} more`);
  }

  function drawCurves() {
    const [x, y] = [$("curve-x").value, $("curve-y").value], all = series(x, y);
    lines($("curves-plot"), all, [axisOf(x), axisOf(y)]);
    legend("curves-legend", all);
  }

  function drawHeat() {
    const [x, y, z] = ["heat-x", "heat-y", "heat-z"].map((id) => $(id).value), best = new Map();
    for (const row of chosen) {
      if (typeof value(row, z) !== "number" || value(row, x) === null || value(row, y) === null) continue;
      const key = `${value(row, x)}\n${value(row, y)}`, before = best.get(key);
      if (!before || value(row, z) < before.z) best.set(key, { x: file(value(row, x)), y: file(value(row, y)), z: value(row, z), row });
    }
    cells($("heat-plot"), [...best.values()], [axisOf(x), axisOf(y)]);
  }

  function front(points) {
    const found = new Set();
    let least = Infinity;
    for (const p of [...points].sort((a, b) => a.x - b.x || a.y - b.y)) if (p.y < least) { least = p.y; found.add(p.row); }
    return found;
  }

  function drawFront() {
    const [x, y] = [$("front-x").value, $("front-y").value], marked = new Set();
    const groups = new Map();
    for (const row of chosen) {
      if (typeof value(row, x) !== "number" || typeof value(row, y) !== "number") continue;
      const name = `${file(value(row, "network"))} · ${value(row, "objective")}`;
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push({ x: value(row, x), y: value(row, y), row });
    }
    const all = [...groups].map(([name, points], place) => ({ name, paint: colour(place), points }));
    for (const { points } of all) for (const row of front(points)) marked.add(row);
    lines($("front-plot"), all, [axisOf(x), axisOf(y)], { joined: false, marked });
    legend("front-legend", all);
  }

  function drawParallel() {
    const names = [...new Set(["network", "accelerator", ...parameters(), ...facts.costs, ...metrics()])];
    const axes = names.filter((name) => new Set(chosen.map((row) => value(row, name)).filter((one) => one !== null)).size > 1).slice(0, 12);
    $("parallel-plot").style.minWidth = `${110 * axes.length}px`;
    parallel($("parallel-plot"), axes.map((name) => ({ ...axisOf(name), values: chosen.map((row) => (name === "network" ? file(value(row, name)) : value(row, name))) })), chosen, (row) => !picked || row === picked);
  }

  // The table

  function compare(a, b) {
    const [one, other] = [value(a, sorted.by), value(b, sorted.by)];
    if (one === other) return 0;
    if (one === null || other === null) return one === null ? 1 : -1;
    return (one < other ? -1 : 1) * (sorted.down ? -1 : 1);
  }

  function drawTable() {
    const ordered = [...chosen].sort(compare);
    page = Math.min(page, Math.max(0, Math.ceil(ordered.length / PAGE) - 1));
    const body = document.createElement("tbody");
    for (const row of ordered.slice(page * PAGE, (page + 1) * PAGE)) {
      const line = body.insertRow();
      line.tabIndex = 0;
      if (row === picked) line.className = "picked";
      line.onclick = () => pick(row);
      line.onkeydown = (event) => { if (event.key === "Enter") pick(row); };
      for (const one of row) {
        const cell = line.insertCell();
        cell.textContent = typeof one === "number" ? one.toLocaleString("en-US") : one ?? "";
        if (typeof one === "number") cell.className = "number";
      }
    }
    $("rows").tBodies[0].replaceWith(body);
    const first = ordered.length ? page * PAGE + 1 : 0;
    $("rows-shown").textContent = `${first} to ${Math.min((page + 1) * PAGE, ordered.length)} of ${ordered.length} rows`;
    [...$("rows").tHead.rows[0].cells].forEach((cell, place) =>
      cell.setAttribute("aria-sort", facts.columns[place] === sorted.by ? (sorted.down ? "descending" : "ascending") : "none"));
  }

  function head() {
    const line = document.createElement("tr");
    for (const name of facts.columns) {
      const cell = document.createElement("th"), button = document.createElement("button");
      button.className = "link";
      button.textContent = name;
      button.onclick = () => { sorted = { by: name, down: sorted.by === name && !sorted.down }; page = 0; drawTable(); };
      cell.append(button);
      line.append(cell);
    }
    $("rows").tHead.replaceChildren(line);
  }

  const quoted = (text) => (/^[\w@%+=:,.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

  // Commands for a point's answer and for its report.
  function commandsOf(row) {
    if (value(row, "objective_value") === null) return [];
    const key = value(row, "key").slice(0, 12), verb = value(row, "verb");
    const answer = `${key}.${{ map: "yaml", plan: "json" }[verb] || "json.gz"}`;
    const kept = ["onchip", "sweep", "--store", facts.store, "--answer", key, "-o", answer].map(quoted).join(" ");
    const drawn = ["onchip", "report", answer, value(row, "network"), "-o", `${key}.html`].map(quoted).join(" ");
    return ["plan", "schedule"].includes(verb) ? [kept, drawn] : [kept];
  }

  function pick(row) {
    picked = row;
    const [commands, panel] = [commandsOf(row), $("picked")];
    panel.replaceChildren();
    const title = document.createElement("b");
    title.textContent = `${file(value(row, "network"))} on ${value(row, "accelerator")}: ${value(row, "status")}, ${short(value(row, "objective_value"), { unit: value(row, "unit"), scales: facts.scales[value(row, "unit")] })}`;
    panel.append(title);
    for (const command of commands) {
      const code = document.createElement("pre");
      code.textContent = command;
      panel.append(code);
    }
    drawTable();
    setTimeout(drawParallel);
  }

  // The table first, then one figure after another, so that the page stays responsive.
  let turn = 0;
  function drawAll() {
    filter();
    drawTable();
    $("progress").textContent = `${rows.length} of ${facts.planned} points`;
    const mine = ++turn, waiting = [drawCurves, drawHeat, drawFront, drawParallel];
    const next = () => {
      if (mine !== turn) return;
      const draw = waiting.shift();
      if (!draw) return drawing.drawn();
      draw();
      setTimeout(next);
    };
    setTimeout(next);
  }

  // Brushing an axis of the parallel ones

  function brush(canvas) {
    let begun = null;
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => { begun = place(event); });
    canvas.addEventListener("pointerup", (event) => {
      if (!begun) return;
      const [[x, y1], [, y2]] = [begun, place(event)];
      begun = null;
      const axis = (canvas.axes || []).reduce((near, one) => (!near || Math.abs(one.x - x) < Math.abs(near.x - x) ? one : near), null);
      if (!axis || Math.abs(y1 - y2) < 4) { range = null; return drawAll(); }
      const inside = chosen.filter((_, number) => axis.at[number] !== null && axis.at[number] >= Math.min(y1, y2) && axis.at[number] <= Math.max(y1, y2));
      const values = inside.map((row) => value(row, axis.name)).filter((one) => typeof one === "number");
      range = values.length ? { name: axis.name, low: Math.min(...values), high: Math.max(...values) } : null;
      return drawAll();
    });
  }

  head();
  offer();
  for (const id of ["curves-plot", "heat-plot", "front-plot"]) $(id).addEventListener("click", (event) => { const row = rowAt($(id), event); if (row) pick(row); });
  const drawnBy = { curve: drawCurves, heat: drawHeat, front: drawFront };
  for (const select of document.querySelectorAll("select")) select.addEventListener("change", drawnBy[select.id.split("-")[0]]);
  $("filter").addEventListener("input", () => { page = 0; drawAll(); });
  $("before").addEventListener("click", () => { page = Math.max(0, page - 1); drawTable(); });
  $("after").addEventListener("click", () => { page += 1; drawTable(); });
  addEventListener("resize", drawAll);
  brush($("parallel-plot"));
  drawing.themed(drawAll);
  drawAll();
})();
