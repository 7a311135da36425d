"use strict";
// Charts of many points on a canvas: axes, lines with bands, marks, cells and parallel coordinates, with hit tests.
const canvases = (() => {
  const { paint } = drawing;
  const PAINTS = ["role-input", "role-activation", "role-output", "back-activation", "role-moved", "back-output", "back-input", "back-parameter"];
  const LEFT = 92, RIGHT = 16, TOP = 14, BOTTOM = 46, REACH = 14;
  const colour = (place) => paint(PAINTS[place % PAINTS.length]);

  // A value in a readable unit; `scales` are the larger units of its unit, the largest first.
  function short(n, { unit = "", scales = [] } = {}) {
    if (typeof n !== "number") return String(n ?? "");
    if (n === 0) return "0";
    for (const [size, name] of scales) if (Math.abs(n) >= size) return `${+(n / size).toPrecision(4)} ${name}`;
    const text = unit ? (+n.toPrecision(4)).toLocaleString("en-US") : String(+n.toPrecision(6));
    return unit ? `${text} ${unit}` : text;
  }

  function ticks(low, high, { unit } = {}, most = 6) {
    const raw = (high - low) / most || 1, base = unit === "bytes" ? 2 : 10;
    const power = base ** Math.floor(Math.log(raw) / Math.log(base) + 1e-9);
    const step = (base === 2 ? [1, 2] : [1, 2, 5, 10]).map((by) => by * power).find((one) => one >= raw * (1 - 1e-9));
    const values = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) values.push(value);
    return values;
  }

  // The canvas as large as its place on the page, cleared; `context` counts in CSS pixels.
  function prepared(canvas) {
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    canvas.found = [];
    return { context, width, height };
  }

  function extent(values) {
    let low = Infinity, high = -Infinity;
    for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
    if (low > high) return [0, 1];
    return low === high ? [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)] : [low, high];
  }

  // Places of values along an axis: numbers evenly, names one after another.
  function scale(values, from, to, unit) {
    if (values.every((value) => typeof value === "number")) {
      const [low, high] = extent(values);
      const at = (value) => from + ((value - low) / (high - low)) * (to - from);
      return { at, marks: ticks(low, high, unit).map((value) => [at(value), short(value, unit)]) };
    }
    const names = [...new Set(values.map(String))].sort((a, b) => a - b || (a < b ? -1 : 1));
    const place = new Map(names.map((name, index) => [name, index]));
    const at = (value) => from + ((place.get(String(value)) + 0.5) / names.length) * (to - from);
    const every = Math.ceil(names.length / 20);
    return { at, names, marks: names.filter((_, index) => index % every === 0).map((name) => [at(name), unit && unit.unit && !isNaN(name) ? short(+name, unit) : clipped(name)]) };
  }

  const clipped = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);

  function frame({ context, width, height }, xs, ys, [across, up]) {
    const x = scale(xs, LEFT, width - RIGHT, across), y = scale(ys, height - BOTTOM, TOP, up);
    context.strokeStyle = paint("grid");
    context.fillStyle = paint("soft");
    context.lineWidth = 1;
    context.textAlign = "center";
    let free = 0;
    for (const [at, text] of x.marks) {
      line(context, at, TOP, at, height - BOTTOM);
      const half = context.measureText(text).width / 2;
      if (at - half < free) continue;
      context.fillText(text, at, height - BOTTOM + 16);
      free = at + half + 6;
    }
    context.textAlign = "right";
    for (const [at, text] of y.marks) { line(context, LEFT, at, width - RIGHT, at); context.fillText(text, LEFT - 6, at + 4); }
    context.textAlign = "center";
    context.fillText(across.name, (LEFT + width - RIGHT) / 2, height - 10);
    context.save();
    context.translate(14, (TOP + height - BOTTOM) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(up.name, 0, 0);
    context.restore();
    return { x, y };
  }

  function line(context, x1, y1, x2, y2) {
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
  }

  // Series of points {x, y, low, row}: a line with marks each, and what is open down to its bound shaded.
  function lines(canvas, series, titles, { joined = true, marked = new Set() } = {}) {
    const place = prepared(canvas), { context } = place;
    const all = series.flatMap((one) => one.points);
    const { x, y } = frame(place, all.map((p) => p.x), all.flatMap((p) => (typeof p.low === "number" ? [p.y, p.low] : [p.y])), titles);
    for (const { points, paint: name } of series) {
      const at = points.map((p) => [x.at(p.x), y.at(p.y), p]);
      context.fillStyle = context.strokeStyle = name;
      if (joined && points.some((p) => typeof p.low === "number" && p.low !== p.y)) {
        context.globalAlpha = 0.18;
        context.beginPath();
        at.forEach(([px, py], index) => (index ? context.lineTo(px, py) : context.moveTo(px, py)));
        [...at].reverse().forEach(([px, , p]) => context.lineTo(px, y.at(typeof p.low === "number" ? p.low : p.y)));
        context.fill();
        context.globalAlpha = 1;
      }
      if (joined) {
        context.lineWidth = 1.5;
        context.beginPath();
        at.forEach(([px, py], index) => (index ? context.lineTo(px, py) : context.moveTo(px, py)));
        context.stroke();
      }
      const size = all.length > 2000 ? 2 : 3;
      for (const [px, py, p] of at) {
        const large = marked.has(p.row) ? 2.5 : 0;
        context.fillRect(px - size / 2 - large, py - size / 2 - large, size + 2 * large, size + 2 * large);
        canvas.found.push([px, py, p.row]);
      }
    }
  }

  // Cells {x, y, z, row}, the lower z the better.
  function cells(canvas, points, titles) {
    const place = prepared(canvas), { context, width, height } = place;
    const { x, y } = frame(place, points.map((p) => String(p.x)), points.map((p) => String(p.y)), titles);
    const [low, high] = extent(points.map((p) => p.z));
    const wide = (width - LEFT - RIGHT) / x.names.length, tall = (height - TOP - BOTTOM) / y.names.length;
    context.fillStyle = paint("accent");
    for (const p of points) {
      const [px, py] = [x.at(p.x), y.at(p.y)];
      context.globalAlpha = 0.08 + 0.92 * ((p.z - low) / (high - low));
      context.fillRect(px - wide / 2, py - tall / 2, Math.max(1, wide - 1), Math.max(1, tall - 1));
      canvas.found.push([px, py, p.row]);
    }
    context.globalAlpha = 1;
    canvas.reach = Math.hypot(wide, tall) / 2 + 1;
  }

  // A line for each row across axes {name, values}; rows that are not chosen are faint.
  function parallel(canvas, axes, rows, isChosen) {
    const { context, width, height } = prepared(canvas);
    const between = (width - 2 * LEFT) / Math.max(1, axes.length - 1);
    const placed = axes.map(({ name, values, ...unit }, index) => {
      const { at, marks } = scale(values.filter((value) => value !== null), height - BOTTOM, TOP + 14, unit);
      return { name, x: LEFT + index * between, at: values.map((value) => (value === null ? null : at(value))), marks };
    });
    context.lineWidth = 1;
    for (const chosen of [false, true]) {
      context.strokeStyle = paint(chosen ? "accent" : "soft");
      context.globalAlpha = chosen ? Math.min(1, Math.max(0.04, 60 / rows.length)) : 0.03;
      context.beginPath();
      rows.forEach((row, number) => {
        if (isChosen(row) !== chosen) return;
        let begun = false;
        for (const { x, at } of placed) {
          if (at[number] === null) { begun = false; continue; }
          if (begun) context.lineTo(x, at[number]); else context.moveTo(x, at[number]);
          begun = true;
        }
      });
      context.stroke();
    }
    context.globalAlpha = 1;
    context.textAlign = "center";
    for (const { name, x, marks } of placed) {
      context.strokeStyle = paint("line");
      context.fillStyle = paint("ink");
      line(context, x, TOP + 14, x, height - BOTTOM);
      context.fillText(clipped(name), x, TOP);
      context.fillStyle = paint("soft");
      for (const [at, text] of marks) context.fillText(text, x, at + 4);
    }
    canvas.axes = placed;
  }

  // The row that is drawn nearest to a place of the mouse, if it is near.
  function rowAt(canvas, event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let nearest = null, least = (canvas.reach || REACH) ** 2;
    for (const [px, py, row] of canvas.found || []) {
      const far = (px - x) ** 2 + (py - y) ** 2;
      if (far < least) { least = far; nearest = row; }
    }
    return nearest;
  }

  return { colour, short, lines, cells, parallel, rowAt };
})();
