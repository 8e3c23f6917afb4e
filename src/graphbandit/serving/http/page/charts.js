// Line charts and bars. Every line chart has a sentence for screen readers and a table of its values.
import { clock, el, number, percent, scrolling, svg, table } from "./dom.js";

const HEIGHT = 210, LEFT = 46, RIGHT = 12, TOP = 10, BOTTOM = 26;
const SPANS = [1, 2, 5, 10, 30, 60, 120, 180, 300, 600, 1800, 3600, 7200, 14400, 28800];

// At most `count` round values between low and high.
export function ticks(low, high, count) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(+(k * step).toPrecision(12));
  return found;
}

// 1, 2, 5, 10, … from the last one not above low to the first one above high; only powers of ten if
// these are more than `count`.
export function logTicks(low, high, count) {
  function among(factors) {
    const all = [];
    for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.log10(high) + 2; power++) {
      for (const factor of factors) all.push(+(factor * 10 ** power).toPrecision(12));
    }
    return all.slice(all.findLastIndex((value) => value <= low), 1 + all.findIndex((value) => value > high));
  }
  const fine = among([1, 2, 5]);
  return fine.length <= count ? fine : among([1]);
}

// `lines` are { key, name }; `update` takes the values as columns of those keys beside x. On a logarithmic
// scale, values that are not positive are drawn at the bottom.
export class LineChart {
  constructor(host, {
    name, lines, empty, zero = true, log = false, xName = "time", xText = (x) => clock(x, true), overTime = true,
  }) {
    Object.assign(this, { host, name, lines, empty, zero, log, xName, xText, overTime, data: { x: [] }, cursor: null });
    this.legend = el("ul", { class: "legend" });
    this.picture = svg("svg", { role: "img", height: HEIGHT });
    this.values = lines.map((line, k) => {
      const value = el("b");
      this.legend.append(el("li", {}, swatch(k), `${line.name} `, value));
      return value;
    });
    this.at = el("li", { class: "soft" });
    this.legend.append(this.at);
    this.details = el("details", {}, el("summary", {}, "As a table"));
    this.details.addEventListener("toggle", () => this.tabulate());
    host.replaceChildren(this.legend, this.picture, this.details);
    this.picture.addEventListener("pointermove", (event) => this.point(event));
    this.picture.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(host);
  }

  update(data) {
    this.data = data;
    this.draw();
  }

  // The table is made when it is opened and not updated, so that it does not move under the reader.
  tabulate() {
    this.details.querySelector(".scroll")?.remove();
    if (!this.details.open) return;
    const keys = this.lines.map(({ key }) => key);
    const rows = this.data.x.map((x, k) => [this.xText(x), ...keys.map((key) => number(this.data[key][k]))]).reverse();
    const heads = [this.xName, ...this.lines.map((line) => line.name)];
    this.details.append(scrolling(`${this.name}, table`, table(this.name, heads, rows)));
  }

  point(event) {
    const { x } = this.data;
    this.cursor = null;
    if (event && x.length && this.toX) {
      const here = event.clientX - this.picture.getBoundingClientRect().left;
      const far = (value) => Math.abs(this.toX(value) - here);
      this.cursor = x.reduce((best, value, k) => (far(value) < far(x[best]) ? k : best), 0);
    }
    this.draw();
  }

