// The dashboard: requests the state once a second and shows it. Data from the program is inserted as
// text (textContent), never as markup.
import {Card} from "/card.js";
import {Overview} from "/overview.js";
import {Diagnosis, rankOf} from "/problems.js";
import {ago, clock, count, el, plural} from "/text.js";

const $ = (id) => document.getElementById(id);
const cardsMax = 4;  // so few pools are shown in full, below the table
const alertsShown = 6;
const eventsShown = 40;

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

// What is shown: `#pool=NAME` selects one pool. Otherwise there is the table of all pools; if there
// are few, also their cards.

// The charts show five minutes, an hour or a day: 300 samples of `step` seconds.
const stepKey = "cenote.step";
const stepButtons = [...document.querySelectorAll("[data-step]")];
let step = Number(localStorage.getItem(stepKey) ?? 1);
if (!stepButtons.some((each) => Number(each.dataset.step) === step)) step = 1;
function showStep() {
  for (const each of stepButtons) each.setAttribute("aria-pressed", Number(each.dataset.step) === step);
}
function chooseStep(seconds) {
  step = seconds;
  localStorage.setItem(stepKey, step);
  showStep();
  poll.now();
}
for (const each of stepButtons) each.addEventListener("click", () => chooseStep(Number(each.dataset.step)));
showStep();

/** While the page is paused it requests the state only for what the user selects. */
let paused = false;
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", paused);
  if (paused) {
    poll.stop();
    showLive();
  } else {
    poll.now();
  }
});
function showLive() {
  if (paused) showLink("notable", `paused at ${clock(lastUpdate ?? Date.now())}`);
  else showLink("good", "live");
}

const hrefOf = (name) => `#pool=${encodeURIComponent(name)}`;
const address = () => new URLSearchParams(location.hash.slice(1));
const selected = () => address().get("pool");
/** The moment that the address names, in milliseconds, or null. */
function pinned() {
  const at = Number(address().get("at") ?? NaN);
  return Number.isFinite(at) ? at : null;
}
function pin(pool, at) {
  location.hash = `${hrefOf(pool)}&at=${Math.round(at)}`;
}
$("unpin").addEventListener("click", () => { location.hash = hrefOf(selected()); });
/** Shows the moment of the address, in the finest charts that reach back to it. */
let shownPin = null;
function showPin(now) {
  const at = pinned();
  $("unpin").hidden = at === null || selected() === null;
  if (at !== null) $("unpin").textContent = `${new Date(at).toLocaleString("en-GB")} ✕`;
  if (at === shownPin) return;
  shownPin = at;
  if (at === null) return;
  const needed = [1, 12, 288].find((each) => (now - at) / 1000 < each * 300) ?? 288;
  if (needed > step) chooseStep(needed);
}

/** The names of the pools whose cards are shown. */
function namesOfCards(pools) {
  const one = selected();
  if (one !== null) return pools.some((each) => each.name === one) ? [one] : [];
  return pools.length <= cardsMax ? pools.map((each) => each.name) : [];
}
let scrolledTo = 0;  // in the table of all pools
let wasSelected = selected();
window.addEventListener("hashchange", () => {
  if (selected() === wasSelected) {
    if (latest) showState(latest);
    return;
  }
  if (wasSelected === null) scrolledTo = scrollY;
  const came = wasSelected;
  wasSelected = selected();
  if (latest) showState(latest);
  poll.now();
  if (wasSelected !== null) {
    scrollTo(0, 0);
    $("pools").focus({preventScroll: true});
  } else {
    scrollTo(0, scrolledTo);
    overview.focusOn(came);
  }
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();  // the address says which pool is shown
  const target = $("overview").hidden ? $("pools") : $("overview");
  target.focus();
  target.scrollIntoView();
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea, dialog");
  if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "/" && !$("overview").hidden) {
    event.preventDefault();
    overview.search.focus();
  }
  if (event.key === "Escape" && selected() !== null && !$("crumbs").hidden) location.hash = "#all";
});

const overview = new Overview($("overview"), {hrefOf});
const diagnosis = new Diagnosis();
const cards = new Map();
const page = {
  controllable: () => controllable,
  mayControl: () => controllable && controlToken() !== null,
  send: sendCommand,
  confirmed,
  refresh: () => poll.now(),
  pinned,
  pin,
};

