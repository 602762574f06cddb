// The dashboard: requests the state once a second and shows it. Data from the program is inserted as
// text (textContent), never as markup.
import {Chart} from "/chart.js";

const $ = (id) => document.getElementById(id);
const historyMax = 300;  // seconds, as on the server
const eventsShown = 40;
const holdersShown = 5;
const waitersShown = 40;

/** Creates an element with properties and children. Strings become text nodes. */
function el(name, properties = {}, ...children) {
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

// Formatting.

const whole = new Intl.NumberFormat("en");
const count = (n) => whole.format(Math.round(n));
const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** Two significant digits, the precision of the server, without trailing zeros. */
const digits = (value) => (value >= 9.95 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, ""));
function rate(value) {
  if (value >= 1e6) return `${digits(value / 1e6)} M`;
  if (value >= 1e4) return `${digits(value / 1e3)} k`;
  return value >= 99.5 ? count(value) : digits(value);
}
function time(seconds) {
  if (seconds === 0) return "0";
  if (seconds < 9.995e-7) return `${digits(seconds * 1e9)} ns`;
  if (seconds < 9.995e-4) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${digits(seconds * 1e3)} ms`;
  return seconds < 60 ? `${digits(seconds)} s` : longTime(seconds);
}
function longTime(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}
const clock = (milliseconds) => new Date(milliseconds).toLocaleTimeString("en-GB");
const fileName = (path) => path.slice(path.lastIndexOf("/") + 1);
const readable = (code) => code.replaceAll("_", " ");

// Tokens.

const tokenKey = "cenote.token";
if (location.hash.startsWith("#token=")) {
  sessionStorage.setItem(tokenKey, decodeURIComponent(location.hash.slice("#token=".length)));
  history.replaceState(null, "", location.pathname);
}
// There is a read token and a control token. If only one was entered, it is tried for both.
const controlKey = "cenote.control_token";
const notForControl = new Set();  // tokens refused for control, which may still allow reading
const token = () => sessionStorage.getItem(tokenKey) ?? sessionStorage.getItem(controlKey);
function controlToken() {
  const stored = sessionStorage.getItem(controlKey) ?? sessionStorage.getItem(tokenKey);
  return notForControl.has(stored) ? null : stored;
}
function forgetTokens() {
  sessionStorage.removeItem(tokenKey);
  sessionStorage.removeItem(controlKey);
  notForControl.clear();
}

function send(path, options = {}, by = token()) {
  const headers = {...options.headers};
  if (by) headers.Authorization = `Bearer ${by}`;
  return fetch(path, {...options, headers, cache: "no-store", signal: AbortSignal.timeout(5000)});
}

/** Returns true if the command has finished, false if it is still running. */
async function sendCommand(body) {
  const by = controlToken();
  const response = await send("/control", {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify(body),
  }, by);
  if (response.ok) return response.status !== 202;
  const {error} = await response.json().catch(() => ({error: response.statusText}));
  if (response.status === 401) {
    notForControl.add(by);
    sessionStorage.removeItem(controlKey);
    showTokenButton();
  }
  throw new Error(response.status === 401 ? "the token was refused" : error);
}

// Dialogs.

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
}

const readTokenReason = "This dashboard requires a token.";
let declined = false;  // do not open the dialog again
let requestedKey = tokenKey;
function requestToken(reason, key) {
  if ($("token-dialog").open) return;
  requestedKey = key;
  $("token-why").textContent = reason;
  $("token-input").value = "";
  $("token-dialog").showModal();
}
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const entered = $("token-input").value.trim();
  sessionStorage.setItem(requestedKey, entered);
  notForControl.delete(entered);
  $("token-dialog").close();
  declined = false;
  showTokenButton();
  poll.now();
});
$("token-dialog").addEventListener("close", () => {
  if (requestedKey === tokenKey && !token()) declined = true;
});

let controllable = false;
let locked = false;
function showTokenButton() {
  $("token").hidden = !controllable && !token() && !locked;
  $("token").textContent = controlToken() ? "Forget token" : locked ? "Enter token" : "Unlock control";
  for (const card of cards.values()) card.showControl();
}
$("token").addEventListener("click", () => {
  if (controlToken()) {
    forgetTokens();
    declined = true;
    showTokenButton();
  } else if (locked) {
    requestToken(readTokenReason, tokenKey);
  } else {
    requestToken("The control token allows you to pause, resize and retire pools.", controlKey);
  }
});

function confirmed(title, text, action) {
  $("confirm-title").textContent = title;
  $("confirm-text").textContent = text;
  $("confirm-yes").textContent = action;
  const dialog = $("confirm-dialog");
  return new Promise((resolve) => {
    let accepted = false;
    $("confirm-yes").onclick = () => {
      accepted = true;
      dialog.close();
    };
    dialog.onclose = () => resolve(accepted);
    dialog.showModal();
  });
}

// Theme.

const themes = ["system", "light", "dark"];
function showTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").textContent = `Theme: ${theme}`;
}
const themeKey = "cenote.theme";
showTheme(localStorage.getItem(themeKey) ?? "system");
$("theme").addEventListener("click", () => {
  const now = localStorage.getItem(themeKey) ?? "system";
  const next = themes[(themes.indexOf(now) + 1) % themes.length];
  localStorage.setItem(themeKey, next);
  showTheme(next);
});

// One pool.

const slotStates = [
  {letter: "L", name: "leased"},
  {letter: "i", name: "idle"},
  {letter: "o", name: "opening"},
  {letter: "p", name: "probing"},
  {letter: "r", name: "resetting"},
  {letter: "c", name: "closing"},
  {letter: ".", name: "vacant"},
];
const slotName = Object.fromEntries(slotStates.map((each) => [each.letter, each.name]));

/** The problems of a pool, worst first: [{level, badge, text}]. */
function problemsOf(pool, recent) {
  const s = pool.stats;
  const found = [];
  const suspects = pool.leases.filter((each) => each.suspect);
  if (s.breaker === "inactive") {
    found.push({level: "bad", badge: "breaker open", text: "the breaker is open: every acquire is refused"});
  }
  if (s.breaker === "recovering") {
    found.push({level: "notable", badge: "recovering", text: "the breaker allows a few acquires"});
  }
  if (suspects.length > 0) {
    const first = suspects[0];
    found.push({
      level: "bad", badge: plural(suspects.length, "leak suspect"),
      text: `${plural(suspects.length, "lease is", "leases are")} held for too long, the oldest from ` +
        `${fileName(first.file)}:${first.line}`,
    });
  }
  if (s.state === "paused") {
    found.push({
      level: "notable", badge: "paused",
      text: `paused: no lease is granted${s.waiting > 0 ? `, ${plural(s.waiting, "caller waits", "callers wait")}` : ""}`,
    });
  }
  if (s.state === "closed") found.push({level: "notable", badge: "closed", text: "closed"});
  if (recent.openFailed > 0) {
    found.push({level: "bad", badge: "opens fail", text: `${plural(recent.openFailed, "open")} failed in the last 10 s`});
  }
  if (recent.refused > 0 && s.breaker === "active") {
    found.push({
      level: "bad", badge: "refusing",
      text: `${plural(recent.refused, "acquire was", "acquires were")} refused in the last 10 s`,
    });
  }
  if (recent.crowded && s.state === "lending" && s.breaker === "active") {
    found.push({level: "notable", badge: "crowded", text: "callers wait most of the time"});
  }
  return found;
}

function summaryOf(s) {
  const parts = [`${count(s.leased)} of ${count(s.max)} leased`];
  if (s.idle > 0) parts.push(`${count(s.idle)} idle`);
  if (s.opening > 0) parts.push(`${count(s.opening)} opening`);
  parts.push(s.waiting > 0 ? `${count(s.waiting)} waiting` : "none waiting");
  return parts.join(" · ");
}

class Card {
  constructor(name, of) {
    this.name = name;
    this.of = of;
    this.past = {last: 0, columns: {}};
    this.counts = [];  // [{at, openFailed, refused}] of the last ten seconds
    const id = `pool-${(Card.made += 1)}`;
    this.id = id;
    this.badge = el("span", {className: "badge"});
    this.sentence = el("p", {className: "sentence"});
    this.slots = el("ul", {className: "slots", ariaLabel: "Slots"});
    this.legend = el("ul", {className: "legend", ariaLabel: "Slots by state"});
    this.line = el("div", {className: "line"});
    this.charts = [
      new Chart("Acquires per second", [
        {name: "granted", className: "one", key: "granted"},
        {name: "refused", className: "bad", key: "refused", hideZero: true}], rate),
      new Chart("Wait", [
        {name: "p50", className: "one", key: "wait_p50"},
        {name: "p99", className: "two", key: "wait_p99"}], time),
      new Chart("Hold", [
        {name: "p50", className: "one", key: "hold_p50"},
        {name: "p99", className: "two", key: "hold_p99"}], time),
    ];
    this.holders = el("tbody");
    this.holdersNote = el("p", {className: "fine"});
    this.facts = el("dl", {className: "facts", ariaLabel: "Since the start"});
    this.refusals = el("ul", {className: "refusals"});
    this.control = this.makeControl(id);
    this.root = el("section", {className: "card pool", data: {pool: name}, ariaLabelledby: id},
      el("div", {className: "card-head"}, el("h2", {id, textContent: name}), this.badge),
      this.sentence,
      this.slots, this.legend,
      this.line,
      el("div", {className: "charts"}, ...this.charts.map((each) => each.root)),
      el("div", {className: "halves"},
        el("div", {},
          el("h3", {textContent: "Leases"}),
          el("table", {className: "holders"},
            el("thead", {}, el("tr", {},
              el("th", {scope: "col", textContent: "Call site"}),
              el("th", {scope: "col", textContent: "Task"}),
              el("th", {scope: "col", className: "number", textContent: "Held"}))),
            this.holders),
          this.holdersNote),
        el("div", {}, el("h3", {textContent: "Refusals"}), this.refusals)),
      this.facts,
      this.control);
  }

  /** Failed opens and refusals of the last ten seconds, and whether callers wait often. */
  recent(s) {
    const now = performance.now();
    const refused = Object.entries(s.refused)
      .filter(([reason]) => reason !== "canceled" && reason !== "closed")
      .reduce((sum, [, n]) => sum + n, 0);
    this.counts.push({at: now, openFailed: s.open_failed, refused});
    while (this.counts.length > 2 && this.counts[0].at < now - 10000) this.counts.shift();
    const then = this.counts[0];
    // Different thresholds for on and off, so that the state does not flicker.
    const waited = (this.past.columns.waiting ?? []).slice(-10).filter((n) => n > 0).length;
    this.crowded = waited >= (this.crowded ? 2 : 6);
    return {
      crowded: this.crowded,
      openFailed: Math.max(0, s.open_failed - then.openFailed),
      refused: Math.max(0, refused - then.refused),
    };
  }

  remember(history) {
    const {first, ...columns} = history;
    const length = columns.granted.length;
    const skip = Math.min(length, Math.max(0, this.past.last + 1 - first));
    for (const [key, values] of Object.entries(columns)) {
      this.past.columns[key] = [...(this.past.columns[key] ?? []), ...values.slice(skip)].slice(-historyMax);
    }
    if (length > 0) this.past.last = Math.max(this.past.last, first + length - 1);
  }

  update(pool) {
    const s = pool.stats;
    this.remember(pool.history);
    const problems = problemsOf(pool, this.recent(s));
    const worst = problems[0] ?? {level: "good", badge: "healthy"};
    this.badge.textContent = worst.badge;
    this.badge.dataset.level = worst.level;
    this.root.dataset.level = worst.level;
    this.root.dataset.state = s.state;
    this.root.dataset.breaker = s.breaker;
    this.root.dataset.granted = s.granted;
    this.root.dataset.leased = s.leased;
    this.sentence.textContent = summaryOf(s);
    this.showSlots(pool);
    this.showLine(s);
    for (const chart of this.charts) chart.update(this.past.columns);
    this.showHolders(pool);
    this.showCounts(s);
    this.stats = s;
    this.showControl();
    return problems;
  }

  showSlots(pool) {
    const holder = new Map(pool.leases.map((each) => [each.resource, each]));
    while (this.slots.children.length > pool.slots.length) this.slots.lastChild.remove();
    while (this.slots.children.length < pool.slots.length) {
      this.slots.append(el("li", {className: "slot"}));
    }
    this.slots.classList.toggle("many", pool.slots.length > 120);
    [...pool.slots].forEach((letter, i) => {
      const cell = this.slots.children[i];
      const lease = letter === "L" ? holder.get(pool.resources[i]) : undefined;
      const state = slotName[letter] ?? "unknown";
      const suspect = lease?.suspect ?? false;
      let text = `slot ${i + 1}: ${state}`;
      if (pool.resources[i] !== 0) text += `, resource ${pool.resources[i]}`;
      if (lease) text += `, ${fileName(lease.file)}:${lease.line}${lease.task ? ` (${lease.task})` : ""}`;
      if (suspect) text += ", held for too long";
      if (cell.title === text) return;
      cell.title = text;
      cell.setAttribute("aria-label", text);
      cell.dataset.state = state;
      cell.dataset.suspect = suspect;
      cell.textContent = suspect ? "!" : letter === "." ? "" : letter.toUpperCase();
    });
    const s = pool.stats;
    const vacant = Math.max(0, s.max - s.total);
    this.legend.replaceChildren(...slotStates
      .map(({letter, name}) => ({letter, name, n: name === "vacant" ? vacant : s[name]}))
      .filter(({name, n}) => n > 0 || name === "leased" || name === "idle")
      .map(({letter, name, n}) => el("li", {},
        el("span", {className: "slot key", data: {state: name}, ariaHidden: "true",
                    textContent: letter === "." ? "" : letter.toUpperCase()}),
        `${name} `, el("b", {textContent: count(n)}))));
  }

  showLine(s) {
    const shown = Math.min(s.waiting, waitersShown);
    this.line.dataset.waiting = s.waiting;
    this.line.replaceChildren(
      el("span", {className: "line-title", textContent: "The line"}),
      el("span", {className: "waiters", ariaHidden: "true"},
        ...Array.from({length: shown}, () => el("i", {className: "waiter"}))),
      el("span", {className: "line-count", textContent: s.waiting === 0 ? "none waiting"
        : `${s.waiting > shown ? `+${count(s.waiting - shown)} · ` : ""}${count(s.waiting)} waiting`}));
  }

  showHolders(pool) {
    const rank = (each) => (each.suspect ? 0 : 1);
    const sorted = [...pool.leases].sort((a, b) => rank(a) - rank(b) || (b.held ?? 0) - (a.held ?? 0));
    this.holders.replaceChildren(...sorted.slice(0, holdersShown).map((each) => {
      const site = `${fileName(each.file)}:${each.line}`;
      return el("tr", {className: each.suspect ? "suspect" : ""},
        el("td", {}, el("span", {className: "site", title: `${each.file}:${each.line} ${each.function}`,
                                 textContent: site}),
          each.suspect ? el("span", {className: "mark", textContent: "held for too long"}) : null),
        el("td", {textContent: each.task ?? "–"}),
        el("td", {className: "number", textContent: each.held === null ? "just now" : time(each.held)}));
    }));
    const more = pool.stats.leased - Math.min(sorted.length, holdersShown);
    this.holdersNote.textContent = pool.stats.leased === 0 && sorted.length === 0 ? "No leases."
      : more > 0 ? `and ${plural(more, "other")}` : "";
    this.holders.parentElement.hidden = sorted.length === 0;
    // The table never shrinks, so that the content below does not move.
    this.rows = Math.max(this.rows ?? 0, Math.min(sorted.length, holdersShown));
    this.holders.parentElement.parentElement.style.minHeight = `${4.2 + this.rows * 2}rem`;
  }

  showCounts(s) {
    const refused = Object.entries(s.refused).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
    const most = Math.max(1, ...refused.map(([, n]) => n));
    this.refusals.replaceChildren(...(refused.length === 0
      ? [el("li", {className: "fine", textContent: "None so far."})]
      : refused.map(([reason, n]) => {
        const bar = el("span", {className: "bar-fill"});
        bar.style.width = `${Math.max(2, (n / most) * 100)}%`;
        return el("li", {data: {reason}}, el("span", {textContent: readable(reason)}),
          el("b", {textContent: count(n)}), el("span", {className: "bar-track", ariaHidden: "true"}, bar));
      })));
    const facts = [
      ["granted", count(s.granted)], ["opened", count(s.opened)], ["closed", count(s.closed)],
      ["open failed", count(s.open_failed)], ["discarded", count(s.discarded)],
      ["leaks", count(s.leaks)], ["breaker", s.breaker],
    ];
    this.facts.replaceChildren(...facts.flatMap(([name, value]) =>
      [el("div", {}, el("dt", {textContent: name}), el("dd", {textContent: value, data: {fact: name}}))]));
  }

  // Control.

  makeControl(id) {
    const button = (action, label, className = "") => el("button", {
      type: "button", className, textContent: label, data: {action}, onclick: () => this.act(action)});
    this.size = el("input", {type: "number", min: "1", max: "100000", id: `${id}-max`, inputMode: "numeric"});
    this.result = el("p", {className: "result", role: "status"});
    this.locked = el("p", {className: "fine"});
    this.buttons = el("div", {className: "control-buttons"},
      el("div", {className: "group", role: "group", ariaLabel: "Lending"},
        button("pause", "Pause"), button("resume", "Resume")),
      el("div", {className: "group", role: "group", ariaLabel: "Resources"},
        button("retire_all", "Retire all", "danger"), button("suspect_all", "Probe all")),
      el("div", {className: "group", role: "group", ariaLabel: "Breaker"},
        el("span", {className: "group-title", textContent: "Breaker"}),
        button("activate", "Activate"), button("recover", "Recover"),
        button("deactivate", "Deactivate", "danger")),
      el("div", {className: "group"},
        el("label", {htmlFor: this.size.id, textContent: "max"}), this.size, button("resize", "Resize")));
    return el("details", {className: "control"},
      el("summary", {textContent: "Control"}), this.locked, this.buttons, this.result);
  }

  showControl() {
    const may = controllable && controlToken() !== null;
    this.buttons.hidden = !may;
    this.locked.hidden = may;
    this.locked.textContent = controllable
      ? "Locked. Enter the control token to unlock."
      : "Read-only: the program has set no control token.";
    if (!this.stats) return;
    const state = this.stats.state;
    const off = {
      pause: state !== "lending", resume: state !== "paused",
      activate: this.stats.breaker === "active", deactivate: this.stats.breaker === "inactive",
    };
    for (const each of this.buttons.querySelectorAll("button")) {
      each.disabled = state === "closed" || (off[each.dataset.action] ?? false);
    }
    if (document.activeElement !== this.size && !this.size.dataset.touched) this.size.value = this.stats.max;
    this.size.oninput = () => { this.size.dataset.touched = "yes"; };
  }

  async act(action) {
    const name = this.name;
    const max = Number.parseInt(this.size.value, 10);
    const questions = {
      pause: ["No lease is granted until the pool is resumed. Callers wait.", "Pause"],
      retire_all: ["All open resources are closed: idle ones now, leased ones when they are released.", "Retire all"],
      deactivate: ["Every acquire is refused at once, including those in line.", "Deactivate"],
      resize: [`Changes the maximum from ${this.stats.max} to ${max}. Current leases continue.`, "Resize"],
    };
    const question = questions[action];
    if (question && !(await confirmed(`${question[1]} – ${name}?`, question[0], question[1]))) return;
    try {
      const done = await sendCommand(action === "resize" ? {pool: name, action, max} : {pool: name, action});
      this.result.textContent = `${done ? "Done" : "Still running"}: ${readable(action)}${action === "resize" ? ` to ${max}` : ""}.`;
      this.result.dataset.level = "good";
      delete this.size.dataset.touched;
      poll.now();
    } catch (error) {
      this.result.textContent = `Not done: ${error.message}.`;
      this.result.dataset.level = "bad";
    }
  }
}
Card.made = 0;

const cards = new Map();

// The whole page.

function showPools(state) {
  const names = new Set(state.pools.map((each) => each.name));
  for (const [name, card] of cards) {
    if (names.has(name)) continue;
    card.root.remove();
    cards.delete(name);
  }
  const problems = [];
  for (const pool of state.pools) {
    let card = cards.get(pool.name);
    if (card?.of !== pool.id) {  // a new pool, or another pool of the same name
      const old = card;
      card = new Card(pool.name, pool.id);
      cards.set(pool.name, card);
      if (old) old.root.replaceWith(card.root);
      else $("pools").append(card.root);
    }
    for (const each of card.update(pool)) problems.push({pool: pool.name, ...each});
  }
  $("pools").classList.toggle("single", state.pools.length === 1);
  showAttention(state, problems);
}

/** The list item of a problem. Reused while the problem lasts, so that its link keeps the focus. */
const problemItems = new Map();
function problemItem(each) {
  const key = JSON.stringify([each.pool, each.badge]);
  const item = problemItems.get(key) ?? el("li", {},
    el("a", {textContent: each.pool}), " ", el("span", {className: "problem-text"}));
  problemItems.set(key, item);
  item.dataset.level = each.level;
  item.dataset.pool = each.pool;
  item.querySelector("a").href = `#${cards.get(each.pool).id}`;
  item.querySelector(".problem-text").textContent = each.text;
  return item;
}