  draw() {
    const { x } = this.data, width = this.host.clientWidth;
    const keys = this.lines.map(({ key }) => key);
    const shown = keys.flatMap((key) => (this.data[key] || []).filter((value) => value !== null));
    this.host.classList.toggle("empty", !shown.length);
    this.picture.setAttribute("width", width);
    this.picture.setAttribute("aria-label", this.sentence(shown));
    this.picture.replaceChildren();
    if (!width) return;
    if (!shown.length) {
      this.picture.append(svg("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, this.empty));
      this.read(null);
      return;
    }
    const { marks, share } = this.log ? logScale(shown) : this.scale(shown);
    const first = x[0], last = x.at(-1);
    this.toX = (value) => LEFT + (last > first ? (value - first) / (last - first) : 0.5) * (width - LEFT - RIGHT);
    const toY = (value) => HEIGHT - BOTTOM - share(value) * (HEIGHT - TOP - BOTTOM);
    this.axes(width, toY, marks, first, last);
    this.lines.forEach(({ key }, k) => this.line(this.data[key], toY, k));
    this.read(this.cursor === null || this.cursor >= x.length ? null : this.cursor, toY);
  }

  // The ticks of the vertical axis, and the height of a value as a share of the axis.
  scale(shown) {
    let low = Math.min(...shown), high = Math.max(...shown);
    if (this.zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
    const pad = (high - low || Math.abs(high) || 1) * 0.06;
    high += pad;
    if (low < 0 || !this.zero) low -= pad;
    return { marks: ticks(low, high, 6), share: (value) => (value - low) / (high - low) };
  }

  axes(width, toY, marks, first, last) {
    const base = this.log ? marks[0] : 0;
    for (const value of marks) {
      const y = toY(value);
      this.picture.append(svg("line", { class: value === base ? "axis" : "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
      this.picture.append(svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, number(value)));
    }
    const room = width - LEFT - RIGHT;
    const labels = this.overTime ? timeTicks(first, last, room) : ticks(first, last, room / 80).filter(Number.isInteger);
    for (const value of labels) {
      const label = this.overTime ? clock(value, labels[1] - labels[0] < 60) : this.xText(value);
      const x = Math.min(this.toX(value), width - 28);
      this.picture.append(svg("text", { x, y: HEIGHT - 7, "text-anchor": "middle" }, label));
    }
  }

  line(values, toY, k) {
    let path = "", pen = false;
    values.forEach((value, n) => {
      const place = value === null ? "" : `${this.toX(this.data.x[n]).toFixed(1)} ${toY(value).toFixed(1)}`;
      if (place) path += (pen ? "L" : "M") + place;
      if (place && !pen && (values[n + 1] ?? null) === null) path += "h.01"; // a value on its own is a dot
      pen = Boolean(place);
    });
    this.picture.append(svg("path", { class: `line line-${k}`, d: path }));
  }

  // Show in the legend the newest values, or those under the pointer.
  read(cursor, toY) {
    const last = this.data.x.length - 1;
    this.lines.forEach(({ key }, k) => {
      const column = this.data[key] || [];
      this.values[k].textContent = number(cursor === null ? column.findLast((value) => value !== null) : column[cursor]);
      if (cursor !== null && column[cursor] !== null) {
        const place = { cx: this.toX(this.data.x[cursor]), cy: toY(column[cursor]) };
        this.picture.append(svg("circle", { class: `dot line-${k}`, r: 4, ...place }));
      }
    });
    this.at.textContent = cursor === null || last < 0 ? "" : `at ${this.xText(this.data.x[cursor])}`;
  }

  sentence(shown) {
    if (!shown.length) return `${this.name}: ${this.empty}`;
    const parts = this.lines.map(({ key, name }) => {
      const values = this.data[key].filter((value) => value !== null);
      if (!values.length) return `${name}: none`;
      const [last, first, low, high] = [values.at(-1), values[0], Math.min(...values), Math.max(...values)].map((v) => number(v));
      return `${name}: now ${last}, at first ${first}, lowest ${low}, highest ${high}`;
    });
    const [from, to] = [this.data.x[0], this.data.x.at(-1)].map((x) => this.xText(x));
    return `${this.name}, ${this.xName} ${from} to ${to}. ${parts.join(". ")}.`;
  }
}

function logScale(shown) {
  const above = shown.filter((value) => value > 0);
  const marks = above.length ? logTicks(Math.min(...above), Math.max(...above), 7) : [0.1, 1];
  const low = marks[0], length = Math.log(marks.at(-1) / low);
  return { marks, share: (value) => Math.log(Math.max(value, low) / low) / length };
}

// Round times whose labels fit into `room` pixels; labels with seconds are wider.
function timeTicks(first, last, room) {
  const step = SPANS.find((size) => ((last - first) / size) * (size < 60 ? 88 : 64) <= room) || SPANS.at(-1);
  const shift = 60 * new Date(1000 * first).getTimezoneOffset(); // round hours of local time
  const found = [];
  for (let at = Math.ceil((first - shift) / step) * step + shift; at <= last; at += step) found.push(at);
  return found;
}

export function swatch(k) {
  const line = svg("path", { class: `line line-${k}`, d: "M1 5H21" });
  return svg("svg", { class: "swatch", width: 22, height: 10, "aria-hidden": "true" }, line);
}

// Shares that add up to 1, as one bar with a legend; `parts` are { name, value }.
export function shareBar(name, parts) {
  let start = 0;
  const bar = svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  parts.forEach(({ value }, k) => {
    if (value > 0) bar.append(svg("rect", { class: `part part-${k}`, x: 100 * start, y: 0, width: 100 * value, height: 10 }));
    start += value;
  });
  const entries = parts.map((part, k) => el("li", {}, block(k), `${part.name} `, el("b", {}, percent(part.value))));
  return el("div", { role: "group", "aria-label": name }, bar, el("ul", { class: "legend" }, ...entries));
}

export function block(k) {
  const square = svg("rect", { class: `part part-${k}`, width: 12, height: 12, rx: 2 });
  return svg("svg", { class: "swatch", width: 12, height: 12, "aria-hidden": "true" }, square);
}

// A bar from 0 to the mean, and a thinner one from there for the bonus, on a scale from `low` to
// `high`.
export function scoreBar(mean, bonus, low, high) {
  const long = (size) => (100 * size) / (high - low || 1), at = (value) => long(value - low);
  return svg("svg", { class: "bar", viewBox: "0 0 100 16", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "part part-0", x: at(Math.min(0, mean)), y: 2, width: long(Math.abs(mean)), height: 12 }),
    svg("rect", { class: "part part-1", x: at(mean), y: 5, width: long(bonus), height: 6 }),
    svg("line", { class: "axis", x1: at(0), x2: at(0), y1: 0, y2: 16, "vector-effect": "non-scaling-stroke" }));
}

// A bar for a value between 0 and `most`.
export function plainBar(value, most, k) {
  return svg("svg", { class: "bar", viewBox: "0 0 100 16", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", x: 0, y: 2, width: 100, height: 12 }),
    svg("rect", { class: `part part-${k}`, x: 0, y: 2, width: (100 * Math.max(0, value)) / (most || 1), height: 12 }));
}
