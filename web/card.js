// The details of one pool: its slots, line, charts, leases, errors and controls.
import {Chart} from "/chart.js";
import {ago, clock, count, el, fileName, plural, rate, readable, time} from "/text.js";

const historyMax = 300;  // samples, as on the server
const placesShown = 8;
const waitersShown = 40;

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

function summaryOf(s) {
  const parts = [`${count(s.leased)} of ${count(s.max)} leased`];
  if (s.idle > 0) parts.push(`${count(s.idle)} idle`);
  if (s.opening > 0) parts.push(`${count(s.opening)} opening`);
  parts.push(s.waiting > 0 ? `${count(s.waiting)} waiting` : "none waiting");
  return parts.join(" · ");
}

const causeNames = {
  open_failed: "open", probe_failed: "probe", reset_failed: "reset",
  nested_acquire: "nested acquire", loop_blocked: "blocked loop",
};

/** A table of call sites and tasks, with a number and a time for each. */
function placeTable(title, columns) {
  const body = el("tbody");
  const note = el("p", {className: "fine"});
  const table = el("table", {className: "places", ariaLabel: title},
    el("thead", {}, el("tr", {},
      el("th", {scope: "col", textContent: "Call site"}),
      el("th", {scope: "col", textContent: "Task"}),
      ...columns.map((each) => el("th", {scope: "col", className: "number", textContent: each})))),
    body);
  return {body, note, table, root: el("div", {}, el("h3", {textContent: title}), table, note)};
}

function placeRow(each) {
  const late = each.suspects > 0;
  const site = each.line === 0 ? "unknown" : `${fileName(each.file)}:${each.line}`;
  return el("tr", {className: late ? "suspect" : ""},
    el("td", {}, el("span", {className: "site", title: `${each.file}:${each.line} ${each.function}`,
                             textContent: site}),
      late ? el("span", {className: "mark", textContent: each.suspects === each.count ? "held for too long"
        : `${count(each.suspects)} held for too long`}) : null),
    el("td", {textContent: each.task ?? "–"}),
    el("td", {className: "number", textContent: count(each.count)}),
    el("td", {className: "number", textContent: each.oldest === null ? "just now" : time(each.oldest)}));
}

/**
 * `page`: {controllable(), mayControl(), send(command), confirmed(…), refresh(), pinned(), pin(pool, time)}.
 */
