// Two policies side by side, and the experiment that compares them. Shown if there is a shadow.
import { get, send } from "./api.js";
import { plainBar } from "./charts.js";
import { el, find, fixed, moment, number, percent, plural, renew, say, scrolling, table, whole } from "./dom.js";

const VERDICTS = {
  better: ["The policy in force earns more", "helps"], worse: ["The policy in force earns less", "hurts"],
  undecided: ["No difference so far", ""], "too early": ["Too early to say", ""],
};
// What each button does, and what to ask before.
const ACTIONS = {
  promote: { label: "Promote the shadow", send: () => send("POST", "/v1/policy/promote", { policy: seen.shadow.shadow }),
    question: () => `Put ${seen.shadow.shadow} in force for everybody? ${seen.shadow.in_force} will follow as its shadow.` },
  rollback: { label: "Roll back", send: () => send("POST", "/v1/policy/rollback", { policy: seen.shadow.shadow }),
    question: () => `Go back to ${seen.shadow.shadow}${seen.experiment.running ? ", and end the experiment" : ""}?` },
  begin: { label: "Begin", send: () => send("POST", "/v1/experiment", wanted()),
    question: () => `Show the decisions of ${seen.shadow.shadow} to ${percent(wanted().share)} of the clusters of users?` },
  end: { label: "End the experiment", send: () => send("DELETE", "/v1/experiment"),
    question: () => `End it? Everybody gets ${seen.shadow.in_force}.` },
};
const breakable = (text) => text.replace(/([:,])/g, "$1\u200b"); // a policy with its settings is one long word
let seen = null, asked = null; // answers of the service; the action that waits for a yes

export async function refreshTrials(stats) {
  find("policies").hidden = find("experiment").hidden = !stats.shadow;
  if (!stats.shadow) return;
  const [shadow, experiment, policy] = await Promise.all(["shadow", "experiment", "policy"].map((name) => get(`/v1/${name}`)));
  seen = { shadow, experiment, policy };
  show();
}

function show() {
  const { shadow, experiment, policy } = seen, { running, last } = experiment;
  renew(find("policies-body"), sideBySide(shadow), agreement(shadow), running ? el("p", { class: "soft" }, "While the experiment runs, the shadow cannot be promoted: end it first.") : el("p"),
    buttons(running ? [] : ["promote"], shadow.can_roll_back ? ["rollback"] : []), history(policy.history));
  find("experiment-form").hidden = Boolean(running);
  const shown = running || last;
  renew(find("experiment-body"), ...(shown ? summary(shown, !running) : [el("p", {}, "None has run yet.")]));
  renew(find("experiment-actions"), buttons(running ? ["end"] : ["begin"], []));
}

function sideBySide(shadow) {
  const rows = [
    ["Policy", breakable(shadow.in_force), breakable(shadow.shadow)],
    ["Expects of its first arm", number(shadow.expected_shown), number(shadow.expected_shadow)],
  ];
  const made = table("The policy in force and its shadow", ["", "In force", "Shadow"], rows);
  made.classList.add("sides");
  return made;
}

function agreement({ agreement: share, compared, failed }) {
  if (share === null) return el("p", {}, "No decision has been compared yet.");
  const text = `Both put the same arm first in ${percent(share)} of ${plural(compared, "decision")}.`;
  const trouble = failed ? ` The shadow failed in ${whole(failed)}.` : "";
  return el("div", {}, plainBar(share, 1, 0), el("p", {}, text + trouble));
}

function history(entries) {
  const rows = [...entries].reverse().map((entry) =>
    [moment(entry.time), entry.what + (entry.reason ? ` (${entry.reason})` : ""), breakable(entry.in_force), breakable(entry.shadow ?? "–")]);
  return el("details", {}, el("summary", {}, "Changes of policy"),
    scrolling("Changes of policy, table", table("Changes of policy, the newest first", ["When", "What", "In force", "Shadow"], rows)));
}

function summary(experiment, isOver) {
  const { treatment, control, difference, guardrail, cut } = experiment;
  const [now, kind] = VERDICTS[experiment.verdict] || [experiment.verdict, ""];
  const words = isOver ? now.replace("The policy in force earns", "The treatment earned") : now; // it may be in force no more
  const rows = [
    ["Policy", breakable(treatment.policy), breakable(control.policy)],
    ["Users", whole(treatment.users), whole(control.users)],
    ["Clusters", ...[treatment, control].map((arm) => `${whole(arm.active_clusters)} of ${whole(arm.clusters)} seen`)],
    ["Decisions", whole(treatment.decisions), whole(control.decisions)],
    ["Reward a decision", number(treatment.mean), number(control.mean)],
  ];
  const made = table("Arms of the experiment", ["", isOver ? "Treatment" : "Treatment: in force", isOver ? "Control" : "Control: held out"], rows);
  made.classList.add("sides");
  const limit = guardrail === null ? "There is no guardrail."
    : `Guardrail: the control comes into force if the whole interval is below ${fixed(-guardrail)}. `
      + (experiment.is_breached ? "It is." : "It is not.");
  const ended = isOver ? el("p", {}, el("b", {}, `Ended${experiment.ended ? ` ${moment(experiment.ended)}` : ""}: ${experiment.reason}.`)) : null;
  const span = difference.low === null ? "" : ` (${number(difference.low)} to ${number(difference.high)})`;
  return [
    el("p", { class: "verdict", "data-verdict": kind }, words), ...(ended ? [ended] : []),
    el("p", {}, `Difference ${number(difference.estimate)}${span}. ${experiment.sentence}`), made,
    el("p", { class: "soft" }, `${limit} Begun ${moment(experiment.time)}; ${percent(cut)} of the weight of edges crosses between the arms, `
      + "and what is learned across them makes the difference look smaller."),
  ];
}

// Buttons for these actions; the one that was pressed asks for a yes first.
function buttons(...names) {
  const row = names.flat().flatMap((name) => asked !== name ? [button(name, ACTIONS[name].label, "plain")] : [
    el("p", { class: "ask" }, ACTIONS[name].question()), button(`yes-${name}`, "Yes", ""), button("no", "No", "plain")]);
  return el("div", { class: "actions" }, ...row);
}

const button = (action, text, kind) => el("button", { type: "button", class: kind, "data-action": action }, text);

function wanted() {
  const limit = find("guardrail").value.trim();
  return { share: Number(find("share").value) / 100, ...(limit === "" ? {} : { guardrail: Number(limit) }) };
}

async function press(event) {
  const action = event.target.closest?.("[data-action]")?.dataset.action;
  if (!action) return;
  if (action.startsWith("yes-")) {
    const host = event.currentTarget.querySelector("[role=status]");
    try {
      asked = null;
      await ACTIONS[action.slice(4)].send();
      say(host, "Done.");
    } catch (problem) {
      say(host, `Not done: ${problem.message}`);
    }
    await refreshTrials({ shadow: true }).catch(() => null);
  } else {
    asked = action === "no" || !ACTIONS[action] ? null : action;
    show();
    event.currentTarget.querySelector("[data-action^=yes-]")?.focus();
  }
}

for (const id of ["policies", "experiment"]) find(id).addEventListener("click", press);
find("experiment-form").addEventListener("submit", (event) => event.preventDefault());