function showCards(state, problems) {
  const names = namesOfCards(state.pools);
  for (const [name, card] of cards) {
    if (names.includes(name)) continue;
    card.root.remove();
    cards.delete(name);
  }
  for (const pool of state.pools) {
    // Without details: they come with the next answer.
    if (!names.includes(pool.name) || !pool.stats) continue;
    let card = cards.get(pool.name);
    if (card?.of !== pool.id) {  // a new pool, or another pool of the same name
      const old = card;
      card = new Card(pool.name, pool.id, page);
      cards.set(pool.name, card);
      if (old) old.root.replaceWith(card.root);
      else $("pools").append(card.root);
    }
    card.update(pool, problems.get(pool.name), state.now, state.events.filter((each) => each.pool === pool.name));
  }
  const one = selected();
  $("pools").classList.toggle("single", names.length === 1);
  $("crumbs").hidden = one === null || state.pools.length === 1 && names.length === 1;
  $("crumb-pool").textContent = one ?? "";
  $("view").hidden = names.length === 0;
  $("absent").hidden = one === null || names.length > 0;
}

/** Which program this is. With several pages open, the title tells them apart. */
function showProgram({program, host, pid, version, started}, now) {
  const text = `${program} on ${host}`;
  if ($("program").textContent !== text) $("program").textContent = text;
  const more = `Process ${pid} of ${program} on ${host}, started ${ago(started, now)} (${
    new Date(started).toLocaleString("en-GB")}), cenote ${version}`;
  if ($("about").textContent !== more) $("about").textContent = more;
}

/** Shows a state, of which some parts may be old. */
function showState(state) {
  latest = state;
  showProgram(state.process, state.now);
  showPin(state.now);
  diagnosis.keep(new Set(state.pools.map((each) => each.id)));
  const problems = new Map(state.pools.map((each) => [each.name, diagnosis.of(each, state.now)]));
  $("overview").hidden = selected() !== null || state.pools.length < 2;
  overview.update(state.pools, problems, state.now);
  showCards(state, problems);
  showAttention(state, problems);
  showEvents();
}
let latest = null;

// Problems: one alert for each pool that has any.

/** The list item of a pool. Reused while it has problems, so that its link keeps the focus. */
const alerts = new Map();
function alertOf(name, problems) {
  const item = alerts.get(name) ?? el("li", {data: {pool: name}},
    el("a", {textContent: name, href: hrefOf(name)}), " ", el("span", {className: "problem-text"}));
  alerts.set(name, item);
  if (item.dataset.level !== problems[0].level) item.dataset.level = problems[0].level;
  const text = problems.map((each) => each.text).join(" · ");
  const shown = item.querySelector(".problem-text");
  if (shown.textContent !== text) shown.textContent = text;
  return item;
}

let attention = null;
function showAttention(state, problems) {
  const one = selected();
  const sick = [...problems].filter(([, found]) => found.length > 0)
    .sort(([, a], [, b]) => rankOf(b[0].level) - rankOf(a[0].level) || b.length - a.length);
  const total = state.pools.length;
  const {program, host} = state.process;
  const name = `${one === null ? "" : `${one} – `}${program} on ${host} – cenote`;
  const title = sick.length > 0 ? `(${sick.length}) ${name}` : name;
  if (document.title !== title) document.title = title;
  const shown = one === null ? sick.slice(0, alertsShown) : sick.filter(([each]) => each === one);
  const items = shown.map(([each, found]) => alertOf(each, found));
  const others = sick.length - shown.length;
  const key = JSON.stringify([shown.map(([each]) => each), others, total, one]);
  if (key === attention) return;
  attention = key;
  announce(sick, total);
  const focused = $("attention").contains(document.activeElement) ? document.activeElement : null;
  for (const [each, item] of alerts) if (!items.includes(item)) alerts.delete(each);
  const parts = [];
  if (items.length > 0) parts.push(el("ul", {className: "problems"}, ...items));
  if (sick.length === 0) {
    parts.push(el("p", {className: "all-healthy", textContent: total === 0 ? "No pool is watched yet."
      : total === 1 ? "The pool is healthy." : `All ${total} pools are healthy.`}));
  } else if (one !== null && items.length === 0 && total > 1 && cards.has(one)) {
    parts.push(el("p", {className: "all-healthy", textContent: "This pool is healthy."}));
  }
  if (others > 0) {
    const text = `${plural(others, "other pool has", "other pools have")} problems`;
    parts.push(el("p", {className: "fine"}, one === null ? `${text}.` : el("a", {href: "#all", textContent: text})));
  }
  $("attention").replaceChildren(...parts);
  // Replacing the list drops the focus. If the focused problem is gone, focus the pools.
  if (focused) (focused.isConnected ? focused : $("pools")).focus({preventScroll: true});
}