/** Changes only when the problems do: screen readers announce every change. */
let attention = null;
function showAttention(state, problems) {
  const rank = (each) => (each.level === "bad" ? 0 : 1);
  const sorted = [...problems].sort((a, b) => rank(a) - rank(b));
  const key = JSON.stringify(sorted.map(({pool, badge, level}) => [pool, badge, level])) + state.pools.length;
  document.title = sorted.length > 0 ? `(${sorted.length}) cenote` : "cenote";
  if (key === attention) {
    sorted.forEach((each, i) => {
      const text = $("attention").querySelectorAll(".problem-text")[i];
      if (text && text.textContent !== each.text) text.textContent = each.text;
    });
    return;
  }
  attention = key;
  const focused = $("attention").contains(document.activeElement) ? document.activeElement : null;
  const items = sorted.map(problemItem);
  for (const [name, item] of problemItems) if (!items.includes(item)) problemItems.delete(name);
  if (sorted.length === 0) {
    $("attention").replaceChildren(el("p", {className: "all-healthy", textContent:
      state.pools.length === 0 ? "No pool is watched yet."
        : state.pools.length === 1 ? "The pool is healthy." : `All ${state.pools.length} pools are healthy.`}));
  } else {
    $("attention").replaceChildren(el("ul", {className: "problems"}, ...items));
  }
  // Replacing the list drops the focus. If the focused problem is gone, focus the pools.
  if (focused) (focused.isConnected ? focused : $("pools")).focus({preventScroll: true});
}

