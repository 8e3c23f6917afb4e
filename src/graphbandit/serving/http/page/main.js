// The page: polls the statistics every two seconds and shows them, or says why there are none.
import { get, poll, token } from "./api.js";
import { LineChart } from "./charts.js";
import { clock, duration, el, find, number, plural, renew, say, stopped, whole } from "./dom.js";
import { showEvidence, userLink } from "./evidence.js";
import { startExplorer } from "./explorer.js";
import { refreshTrials } from "./trials.js";

const EVERY = 2000, POINTS = 75; // milliseconds between requests, points of a curve
let newest = null, seen = 0, refused = false;

const charts = {
  reward: new LineChart(find("reward-chart"), {
    name: "Reward and regret-proxy", empty: "No reward has come yet.",
    lines: [{ key: "mean_reward", name: "mean reward" }, { key: "regret_proxy", name: "regret-proxy" }],
  }),
  load: new LineChart(find("load-chart"), {
    name: "Decisions a second", empty: "No decision has been made yet.",
    lines: [{ key: "rate", name: "decisions a second" }],
  }),
  latency: new LineChart(find("latency-chart"), {
    name: "Latency in milliseconds", empty: "Nothing has been measured yet.", log: true,
    lines: [{ key: "latency_p50_ms", name: "half within" }, { key: "latency_p99_ms", name: "99 % within" }],
  }),
};

const follow = startExplorer(lock);
const turn = poll(refresh, EVERY);

async function refresh() {
  const first = newest === null;
  try {
    newest = { ...newest, ...(await get(`/v1/stats?series=${range()}&points=${POINTS}`)) }; // the other series stays
  } catch (problem) {
    return trouble(problem);
  }
  seen = Date.now() / 1000;
  refused = false;
  show(newest);
  if (first) follow();
  await refreshTrials(newest).catch(() => null); // the next round tells what is wrong
  return true;
}

function show(stats) {
  find("lock").hidden = true;
  find("views").hidden = false;
  find("forget").hidden = !token.get();
  find("links").hidden = Boolean(token.get()); // a link cannot carry it
  state(stats.trouble ? "problem" : "live", stats.trouble ? "Store in trouble" : "Live");
  notice(stats.trouble && `The store cannot be used: ${stopped(stats.trouble)} Requests are answered with 503 until it can; `
    + "what was acknowledged is safe.");
  const { policy, users, edges, arms, events, uptime } = stats;
  say(find("about"), [policy, plural(users, "user"), plural(edges, "edge"), plural(arms, "arm")].join(" · "));
  const logged = [plural(stats.total_decisions, "decision"), plural(stats.total_rewards, "reward")].join(", ");
  say(find("sizes"), `${plural(events, "event")} in the log: ${logged}. Running for ${duration(uptime)}.`);
  tiles(stats);
  draw();
  showEvidence(find("evidence-body"), stats);
  if (stats.example) renew(find("example"), "For example ", el("a", { href: userLink(stats.example) }, stats.example), ".");
}

function tiles(stats) {
  const { p50, p99 } = stats.latency_ms;
  const shown = [
    ["Decisions a second", number(stats.decisions_per_second), "over ten seconds"],
    ["Mean reward", number(stats.mean_reward), "since the start"],
    ["Regret-proxy", number(stats.regret_proxy, 2), "mean since the start"],
    ["Latency", p99 === null ? "–" : `${number(p50, 2)} ms`, p99 === null ? "" : `99 % within ${number(p99, 2)} ms`],
    ["Decisions", whole(stats.decisions), "since the start"],
    ["Rewards", whole(stats.rewards), stats.duplicates ? `and ${whole(stats.duplicates)} repeated` : "since the start"],
  ];
  renew(find("tiles"), ...shown.map(([name, value, about]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "soft" }, about))));
}

function range() {
  return document.querySelector("input[name=range]:checked").value;
}

function draw() {
  const series = newest[range()];
  if (!series) return; // it has been requested
  const columns = { ...series, x: series.time, rate: series.decisions.map((count) => count / series.step) };
  for (const chart of Object.values(charts)) chart.update(columns);
}

// Show what is wrong; returns whether to go on polling.
function trouble(problem) {
  if (problem.status === 401) return lock(problem.secret);
  const since = newest ? ` What you see is from ${clock(seen, true)}.` : "";
  if (problem.status === 503) {
    state("waiting", newest ? "Interrupted" : "Starting");
    const patience = newest ? "This" : "The first start takes up to a minute; this";
    notice(`Not ready: ${stopped(problem.message)} ${patience} page goes on asking.${since}`);
  } else if (problem.status === 429) {
    state("waiting", "Waiting");
    notice(`The service is asked more often than it allows; this page goes on asking.${since}`);
  } else {
    state("problem", problem.status ? "Problem" : "No connection");
    const what = problem.status ? `Something is wrong: ${stopped(problem.message)}` : "The service cannot be reached;";
    notice(`${what} ${problem.status ? "This" : "this"} page goes on asking.${since}`);
  }
  return true;
}

// Ask for a token; `sent` is the token that was refused.
function lock(sent = null) {
  if (token.get() !== sent) return true; // another has been entered since
  if (!find("lock").hidden && sent === null && !refused) return false; // the form is shown already
  token.forget();
  newest = null;
  find("views").hidden = find("forget").hidden = find("links").hidden = true;
  find("lock").hidden = false;
  state("waiting", "Locked");
  notice(sent !== null || refused ? "The service does not know this token." : null);
  refused = false;
  find("token").focus();
  return false;
}

function state(kind, text) {
  find("status").dataset.state = kind;
  say(find("status"), text);
}

function notice(text) {
  find("notice").hidden = !text;
  say(find("notice"), text || "");
}

find("range").addEventListener("change", () => {
  draw();
  turn();
});
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = find("token").value.trim();
  find("token").value = "";
  if (/^[\x21-\x7e]+$/.test(text)) token.set(text);
  else refused = true; // no header can carry it
  turn();
});
find("forget").addEventListener("click", () => {
  token.forget();
  lock();
});