/** For screen readers, which read a change of this text: only what became sick or well. */
let known = null;
function announce(sick, total) {
  const now = new Map(sick.map(([name, found]) => [name, found[0].badge]));
  if (known !== null) {
    const worse = [...now].filter(([name]) => !known.has(name)).map(([name, badge]) => `${name}: ${badge}`);
    const better = [...known.keys()].filter((name) => !now.has(name)).map((name) => `${name} is healthy`);
    const news = [...worse, ...better];
    const text = news.length > 5 ? `${news.slice(0, 5).join(", ")} and ${news.length - 5} more` : news.join(", ");
    if (text !== "") $("announcement").textContent = text;
  } else {
    $("announcement").textContent = `${plural(sick.length, "pool")} of ${count(total)} with problems`;
  }
  known = now;
}

// Events.

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
  const one = selected();
  const shown = events.filter((each) => (!problemsOnly || each.level === "bad") && (one === null || each.pool === one))
    .slice(0, eventsShown);
  const key = JSON.stringify(shown);
  if (key === eventsKey) return;
  eventsKey = key;
  $("events").replaceChildren(...(shown.length === 0
    ? [el("li", {className: "fine", textContent: "No recent events."})]
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

/** The query for the details of the cards. `pools`: as far as they are known. */
function detailsQuery(pools) {
  const names = namesOfCards(pools);
  const wanted = pools.filter((each) => names.includes(each.name));
  // A card without a past needs all samples.
  const since = wanted.map((each) => (cards.get(each.name)?.of === each.id && cards.get(each.name).step === step ? sample : 0));
  return `step=${step}&since=${Math.min(sample, ...since)}&details=${wanted.map((each) => each.id).join(",")}`;
}

/** Returns null if a token is missing. */
async function requestState(query) {
  const by = token();
  const response = await send(`/state?${query}`, {}, by);
  if (response.status === 401) {
    if (by !== token()) return null;  // another token was entered and is tried next
    if (by) sessionStorage.removeItem(sessionStorage.getItem(tokenKey) ? tokenKey : controlKey);
    locked = true;
    showTokenButton();
    showLink("notable", "locked");
    if (!token() && !declined) requestToken(readTokenReason, tokenKey);
    return null;
  }
  if (!response.ok) throw new Error(`${response.status}`);
  return response.json();
}

const lacksDetails = (state) => {
  const names = namesOfCards(state.pools);
  return state.pools.some((each) => names.includes(each.name) && !each.stats);
};

async function update() {
  let state = await requestState(detailsQuery(latest?.pools ?? []));
  // Another pool was selected, or there is a new one.
  if (state && lacksDetails(state)) state = await requestState(detailsQuery(state.pools));
  if (!state) return;
  if (state.run !== run && run !== null) {  // the program was restarted
    run = state.run;
    sample = 0;
    latest = null;
    cards.clear();
    $("pools").replaceChildren();
    await update();
    return;
  }
  run = state.run;
  locked = false;
  controllable = state.controllable;
  events = state.events;
  showState(state);
  sample = state.sample;
  lastUpdate = Date.now();
  showTokenButton();
  showLive();
  document.documentElement.dataset.sample = sample;
}

const poll = {
  timer: null,
  busy: false,
  again: false,
  stop() {
    clearTimeout(this.timer);
  },
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
    if (!document.hidden && (!paused || soon)) this.timer = setTimeout(() => this.now(), soon ? 0 : 1000);
  },
};
document.addEventListener("visibilitychange", () => {
  if (document.hidden) poll.stop();
  else if (!paused) poll.now();
});
poll.now();
