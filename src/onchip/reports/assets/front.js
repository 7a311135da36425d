"use strict";
// The page of a front: schedules along two of its axes, and a table in which a click finds them.
(() => {
  const { axes, points } = JSON.parse(document.getElementById("facts").textContent);
  const { colour, lines, rowAt } = canvases;
  const $ = (id) => document.getElementById(id);

  function draw() {
    const [x, y] = [$("front-x").selectedIndex, $("front-y").selectedIndex];
    const marks = points.map((point, number) => ({ x: point[x], y: point[y], row: number + 1 })).sort((a, b) => a.x - b.x);
    lines($("front-plot"), [{ name: "", paint: colour(0), points: marks }], [axes[x], axes[y]], { joined: axes.length === 2 });
  }

  function pick(number) {
    [...$("rows").tBodies[0].rows].forEach((row, place) => { row.className = place === number - 1 ? "picked" : ""; });
    $("rows").tBodies[0].rows[number - 1].scrollIntoView({ block: "nearest" });
  }

  for (const [id, first] of [["front-x", 0], ["front-y", 1]]) {
    $(id).replaceChildren(...axes.map((name) => new Option(name, name)));
    $(id).selectedIndex = first;
    $(id).addEventListener("change", draw);
  }
  $("front-plot").addEventListener("click", (event) => { const number = rowAt($("front-plot"), event); if (number) pick(number); });
  addEventListener("resize", draw);
  drawing.themed(draw);
  draw();
  drawing.drawn();
})();
