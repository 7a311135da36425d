// A page of figures without zoom.
(() => {
  const { figures } = JSON.parse(document.getElementById("facts").textContent);
  const drawAll = () => Promise.all(Object.keys(figures).map((id) => drawing.still(id, figures[id])));
  drawing.themed(drawAll);
  drawAll().then(drawing.drawn);
})();
