// Elements and texts, for all parts of the page. Data from the program is inserted as text
// (textContent), never as markup.

/** Creates an element with properties and children. Strings become text nodes. */
export function el(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "data") Object.assign(made.dataset, value);
    else if (key.startsWith("aria") || key === "role") {
      made.setAttribute(key.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`), value);
    } else made[key] = value;
  }
  made.append(...children.filter((each) => each !== null));
  return made;
}

const whole = new Intl.NumberFormat("en");
export const count = (n) => whole.format(Math.round(n));
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** Two significant digits, the precision of the server, without trailing zeros. */
const digits = (value) => (value >= 9.95 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, ""));
export function rate(value) {
  if (value >= 1e6) return `${digits(value / 1e6)} M`;
  if (value >= 1e4) return `${digits(value / 1e3)} k`;
  return value >= 99.5 ? count(value) : digits(value);
}
export function time(seconds) {
  if (seconds === 0) return "0";
  if (seconds < 9.995e-7) return `${digits(seconds * 1e9)} ns`;
  if (seconds < 9.995e-4) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${digits(seconds * 1e3)} ms`;
  return seconds < 60 ? `${digits(seconds)} s` : longTime(seconds);
}
export function longTime(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}
export const clock = (milliseconds) => new Date(milliseconds).toLocaleTimeString("en-GB");
export const fileName = (path) => path.slice(path.lastIndexOf("/") + 1);
export const readable = (code) => code.replaceAll("_", " ");

/** "just now", "12 s ago", "3 h 5 min ago". Both in milliseconds. */
export function ago(at, now) {
  const seconds = Math.max(0, (now - at) / 1000);
  return seconds < 1 ? "just now" : `${longTime(seconds)} ago`;
}
