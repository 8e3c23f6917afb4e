// One user: what it would be shown now, its neighbours, and its history.
import { Problem, get } from "./api.js";
import { LineChart, block, scoreBar, shareBar } from "./charts.js";
import { el, find, fixed, moment, number, plural, say, scrolling, stopped, table } from "./dom.js";
import { userLink } from "./evidence.js";
import { neighbourhood } from "./neighbourhood.js";

const EVENTS = 100, MOST_SHOWN = 5;
let asked = 0; // number of the newest request; responses to earlier ones are not shown

export function startExplorer(onLocked) {
  const form = find("user-form"), field = find("user");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const link = wellFormed(field.value) ? userLink(field.value) : "";
    if (link && link !== location.hash) location.hash = link; // continues in hashchange
    else show(field.value, false);
  });
  const follow = (focus) => {
    const user = named(location.hash);
    if (user === null) return;
    const typed = document.activeElement === field;
    field.value = user;
    show(user, focus && !typed);
  };
  async function show(user, focus) {
    const question = ++asked;
    say(find("user-status"), "Looking …");
    find("user-status").dataset.state = "waiting";
    try {
      const found = await ask(user);
      if (question === asked) draw(user, found, focus);
    } catch (problem) {
      if (question !== asked) return;
      find("user-view").replaceChildren();
      find("user-status").dataset.state = "problem";
      say(find("user-status"), reason(user, problem));
      if (problem.status === 401) onLocked(problem.secret);
    }
  }
  addEventListener("hashchange", () => follow(true));
  return () => follow(false);
}

const wellFormed = (text) => text.isWellFormed?.() ?? true;

function named(hash) {
  try {
    return hash.startsWith("#user=") ? decodeURIComponent(hash.slice(6)) : null;
  } catch {
    return null;
  }
}

async function ask(user) {
  if (!wellFormed(user)) throw new Problem(422, "this is not text that an id can hold.");
  if (user === "." || user === "..") throw new Problem(422, "a browser cannot ask for this id; another client can.");
  const path = `/v1/users/${encodeURIComponent(user)}`;
  const [near, why, past] = await Promise.all([get(path), get(`${path}/explanation`), get(`${path}/history?limit=${EVENTS}`)]);
  return { near, why, past };
}

function reason(user, problem) {
  if (problem.status === 404) {
    const spaces = user !== user.trim() ? " The id begins or ends with a space; is that meant?" : "";
    return `There is no user “${user}”. Ids are taken letter by letter, capitals too.${spaces}`;
  }
  if (problem.status === 401) return "The service asks for a token first.";
  if (problem.status === 503 || problem.status === 0) {
    return `The service cannot answer now: ${stopped(problem.message)} Try again in a moment.`;
  }
  return `That did not work: ${problem.message}`;
}

function draw(user, { near, why, past }, focus) {
  const events = visits(past.events);
  const title = el("h3", { class: "who", tabindex: "-1" }, user);
  find("user-view").replaceChildren(title, account(why),
    el("div", { class: "pair" }, armsView(why), neighbourhood(near, why, Math.min(500, find("user-form").clientWidth))), historyView(events));
  find("user-status").dataset.state = "done";
  const counts = [plural(why.arms.length, "arm"), plural(near.nodes.length - 1, "neighbour"), plural(events.length, "visit")];
  say(find("user-status"), `${user}: ${counts.join(", ")}.`);
  if (events.length > 1) drawVisits(events);
  if (focus) title.focus();
}

function account(why) {
  const { shares, own, uncertain } = why;
  const text = [];
  if (own.rewards) text.push(`${plural(own.rewards, "reward")} of its own ${own.rewards === 1 ? "has" : "have"} been learned.`);
  else if (own.rewards === 0) text.push("No reward of its own has been learned yet.");
  const least = uncertain.arms.slice(0, 3).map(({ arm, bonus }) => `${arm} (±${number(bonus, 2)})`);
  if (least.length) text.push(`Least is known about ${least.join(", ")}.`);
  return el("div", { class: "account" }, el("p", {}, text.join(" ")), ...sources(shares));
}

