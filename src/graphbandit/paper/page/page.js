"use strict";
// Draws every chart description of #charts as SVG: axes, bands, curves, points, bars, small graphs; hovering shows values.
const SVG = "http://www.w3.org/2000/svg";
const W = 560, H = 340, M = { left: 58, right: 26, top: 30, bottom: 44 };

function node(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (parent) parent.appendChild(made);
  return made;
}

function ticks(low, high, count) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) out.push(Math.abs(v) < 1e-12 ? 0 : v);
  return out;
}

function short(v) {
  const size = Math.abs(v);
  return size >= 1000 ? v.toLocaleString("en", { maximumFractionDigits: 0 }) : String(+v.toPrecision(3));
}

function scales(panel, shown) {
  const xs = shown.flatMap((s) => s.x), ys = shown.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]);
  const usable = panel.log_y ? ys.filter((v) => v > 0) : ys;
  let x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = Math.min(...usable), y1 = Math.max(...usable);
  if (shown.some((s) => s.style === "bars")) { const w = shown[0].x[1] - shown[0].x[0]; x0 -= w / 2; x1 += w / 2; }
  if (panel.log_y) { y0 = Math.log10(y0); y1 = Math.log10(y1); } else if (panel.y_from_zero) y0 = Math.min(0, y0);
  const pad = (y1 - y0 || 1) * 0.04;
  y1 += pad;
  if (!panel.y_from_zero || panel.log_y) y0 -= pad;
  const toY = panel.log_y ? (v) => Math.log10(Math.max(v, 10 ** y0)) : (v) => v;
  return {
    x0, x1, y0, y1,
    x: (v) => M.left + ((v - x0) / (x1 - x0 || 1)) * (W - M.left - M.right),
    y: (v) => H - M.bottom - ((toY(v) - y0) / (y1 - y0 || 1)) * (H - M.top - M.bottom),
  };
}

function axes(svg, panel, at) {
  node("text", { x: M.left - 40, y: 16, class: "title" }, svg).textContent = panel.title;
  const levels = panel.log_y ? ticks(at.y0, at.y1, 4).filter(Number.isInteger).map((e) => 10 ** e) : ticks(at.y0, at.y1, 5);
  for (const v of levels) {
    node("line", { x1: M.left, x2: W - M.right, y1: at.y(v), y2: at.y(v), class: "grid" }, svg);
    node("text", { x: M.left - 6, y: at.y(v) + 4, "text-anchor": "end" }, svg).textContent = short(v);
  }
  for (const v of ticks(at.x0, at.x1, 6)) node("text", { x: at.x(v), y: H - M.bottom + 16, "text-anchor": "middle" }, svg).textContent = short(v);
  node("line", { x1: M.left, x2: W - M.right, y1: H - M.bottom, y2: H - M.bottom, class: "axis" }, svg);
  node("text", { x: (M.left + W) / 2, y: H - 8, "text-anchor": "middle" }, svg).textContent = panel.x;
  const label = node("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(13 ${(H - M.bottom + M.top) / 2}) rotate(-90)` }, svg);
  label.textContent = panel.y;
}

function draw(svg, series, at) {
  const points = series.x.map((x, k) => [at.x(x), at.y(series.y[k])]);
  if (series.low) {
    const upper = series.x.map((x, k) => `${at.x(x)},${at.y(series.high[k])}`);
    const under = series.x.map((x, k) => `${at.x(x)},${at.y(series.low[k])}`).reverse();
    node("polygon", { points: upper.concat(under).join(" "), fill: series.colour, opacity: 0.15 }, svg);
  }
  if (series.style === "points") {
    for (const [x, y] of points) node("circle", { cx: x, cy: y, r: 2.4, fill: series.colour, opacity: 0.5 }, svg);
  } else if (series.style === "bars") {
    const width = Math.max(1, Math.abs(points[1][0] - points[0][0]) * 0.92);
    for (const [x, y] of points) node("rect", { x: x - width / 2, y, width, height: Math.max(0, H - M.bottom - y), fill: series.colour, opacity: 0.8 }, svg);
  } else {
    const dash = series.style === "dashed" ? "6 4" : "none";
    node("polyline", { points: points.map((p) => p.join(",")).join(" "), fill: "none", stroke: series.colour, "stroke-width": 2, "stroke-dasharray": dash }, svg);
    if (points.length <= 20) for (const [x, y] of points) node("circle", { cx: x, cy: y, r: 3, fill: series.colour }, svg);
  }
}

function graph(figure, panel) {
  const svg = node("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": panel.title }, figure);
  node("text", { x: 18, y: 16, class: "title" }, svg).textContent = panel.title;
  const { x, y } = panel.series[0];
  const px = (v) => W / 2 + v * (H / 2 - 30), py = (v) => H / 2 + 8 - v * (H / 2 - 30);
  for (const [i, j] of panel.edges) node("line", { x1: px(x[i]), y1: py(y[i]), x2: px(x[j]), y2: py(y[j]), stroke: "#9aa0aa", "stroke-width": 0.8 }, svg);
  x.forEach((v, k) => node("circle", { cx: px(v), cy: py(y[k]), r: 6, fill: (panel.node_colours || [])[k] || "#d55e00", stroke: "#30343f", "stroke-width": 0.8 }, svg));
}

