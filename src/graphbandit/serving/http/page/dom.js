// Makes elements, and formats numbers as text. No script of the page turns text into markup.
const SVG = "http://www.w3.org/2000/svg";

export const find = (id) => document.getElementById(id);

export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Set a text only if it changed: screen readers would read it aloud again.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Update the children of `host` to those given, in place: focus, selection and reading position stay
// as they are, and a table that was opened stays open.
export function renew(host, ...children) {
  const before = [...host.childNodes];
  children.forEach((child, k) => {
    const now = before[k];
    if (!now) host.append(child);
    else if (now.nodeName !== child.nodeName) now.replaceWith(child);
    else if (child.nodeType === Node.TEXT_NODE) {
      if (now.data !== child.data) now.data = child.data;
    } else {
      for (const { name } of [...now.attributes]) if (name !== "open" && !child.hasAttribute(name)) now.removeAttribute(name);
      for (const { name, value } of child.attributes) if (now.getAttribute(name) !== value) now.setAttribute(name, value);
      renew(now, ...child.childNodes);
    }
  });
  before.slice(children.length).forEach((extra) => extra.remove());
}

// A message from the service as a sentence, to be followed by more text.
export const stopped = (text) => text.replace(/[.\s]*$/, ".");

export function table(caption, heads, rows) {
  return el("table", {},
    el("caption", { class: "unseen" }, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.map(([first, ...rest]) =>
      el("tr", {}, el("th", { scope: "row" }, first), ...rest.map((cell) => el("td", {}, cell))))));
}

// A region that scrolls if its content is too large, by keyboard too.
export function scrolling(name, content, more = "") {
  return el("div", { class: `scroll ${more}`, tabindex: "0", role: "region", "aria-label": name }, content);
}

const minus = (text) => text.replaceAll("-", "−");

export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size && (size < 1e-4 || size >= 1e9)) return minus(value.toExponential(digits - 1));
  return minus((value + 0).toLocaleString("en", { maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(size + 1))) }));
}

// A number with fixed decimals, for columns of values.
export function fixed(value, decimals = 2) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e6) return number(value);
  return minus(value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
}

export const whole = (value) => Math.round(value).toLocaleString("en");
export const percent = (value) => `${(100 * value).toFixed(value > 0 && value < 0.01 ? 1 : 0)} %`;
export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

export function clock(seconds, precise = false) {
  const style = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return new Date(1000 * seconds).toLocaleTimeString([], precise ? { ...style, second: "2-digit" } : style);
}

export function moment(seconds) {
  const date = new Date(1000 * seconds), today = new Date().toDateString() === date.toDateString();
  return today ? clock(seconds, true) : `${date.toLocaleDateString([], { day: "numeric", month: "short" })} ${clock(seconds)}`;
}

export function duration(seconds) {
  const steps = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  const [size, name] = steps.find(([length]) => seconds >= length) || steps[3];
  return plural(Math.floor(seconds / size), name);
}