function sources(shares) {
  if (!shares || shares.own + shares.neighbours + shares.everyone === 0) return []; // nothing is known yet
  const title = "Where the estimate comes from";
  const parts = [{ name: "own rewards", value: shares.own }, { name: "neighbours", value: shares.neighbours }];
  if (shares.everyone) parts.push({ name: "everyone", value: shares.everyone });
  return [el("h4", {}, title), shareBar(title, parts)];
}

function armsView({ arms }) {
  const title = el("h4", {}, "Recommended now");
  if (!arms.length) return el("div", {}, title, el("p", {}, "There is nothing to recommend: no arm is offered."));
  const ends = arms.flatMap(({ mean, bonus }) => [mean, mean + bonus]);
  const low = Math.min(0, ...ends), high = Math.max(0, ...ends);
  const rows = arms.map(({ arm, mean, bonus }) => [arm, scoreBar(mean, bonus, low, high), fixed(mean), fixed(bonus)]);
  const made = table("Recommended arms, the best first", ["Arm", "Score", "Mean", "Bonus"], rows);
  made.classList.add("bars");
  const legend = ["mean: the expected reward", "bonus: what not knowing adds"].map((text, k) => el("li", {}, block(k), text));
  return el("div", {}, title, el("ul", { class: "legend" }, ...legend), made);
}

// Decisions with what they earned, newest first. A reward may be listed without its decision, if that
// is older than the events listed.
export function visits(events) {
  const found = new Map();
  for (const event of events) {
    if (!found.has(event.decision)) found.set(event.decision, { time: event.time, arms: [] });
    const visit = found.get(event.decision);
    visit.time = Math.min(visit.time, event.time);
    const entry = (arm) => visit.arms.find((known) => known.arm === arm) || visit.arms[visit.arms.push({ arm }) - 1];
    if (event.kind === "reward") entry(event.arm).value = event.value;
    else event.arms.forEach((arm, k) => Object.assign(entry(arm), { place: k, mean: event.mean[k], bonus: event.bonus[k] }));
  }
  for (const visit of found.values()) visit.arms.sort((a, b) => (a.place ?? 0) - (b.place ?? 0));
  return [...found.values()];
}

function historyView(events) {
  const title = el("h4", {}, "History");
  if (!events.length) return el("div", {}, title, el("p", {}, "Nothing has been recommended to this user yet."));
  const body = el("tbody");
  for (const { time, arms } of events) {
    const shown = arms.filter((entry, k) => k < MOST_SHOWN || entry.value !== undefined);
    shown.forEach(({ arm, mean, bonus, value }, k) => {
      const when = k ? null : el("th", { scope: "row", rowspan: shown.length }, moment(time));
      const expected = mean === undefined ? "–" : `${fixed(mean)} + ${fixed(bonus)}`;
      const cells = [arm, expected, value === undefined ? "nothing yet" : fixed(value)];
      body.append(el("tr", {}, when, ...cells.map((cell) => el("td", {}, cell))));
    });
  }
  const heads = ["When", "Shown", "Mean + bonus", "Earned"].map((head) => el("th", { scope: "col" }, head));
  const caption = el("caption", { class: "unseen" }, "Decisions and rewards, the newest first");
  const made = el("table", { class: "history" }, caption, el("thead", {}, el("tr", {}, ...heads)), body);
  return el("div", {}, title, el("div", { class: "pair" }, events.length > 1 ? el("figure", { id: "visits" }) : null,
    scrolling("History, table", made, "tall")));
}

// Expected and actual reward of the first arm of each visit, oldest on the left.
function drawVisits(events) {
  const first = events.map(({ arms }) => arms.find(({ place }) => place === 0) || arms[0]).reverse();
  const chart = new LineChart(find("visits"), {
    name: "Expected and earned, visit by visit", empty: "No visits yet.",
    xName: "visits", xText: (x) => (x ? `${-x} ago` : "last"), overTime: false,
    lines: [{ key: "value", name: "earned" }, { key: "mean", name: "expected" }],
  });
  chart.details.remove(); // the table of the history is below it
  const column = (key) => first.map((entry) => entry[key] ?? null);
  chart.update({ x: first.map((_, k) => k + 1 - first.length), value: column("value"), mean: column("mean") });
}