function plot(figure, panel) {
  const hidden = new Set();
  const svg = node("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${panel.title}: ${panel.series.map((s) => s.name).join(", ")}` }, figure);
  const tip = document.createElement("div");
  tip.className = "tip";
  figure.appendChild(tip);
  let at, shown, mark;

  function redraw() {
    svg.replaceChildren();
    shown = panel.series.filter((s) => !hidden.has(s.name));
    if (!shown.length) shown = panel.series;
    at = scales(panel, shown);
    axes(svg, panel, at);
    for (const series of shown) draw(svg, series, at);
    mark = node("line", { y1: M.top, y2: H - M.bottom, class: "axis", visibility: "hidden" }, svg);
  }

  function show(event) {
    const box = svg.getBoundingClientRect();
    const x = at.x0 + (((event.clientX - box.left) / box.width) * W - M.left) / (W - M.left - M.right) * (at.x1 - at.x0);
    const lines = shown.filter((s) => s.style !== "points");
    if (!lines.length || x < at.x0 || x > at.x1) return hide();
    let nearest = null;
    const rows = lines.map((s) => {
      const k = s.x.reduce((best, v, i) => (Math.abs(v - x) < Math.abs(s.x[best] - x) ? i : best), 0);
      nearest = s.x[k];
      const spread = s.low ? ` (${short(s.low[k])} to ${short(s.high[k])})` : "";
      return [s.y[k], `<span style="color:${s.colour}">■</span> ${s.name}: <b>${short(s.y[k])}</b>${spread}`];
    });
    rows.sort((a, b) => b[0] - a[0]);
    tip.innerHTML = `${panel.x}: ${short(nearest)}<br>` + rows.map((r) => r[1]).join("<br>");
    tip.style.display = "block";
    const left = event.clientX - box.left;
    tip.style.left = `${left > box.width / 2 ? left - tip.offsetWidth - 14 : left + 14}px`;
    tip.style.top = `${Math.max(0, event.clientY - box.top - tip.offsetHeight / 2)}px`;
    mark.setAttribute("x1", at.x(nearest));
    mark.setAttribute("x2", at.x(nearest));
    mark.setAttribute("visibility", "visible");
  }

  function hide() {
    tip.style.display = "none";
    mark.setAttribute("visibility", "hidden");
  }

  redraw();
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
  if (panel.series.length > 1) {
    const legend = document.createElement("div");
    legend.className = "legend";
    for (const series of panel.series) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const swatch = document.createElement("i");
      swatch.style.background = series.colour;
      button.append(swatch, series.name);
      button.onclick = () => {
        if (!hidden.delete(series.name)) hidden.add(series.name);
        button.setAttribute("aria-pressed", String(!hidden.has(series.name)));
        redraw();
      };
      legend.appendChild(button);
    }
    figure.appendChild(legend);
  }
}

const charts = JSON.parse(document.getElementById("charts").textContent);
for (const place of document.querySelectorAll("[data-chart]")) {
  const chart = charts[place.dataset.chart];
  place.replaceChildren();
  for (const panel of chart.panels) {
    const figure = document.createElement("figure");
    place.appendChild(figure);
    if (panel.edges) graph(figure, panel); else plot(figure, panel);
  }
  if (chart.bands) {
    const note = document.createElement("p");
    note.className = "caption";
    note.textContent = chart.bands;
    place.after(note);
  }
}

// A link of the matrix opens the claim that it leads to.
function open_claim() {
  const box = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (box && box.tagName === "DETAILS") box.open = true;
}
addEventListener("hashchange", open_claim);
open_claim();