export class Card {
  constructor(name, of, page) {
    this.page = page;
    this.name = name;
    this.of = of;
    this.step = null;
    const id = `pool-${(Card.made += 1)}`;
    this.id = id;
    this.badge = el("span", {className: "badge"});
    this.sentence = el("p", {className: "sentence"});
    this.endpoint = el("p", {className: "fine endpoint"});
    this.slots = el("ul", {className: "slots", ariaLabel: "Slots"});
    this.legend = el("ul", {className: "legend", ariaLabel: "Slots by state"});
    this.line = el("div", {className: "line"});
    this.charts = [
      new Chart("Resources", [
        {name: "leased", className: "leased", key: "leased"},
        {name: "idle", className: "idle", key: "open", read: "idle", area: true},
        {name: "max", className: "limit", key: "max"},
        {name: "waiting", className: "waits", key: "waiting", hideZero: true}], rate),
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
    this.holders = placeTable("Leases", ["Leases", "Longest"]);
    this.holders.table.classList.add("holders");
    this.waiters = placeTable("Waiters", ["Waiting", "Longest"]);
    this.waiters.root.className = "waiting-places";
    this.causes = el("ul", {className: "causes"});
    this.causesPart = el("div", {}, el("h3", {textContent: "Last errors"}), this.causes);
    this.facts = el("dl", {className: "facts", ariaLabel: "Since the start"});
    this.refusals = el("ul", {className: "refusals"});
    this.options = el("tbody");
    this.optionsTitle = el("summary", {textContent: "Options"});
    this.optionsPart = el("details", {className: "control options"}, this.optionsTitle,
      el("table", {ariaLabel: "Options"}, el("thead", {}, el("tr", {},
        ...["Option", "In force", "Default"].map((each) => el("th", {scope: "col", textContent: each})))),
      this.options));
    this.control = this.makeControl(id);
    this.root = el("section", {className: "card pool", data: {pool: name}, ariaLabelledby: id},
      el("div", {className: "card-head"}, el("h2", {id, textContent: name}), this.badge),
      this.sentence, this.endpoint,
      this.slots, this.legend,
      this.causesPart,
      this.line,
      el("div", {className: "charts"}, ...this.charts.map((each) => each.root)),
      el("div", {className: "halves"},
        this.holders.root,
        el("div", {}, el("h3", {textContent: "Refusals"}), this.refusals)),
      this.waiters.root,
      this.facts,
      this.optionsPart,
      this.control);
  }

  /** A history in another resolution starts anew. */
  remember({first, step, ...columns}) {
    if (step !== this.step) this.past = {last: -1, columns: {}};
    this.step = step;
    const length = columns.granted.length;
    const skip = Math.min(length, Math.max(0, this.past.last + 1 - first));
    columns.open = columns.leased.map((n, i) => n + columns.idle[i]);
    for (const [key, values] of Object.entries(columns)) {
      this.past.columns[key] = [...(this.past.columns[key] ?? []), ...values.slice(skip)].slice(-historyMax);
    }
    if (length > 0) this.past.last = Math.max(this.past.last, first + length - 1);
  }

  /** `pool` has details. `now`: the server's time. `events`: of this pool. */
  update(pool, problems, now, events) {
    const s = pool.stats;
    this.remember(pool.history);
    const worst = problems[0] ?? {level: "good", badge: "healthy"};
    this.badge.textContent = worst.badge;
    this.badge.dataset.level = worst.level;
    this.root.dataset.level = worst.level;
    this.root.dataset.state = s.state;
    this.root.dataset.breaker = s.breaker;
    this.root.dataset.granted = s.granted;
    this.root.dataset.leased = s.leased;
    this.sentence.textContent = summaryOf(s);
    this.endpoint.hidden = pool.endpoint === null;
    if (this.endpoint.textContent !== pool.endpoint) this.endpoint.textContent = pool.endpoint;
    this.showSlots(pool);
    this.showLine(s);
    const marks = events.filter((each) => each.level !== "plain")
      .map((each) => ({ago: (now - each.at) / 1000, level: each.level, text: `${clock(each.at)} ${each.text}`}));
    const pinned = this.page.pinned();
    for (const chart of this.charts) {
      chart.update(this.past.columns, this.step, marks, pinned === null ? null : (now - pinned) / 1000);
      chart.onChoose = (ago) => this.page.pin(this.name, now - ago * 1000);
    }
    this.showCauses(pool.overview.causes, now);
    this.showHolders(pool);
    this.showWaiters(pool.waiters);
    this.showCounts(s);
    this.showOptions(pool.options);
    this.stats = s;
    this.showControl();
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

  showCauses(causes, now) {
    this.causesPart.hidden = causes.length === 0;
    this.causes.replaceChildren(...causes.map((each) => el("li", {data: {cause: each.kind}},
      el("span", {className: "cause-kind", textContent: causeNames[each.kind] ?? readable(each.kind)}),
      el("span", {className: "cause-text", textContent: each.text || "no reason was given"}),
      el("time", {title: clock(each.at), textContent: ago(each.at, now)}),
      each.times > 1 ? el("span", {className: "event-times", textContent: `×${count(each.times)}`}) : null)));
  }

  showHolders(pool) {
    const {places, shown} = pool.holders;
    const rows = shown.slice(0, placesShown);
    this.holders.body.replaceChildren(...rows.map(placeRow));
    const listed = rows.reduce((sum, each) => sum + each.count, 0);
    const more = pool.stats.leased - listed;
    this.holders.note.textContent = pool.stats.leased === 0 && rows.length === 0 ? "No leases."
      : places > rows.length ? `and ${plural(Math.max(more, places - rows.length), "lease")} at ` +
        `${plural(places - rows.length, "other place")}` : "";
    this.holders.table.hidden = rows.length === 0;
    // The table never shrinks, so that the content below does not move.
    this.rows = Math.max(this.rows ?? 0, rows.length);
    this.holders.root.style.minHeight = `${4.2 + this.rows * 2}rem`;
  }

  showWaiters({listed, places, shown}) {
    const rows = shown.slice(0, placesShown);
    // Once shown, the table stays, so that the content below does not move.
    this.waitRows = Math.max(this.waitRows ?? 0, rows.length);
    this.waiters.root.hidden = this.waitRows === 0;
    this.waiters.root.style.minHeight = `${2.6 + this.waitRows * 2}rem`;
    this.waiters.table.hidden = rows.length === 0;
    this.waiters.body.replaceChildren(...rows.map(placeRow));
    const notes = rows.length === 0 ? ["None now."] : [];
    if (places > rows.length) notes.push(`and ${plural(places - rows.length, "other place")}`);
    if (this.stats && this.stats.waiting > listed && listed >= 1000) notes.push(`of the first ${count(listed)} in line`);
    this.waiters.note.textContent = notes.join(", ");
  }

  /** Those that were changed come first. */
  showOptions(options) {
    const key = JSON.stringify(options);
    if (key === this.optionsKey) return;
    this.optionsKey = key;
    const changed = options.filter((each) => each.default !== null);
    this.optionsTitle.textContent = `Options (${changed.length} changed)`;
    this.options.replaceChildren(...[...changed, ...options.filter((each) => each.default === null)].map((each) =>
      el("tr", {className: each.default === null ? "" : "changed", data: {option: each.name}},
        el("th", {scope: "row", textContent: each.name}), el("td", {textContent: each.value}),
        el("td", {textContent: each.default ?? each.value}))));
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
    const may = this.page.mayControl();
    this.buttons.hidden = !may;
    this.locked.hidden = may;
    this.locked.textContent = this.page.controllable()
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
    if (question && !(await this.page.confirmed(`${question[1]} – ${name}?`, question[0], question[1]))) return;
    try {
      const done = await this.page.send(action === "resize" ? {pool: name, action, max} : {pool: name, action});
      this.result.textContent = `${done ? "Done" : "Still running"}: ${readable(action)}${action === "resize" ? ` to ${max}` : ""}.`;
      this.result.dataset.level = "good";
      delete this.size.dataset.touched;
      this.page.refresh();
    } catch (error) {
      this.result.textContent = `Not done: ${error.message}.`;
      this.result.dataset.level = "bad";
    }
  }
}
Card.made = 0;
