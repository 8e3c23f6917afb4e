// Requests to the service. The token is kept in sessionStorage: in this tab, until it is closed.
const KEY = "graphbandit-token";
const PATIENCE = 15_000; // milliseconds for one response

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

// `status` is the HTTP status, or 0 without a response; `secret` is the token that was sent.
export class Problem extends Error {
  constructor(status, message, secret = null) {
    super(message);
    Object.assign(this, { status, secret });
  }
}

export const get = (path) => send("GET", path);

export async function send(method, path, content = null) {
  const secret = token.get();
  const headers = secret ? { authorization: `Bearer ${secret}` } : {};
  const sent = content === null ? {} : { body: JSON.stringify(content) };
  if (content !== null) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, ...sent, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  } catch {
    throw new Problem(0, "there was no answer.");
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok && body !== null) return body;
  const reasons = body?.detail?.map?.((entry) => entry.msg).join(" ");
  throw new Problem(answer.status, reasons || `the answer was ${answer.status}.`, secret);
}

// Call `update` every `every` milliseconds until it returns false. Pauses while the tab is hidden,
// and resumes at once when it is visible again.
export function poll(update, every) {
  let timer = 0, busy = false, again = false;
  async function turn() {
    clearTimeout(timer);
    again = busy;
    if (busy || document.hidden) return;
    busy = true;
    let more = true;
    try {
      more = await update();
    } finally {
      busy = false;
      if (again) turn();
      else if (more && !document.hidden) timer = setTimeout(turn, every);
    }
  }
  document.addEventListener("visibilitychange", turn);
  turn();
  return turn;
}