let problemsOnly = false;
$("problems-only").addEventListener("click", () => {
  problemsOnly = !problemsOnly;
  $("problems-only").setAttribute("aria-pressed", problemsOnly);
  showEvents();
});
let events = [];
let eventsKey = "";
const marks = {bad: "!", notable: "•", good: "✓", plain: ""};
function showEvents() {
  const shown = events.filter((each) => !problemsOnly || each.level === "bad").slice(0, eventsShown);
  const key = JSON.stringify(shown);
  if (key === eventsKey) return;
  eventsKey = key;
  $("events").replaceChildren(...(shown.length === 0
    ? [el("li", {className: "fine", textContent: "No events yet."})]
    : shown.map((each) => el("li", {className: "event", data: {level: each.level, kind: each.kind}},
      el("time", {textContent: clock(each.at)}),
      el("span", {className: "event-mark", ariaHidden: "true", textContent: marks[each.level] ?? ""}),
      el("span", {className: "event-pool", textContent: each.pool}),
      el("span", {className: "event-text", textContent: each.text}),
      each.times > 1 ? el("span", {className: "event-times", textContent: `×${count(each.times)}`}) : null))));
}

function showLink(level, text) {
  const link = $("link");
  if (link.textContent !== text) link.textContent = text;
  link.dataset.level = level;
  document.body.classList.toggle("lost", level === "bad");
}

