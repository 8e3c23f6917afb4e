// The user among its neighbours: colour is uncertainty, size is rewards, edge width is weight.
import { el, number, scrolling, svg, table } from "./dom.js";
import { userLink } from "./evidence.js";

const HEIGHT = 340, MARGIN = 36, ROUNDS = 250, MOST_LABELS = 16;

// `width` of the drawing in pixels, so that its text has the size of the rest of the page.
export function neighbourhood(near, why, width) {
  const title = el("h4", {}, "Neighbourhood");
  const [user, ...others] = near.nodes;
  if (!others.length) return el("div", {}, title, el("p", {}, "This user has no neighbours."));
  const known = near.nodes.map(({ uncertainty }) => uncertainty).filter((value) => value !== null);
  const low = Math.min(...known), high = Math.max(...known);
  const weight = new Map(why.neighbours.map((entry) => [entry.user, entry.weight]));
  const rows = others.map((node) => [
    el("a", { href: userLink(node.user) }, node.user),
    number(weight.get(node.user)), number(node.rewards), number(node.uncertainty, 2),
  ]);
  const about = `${user.user} and ${others.length === 1 ? "its neighbour" : `its ${others.length} heaviest neighbours`}; `
    + "the table below has the same values and links to them.";
  return el("div", {}, title,
    known.length ? scale(low, high) : el("p", { class: "soft" }, "This policy does not say how uncertain it is about a user."),
    drawing(near, low, high, width, about),
    el("details", {}, el("summary", {}, "As a table, with links"), scrolling("Neighbours, table",
      table("Neighbours, the heaviest edges first", ["Neighbour", "Weight", "Rewards", "Uncertainty"], rows))));
}

function scale(low, high) {
  const steps = [0, 0.25, 0.5, 0.75, 1].map((share, k) => {
    const step = svg("rect", { x: 20 * k, width: 20, height: 10 });
    step.style.fill = shade(share);
    return step;
  });
  return el("p", { class: "scale" }, `uncertainty: ${number(low, 2)} `,
    svg("svg", { width: 100, height: 10, "aria-hidden": "true" }, ...steps), ` ${number(high, 2)}`);
}

const shade = (share) => `color-mix(in oklab, var(--unsure) ${Math.round(100 * share)}%, var(--sure))`;

function drawing({ nodes, edges }, low, high, width, label) {
  const places = layout(nodes, edges, width);
  const heaviest = Math.max(...edges.map(({ weight }) => weight));
  const most = Math.max(1, ...nodes.map(({ rewards }) => rewards ?? 0));
  const row = new Map(nodes.map(({ user }, k) => [user, k]));
  const picture = svg("svg", { class: "graph", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const { a, b, weight } of edges) {
    const [from, to] = [places[row.get(a)], places[row.get(b)]], own = row.get(a) === 0 || row.get(b) === 0;
    const ends = { x1: from.x, y1: from.y, x2: to.x, y2: to.y }, thick = 0.7 + (2.3 * weight) / heaviest;
    picture.append(svg("line", { class: own ? "edge own" : "edge", "stroke-width": thick, ...ends }));
  }
  nodes.forEach((node, k) => {
    const { x, y } = places[k], radius = (k ? 6 : 9) + 5 * Math.sqrt((node.rewards ?? 0) / most);
    const circle = svg("circle", { cx: x, cy: y, r: radius });
    circle.style.fill = node.uncertainty === null ? "var(--soft)" : shade((node.uncertainty - low) / (high - low || 1));
    const about = `${node.user}: ${number(node.rewards)} rewards, uncertainty ${number(node.uncertainty, 2)}`;
    const group = svg("g", { class: k ? "node" : "node self" }, svg("title", {}, about), circle);
    if (k) group.addEventListener("click", () => (location.hash = userLink(node.user))); // by keyboard: the links of the table
    if (!k || nodes.length <= MOST_LABELS) {
      group.append(svg("text", { x, y: y + radius + 13, "text-anchor": "middle" }, short(node.user)));
    }
    picture.append(group);
  });
  return picture;
}

const short = (text) => ([...text].length > 14 ? `${[...text].slice(0, 13).join("")}…` : text);

const ends = (values) => [Math.min(...values), Math.max(...values)];

// Force-directed layout (Fruchterman and Reingold 1991), from a circle and with the user fixed, so
// that the picture is the same every time.
function layout(nodes, edges, width) {
  const n = nodes.length, ideal = 1.1 / Math.sqrt(n), row = new Map(nodes.map(({ user }, k) => [user, k]));
  const turn = (2 * Math.PI) / (n - 1);
  const places = nodes.map((_, k) => (k ? { x: Math.cos(turn * k), y: Math.sin(turn * k) } : { x: 0, y: 0 }));
  for (let round = 0; round < ROUNDS; round++) {
    const moves = places.map(() => ({ x: 0, y: 0 }));
    const push = (a, b, force) => {
      const dx = places[a].x - places[b].x, dy = places[a].y - places[b].y, far = Math.hypot(dx, dy) || 1e-6;
      const size = force(far) / far;
      moves[a].x += dx * size, moves[a].y += dy * size, moves[b].x -= dx * size, moves[b].y -= dy * size;
    };
    for (let a = 0; a < n; a++) for (let b = 0; b < a; b++) push(a, b, (far) => (ideal * ideal) / far);
    for (const { a, b } of edges) push(row.get(a), row.get(b), (far) => -(far * far) / ideal / 3);
    const heat = 0.1 * (1 - round / ROUNDS);
    places.forEach((place, k) => {
      const far = Math.hypot(moves[k].x, moves[k].y);
      if (!k || !far) return;
      place.x += (moves[k].x / far) * Math.min(far, heat);
      place.y += (moves[k].y / far) * Math.min(far, heat);
    });
  }
  const [left, right] = ends(places.map(({ x }) => x)), [top, bottom] = ends(places.map(({ y }) => y));
  const zoom = Math.min((width - 2 * MARGIN) / (right - left || 1), (HEIGHT - 2 * MARGIN) / (bottom - top || 1));
  const [x0, y0] = [(left + right) / 2, (top + bottom) / 2];
  return places.map(({ x, y }) => ({ x: width / 2 + zoom * (x - x0), y: HEIGHT / 2 + zoom * (y - y0) - 6 }));
}
