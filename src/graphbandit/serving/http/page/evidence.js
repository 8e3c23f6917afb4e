// Does the graph help? Evidence of the models with it and without it, and their weights over time.
import { block, plainBar } from "./charts.js";
import { el, fixed, number, percent, plural, renew, scrolling, svg, table, whole } from "./dom.js";

const ANSWERS = { yes: "Yes", no: "No", "not clear": "Not clear" };
const MODELS = [
  { key: "with_graph", kind: "graph", name: "With the graph", about: "users are like their neighbours", k: 0 },
  { key: "everyone", kind: "everyone", name: "Without: all alike", about: "users are like everyone", k: 1 },
  { key: "alone", kind: "alone", name: "Without: each alone", about: "users tell nothing about each other", k: 2 },
];

export function showEvidence(host, stats) {
  const { evidence } = stats;
  if (!evidence) {
    renew(host, el("p", {}, `The policy of this service, ${stats.policy}, does not compare models with and without the graph, `,
      "so it cannot say. ", el("code", {}, "--policy adaptive"), " does."));
  } else if (!evidence.rounds) {
    renew(host, el("p", {}, "No reward has been seen yet. The answer comes with the first thirty or so."));
  } else {
    renew(host,
      el("p", { class: "verdict", "data-verdict": evidence.answer }, ANSWERS[evidence.answer] || evidence.answer),
      el("p", {}, evidence.sentence),
      trail(evidence),
      el("details", {}, el("summary", {}, "Evidence of the models"), models(evidence)),
      ...misled(evidence.misled));
  }
}

// Not every policy keeps models of every kind.
const kept = (evidence) => MODELS.filter(({ key }) => evidence[key] !== null);

function models(evidence) {
  const values = kept(evidence).map(({ key }) => evidence[key]);
  const least = Math.min(...values), most = Math.max(...values);
  const rows = kept(evidence).map(({ name, about, k }, row) => {
    const ahead = values[row] - least;
    const model = el("span", {}, name, el("small", {}, about));
    return [model, plainBar(ahead, most - least, k), ahead ? `+${fixed(ahead, 1)}` : "0"];
  });
  const made = table("Log evidence of the models", ["Model", "Lead", "Nats"], rows);
  made.classList.add("bars");
  return el("div", {}, el("h3", {}, "Evidence with and without"), made,
    el("p", { class: "soft" }, "Log evidence above the weakest model, in nats. ",
      `The graph’s lead is ${number(evidence.difference)} nats. The answer does not rest on it.`));
}

// Columns at rounds 1, 2, 4, …, and now.
function trail(evidence) {
  const { rounds, strength, weights } = evidence, shown = kept(evidence);
  const steps = [...evidence.trail, { round: rounds, strength, ...weights }];
  if (steps.length > 1 && steps.at(-2).round === rounds) steps.pop();
  const width = 100 / steps.length;
  const picture = svg("svg", { class: "columns", viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" });
  steps.forEach((step, n) => {
    let top = 100;
    for (const { kind, k } of shown) {
      const height = 100 * step[kind];
      top -= height;
      picture.append(svg("rect", { class: `part part-${k}`, x: (n + 0.08) * width, y: top, width: 0.84 * width, height }));
    }
  });
  const rows = steps.map((step) => [whole(step.round), ...shown.map(({ kind }) => percent(step[kind])), number(step.strength)]);
  const heads = ["Round", ...shown.map(({ name }) => name), "Strength"];
  const entries = shown.map(({ name, kind, k }) => el("li", {}, block(k), `${name} `, el("b", {}, percent(weights[kind]))));
  const ends = ["round 1", "twice as many with each column", `now: ${whole(rounds)}`].map((text) => el("span", {}, text));
  return el("div", {}, el("h3", {}, "What decisions rely on"),
    el("ul", { class: "legend" }, ...entries), picture, el("div", { class: "ends soft", "aria-hidden": "true" }, ...ends),
    el("details", {}, el("summary", {}, "As a table"),
      scrolling("What decisions rely on, table", table("Weights of the models by round", heads, rows))));
}

function misled(users) {
  if (!users.length) return [];
  const links = users.map(({ user, gain, rounds }) =>
    el("li", {}, el("a", { href: userLink(user) }, user), ` ${fixed(gain, 1)} nats in ${plural(rounds, "round")}`));
  return [el("h3", {}, "Misled by their neighbours"), el("ul", { class: "names" }, ...links)];
}

export const userLink = (user) => `#user=${encodeURIComponent(user)}`;