let run = null;
let sample = 0;
let lastUpdate = null;

async function update() {
  const by = token();
  const response = await send(`/state?since=${sample}`, {}, by);
  if (response.status === 401) {
    if (by !== token()) return;  // another token was entered and is tried next
    if (by) sessionStorage.removeItem(sessionStorage.getItem(tokenKey) ? tokenKey : controlKey);
    locked = true;
    showTokenButton();
    showLink("notable", "locked");
    if (!token() && !declined) requestToken(readTokenReason, tokenKey);
    return;
  }
  if (!response.ok) throw new Error(`${response.status}`);
  const state = await response.json();
  if (state.run !== run && run !== null) {  // the program was restarted
    run = state.run;
    sample = 0;
    cards.clear();
    $("pools").replaceChildren();
    await update();
    return;
  }
  run = state.run;
  locked = false;
  controllable = state.controllable;
  showPools(state);
  events = state.events;
  showEvents();
  sample = state.sample;
  lastUpdate = Date.now();
  showTokenButton();
  showLink("good", "live");
  document.documentElement.dataset.sample = sample;
}

const poll = {
  timer: null,
  busy: false,
  again: false,
  async now() {
    if (this.busy) {
      this.again = true;
      return;
    }
    clearTimeout(this.timer);
    this.busy = true;
    try {
      await update();
    } catch (error) {
      showLink("bad", lastUpdate === null ? "no connection" : `connection lost, last update ${clock(lastUpdate)}`);
    }
    this.busy = false;
    const soon = this.again;
    this.again = false;
    // Stops while the page is hidden; visibilitychange starts it again.
    if (!document.hidden) this.timer = setTimeout(() => this.now(), soon ? 0 : 1000);
  },
};
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(poll.timer);
  else poll.now();
});
poll.now();
