// The overview: a table with a row per pool, and a row per group of pools.
import {levelOf, rankOf} from "/problems.js";
import {ago, clock, count, el, plural, rate, time} from "/text.js";

const collapsedFrom = 13;  // with this many pools, groups are closed at first
const keptFor = 20_000;  // milliseconds for which a used table keeps its order
const order = new Intl.Collator("en", {numeric: true});

/**
 * "orders" for "orders-replica-1", "orders/3", "orders 2", "orders-eu-7" gives "orders-eu", and
 * "billing/orders" gives "billing".
 */
export function groupOf(name) {
  let base = name;
  for (let before = ""; before !== base;) {
    before = base;
    base = base.replace(/(?:-replica-|[-_.:#/ ])\d+$/, "");
  }
  return base.includes("/") ? base.slice(0, base.indexOf("/")) || base : base;
}

/** A pool's row: plain values, which the table shows and sorts by. */
function rowOf(pool, problems, now) {
  const o = pool.overview;
  const error = o.causes.find((each) => each.kind === "open_failed");
  return {
    name: pool.name, pools: 1, sick: problems.length > 0 ? 1 : 0,
    rank: rankOf(problems[0]?.level ?? "good"), badge: problems[0]?.badge ?? "healthy",
    leased: o.leased, idle: o.idle, busy: o.opening + o.probing + o.resetting + o.closing, max: o.max,
    waiting: o.waiting, granted: o.recent.granted, wait: o.recent.wait_p99, hold: o.recent.hold_p99,
    refused: o.refused, unserved: o.recent.unserved, error, now,
    breaker: o.breaker, reasons: problems.map((each) => each.text).join("; "),
  };
}

const worst = (a, b) => (a === null ? b : b === null ? a : Math.max(a, b));
const breakers = ["active", "recovering", "inactive"];

/** The row of a group: sums, and the worst of what cannot be added. */
function sumOf(name, rows) {
  const all = {...rows[0], name};
  for (const each of rows.slice(1)) {
    for (const key of ["pools", "sick", "leased", "idle", "busy", "max", "waiting", "granted", "refused", "unserved"]) {
      all[key] += each[key];
    }
    all.wait = worst(all.wait, each.wait);
    all.hold = worst(all.hold, each.hold);
    if (each.rank > all.rank) Object.assign(all, {rank: each.rank, badge: each.badge, reasons: each.reasons});
    if (each.error && (!all.error || each.error.at > all.error.at)) all.error = each.error;
    if (breakers.indexOf(each.breaker) > breakers.indexOf(all.breaker)) all.breaker = each.breaker;
  }
  return all;
}

/** `value`: to sort by. `first`: the direction of the first click, 1 for rising. */
const columns = [
  {key: "name", title: "Pool", first: 1, className: "o-name"},
  {key: "rank", title: "State", first: -1, value: (row) => row.rank * 1e6 + row.sick, className: "o-state"},
  {key: "use", title: "Leases", first: -1, value: (row) => row.leased / Math.max(1, row.max), className: "o-use"},
  {key: "waiting", title: "Waiting", first: -1, value: (row) => row.waiting, className: "number o-waiting"},
  {key: "granted", title: "Acquires/s", first: -1, value: (row) => row.granted, className: "number o-granted"},
  {key: "wait", title: "Wait p99", first: -1, value: (row) => row.wait ?? -1, className: "number o-wait"},
  {key: "hold", title: "Hold p99", first: -1, value: (row) => row.hold ?? -1, className: "number o-hold"},
  {key: "refused", title: "Refused", first: -1, value: (row) => row.refused, className: "number o-refused"},
  {key: "error", title: "Last open error", first: -1, value: (row) => row.error?.at ?? 0, className: "o-error"},
  {key: "breaker", title: "Breaker", first: -1, value: (row) => breakers.indexOf(row.breaker), className: "o-breaker"},
];

/** Sets a property only if it changes: reading it back from the document would cost more. */
class Shown {
  constructor(node, set) {
    this.node = node;
    this.put = set;
    this.value = undefined;
  }
  set(value) {
    if (value === this.value) return;
    this.value = value;
    this.put(this.node, value);
  }
}
const text = (node) => new Shown(node, (n, value) => { n.textContent = value; });
const title = (node) => new Shown(node, (n, value) => { n.title = value; });
const data = (node, key) => new Shown(node, (n, value) => { n.dataset[key] = value; });
const style = (node, key) => new Shown(node, (n, value) => n.style.setProperty(key, value));

class Row {
  /** `head`: the link or the button with the name. */
  constructor(name, head) {
    this.head = head;
    this.root = el("tr", {role: "row", data: {row: name}});
    const cells = columns.map((each) => el(each.key === "name" ? "th" : "td", {
      className: each.className, role: each.key === "name" ? "rowheader" : "cell",
      data: each.key === "name" ? {} : {title: each.title}}));
    cells[0].scope = "row";
    this.root.append(...cells);
    const [nameCell, state, use, waiting, granted, wait, hold, refused, error, breaker] = cells;
    nameCell.append(head);
    const badge = el("span", {className: "badge"});
    state.append(badge);
    const label = el("span", {className: "use-text"});
    const bar = el("span", {className: "use-bar", ariaHidden: "true"});
    const line = el("span", {className: "use-line", ariaHidden: "true"});
    use.append(label, bar, line);
    const message = el("span", {className: "error-text"});
    const since = el("span", {className: "error-time"});
    error.append(message, since);
    this.shown = {
      level: data(this.root, "level"), reasons: title(state), badge: text(badge), badgeLevel: data(badge, "level"),
      use: text(label), useTitle: title(use), leased: style(bar, "--leased-to"), idle: style(bar, "--idle-to"),
      busy: style(bar, "--busy-to"), line: style(line, "--line-to"),
      waiting: text(waiting), granted: text(granted), wait: text(wait), hold: text(hold),
      refused: text(refused), refusedLevel: data(refused, "level"), waitingLevel: data(waiting, "level"),
      error: text(message), since: text(since), errorTitle: title(error),
      breaker: text(breaker), breakerLevel: data(breaker, "level"),
    };
  }

  update(row) {
    const s = this.shown;
    const level = levelOf(row.rank);
    s.level.set(level);
    s.badge.set(row.pools > 1 && row.sick > 0 ? `${count(row.sick)} of ${count(row.pools)}: ${row.badge}` : row.badge);
    s.badgeLevel.set(level);
    s.reasons.set(row.reasons);
    s.use.set(`${count(row.leased)} of ${count(row.max)}`);
    s.useTitle.set(`${count(row.leased)} leased, ${count(row.idle)} idle, ${count(row.busy)} busy, ${
      count(row.waiting)} waiting, at most ${count(row.max)}`);
    const part = (n) => `${Math.round((Math.min(n, row.max) / Math.max(1, row.max)) * 1000) / 10}%`;
    s.leased.set(part(row.leased));
    s.idle.set(part(row.leased + row.idle));
    s.busy.set(part(row.leased + row.idle + row.busy));
    s.line.set(part(row.waiting));
    s.waiting.set(row.waiting === 0 ? "–" : count(row.waiting));
    s.waitingLevel.set(row.waiting > 0 ? "notable" : "");
    s.granted.set(rate(row.granted));
    s.wait.set(row.wait === null ? "–" : time(row.wait));
    s.hold.set(row.hold === null ? "–" : time(row.hold));
    s.refused.set(row.refused === 0 ? "–" : count(row.refused));
    s.refusedLevel.set(row.unserved > 0 ? "bad" : "");
    s.error.set(row.error ? row.error.text || "no reason was given" : "–");
    s.since.set(row.error ? ago(row.error.at, row.now) : "");
    s.errorTitle.set(row.error ? `${clock(row.error.at)} ${row.error.text}` : "");
    s.breaker.set(row.breaker);
    s.breakerLevel.set(row.breaker === "active" ? "" : row.breaker === "inactive" ? "bad" : "notable");
  }
}

const sortKey = "cenote.sort";
const groupKey = "cenote.group";

/** `hrefOf(name)`: the link to the details of a pool. */
export class Overview {
  constructor(root, {hrefOf}) {
    this.root = root;
    this.hrefOf = hrefOf;
    this.rows = new Map();    // by the name of the pool
    this.groups = new Map();  // by the name of the group: Row
    this.toggled = new Map();  // groups opened or closed by the user
    this.grouped = localStorage.getItem(groupKey) !== "off";
    const [key, direction] = (localStorage.getItem(sortKey) ?? "rank -1").split(" ");
    this.sort = columns.some((each) => each.key === key)
      ? {key, direction: Number(direction) < 0 ? -1 : 1} : {key: "rank", direction: -1};
    this.makeTools();
    this.makeTable();
    this.showSort();
  }

  makeTools() {
    this.search = el("input", {type: "search", id: "search", placeholder: "Search", ariaLabel: "Search pools",
                               autocomplete: "off", spellcheck: false, oninput: () => this.refresh()});
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.moveFocus(event, null);
      if (event.key === "Escape" && this.search.value !== "") {
        this.search.value = "";
        event.preventDefault();
        this.refresh();
      }
    });
    this.groupButton = el("button", {type: "button", className: "quiet", id: "group", textContent: "Group by name",
                                     ariaPressed: this.grouped, onclick: () => {
      this.grouped = !this.grouped;
      localStorage.setItem(groupKey, this.grouped ? "on" : "off");
      this.groupButton.setAttribute("aria-pressed", this.grouped);
      this.refresh(true);
    }});
    // For phones, where the table has no header.
    this.sortChoice = el("select", {id: "sort", ariaLabel: "Sort by", onchange: () => {
      const column = columns.find((each) => each.key === this.sortChoice.value);
      this.setSort({key: column.key, direction: column.first});
    }}, ...columns.map((each) => el("option", {value: each.key, textContent: each.key === "rank" ? "Worst first" : each.title})));
    this.number = el("p", {className: "fine", id: "pool-count", role: "status"});
    this.root.append(el("div", {className: "card-head overview-head"},
      el("h2", {id: "overview-title", textContent: "Pools"}), this.number,
      el("div", {className: "overview-tools"}, this.search, this.sortChoice, this.groupButton)));
  }

  makeTable() {
    this.heads = columns.map((each) => el("th", {scope: "col", role: "columnheader", className: each.className},
      el("button", {type: "button", className: "sort", textContent: each.title, data: {sort: each.key},
                    onclick: () => this.sortBy(each)})));
    this.body = el("tbody", {role: "rowgroup"});
    this.empty = el("p", {className: "fine", hidden: true, textContent: "No pool matches."});
    this.table = el("table", {className: "overview", role: "table"},
      el("caption", {className: "unseen", textContent:
        "All pools. Rates and times are of the last 10 seconds. Choose a name for the details of a pool."}),
      el("thead", {role: "rowgroup"}, el("tr", {role: "row"}, ...this.heads)), this.body);
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (!row || event.target.closest("a, button") || String(getSelection()) !== "") return;
      row.querySelector("a, button").click();
    });
    this.body.addEventListener("keydown", (event) => {
      if (["ArrowDown", "ArrowUp", "Home", "End"].includes(event.key)) this.moveFocus(event, document.activeElement);
    });
    this.pointed = this.typed = -Infinity;
    this.body.addEventListener("pointermove", () => { this.pointed = performance.now(); });
    for (const each of ["keydown", "focusin"]) {
      this.body.addEventListener(each, () => { this.typed = performance.now(); });
    }
    this.root.append(this.table, this.empty);
  }

  /** Focuses the row of a pool, or the row of its group. */
  focusOn(name) {
    if (this.root.hidden) return;
    const row = this.rows.get(name)?.root.isConnected ? this.rows.get(name) : this.groups.get(groupOf(name ?? ""));
    row?.head.focus({preventScroll: true});
  }

  moveFocus(event, from) {
    const heads = [...this.body.querySelectorAll("tr a, tr button")];
    const at = heads.indexOf(from);
    const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: heads.length - 1}[event.key];
    event.preventDefault();
    if (to < 0) this.search.focus();
    else heads[Math.min(to, heads.length - 1)]?.focus();
  }

  sortBy(column) {
    const again = this.sort.key === column.key;
    this.setSort({key: column.key, direction: again ? -this.sort.direction : column.first});
  }

  setSort(sort) {
    this.sort = sort;
    localStorage.setItem(sortKey, `${sort.key} ${sort.direction}`);
    this.showSort();
    this.refresh(true);
  }

  showSort() {
    columns.forEach((each, i) => {
      if (each.key !== this.sort.key) this.heads[i].removeAttribute("aria-sort");
      else this.heads[i].setAttribute("aria-sort", this.sort.direction > 0 ? "ascending" : "descending");
    });
    this.sortChoice.value = this.sort.key;
  }

  /** `problems`: of each pool, by name. `now`: the server's time. */
  update(pools, problems, now) {
    const names = new Set(pools.map((each) => each.name));
    for (const [name, row] of this.rows) {
      if (names.has(name)) continue;
      row.root.remove();
      this.rows.delete(name);
    }
    this.all = pools.map((each) => rowOf(each, problems.get(each.name), now));
    this.refresh();
  }

  compare() {
    const {key, direction} = this.sort;
    const byName = (a, b) => order.compare(a.row.name, b.row.name);
    if (key === "name") return (a, b) => byName(a, b) * direction;
    const value = columns.find((each) => each.key === key).value;
    return (a, b) => (value(a.row) - value(b.row)) * direction || byName(a, b);
  }

  isOpen(group) {
    return this.toggled.get(group) ?? (this.all.length < collapsedFrom || this.search.value !== "");
  }

  /** The rows to show, each with its group: [{row, group, of}]. */
  arranged() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter((each) => each !== "");
    const found = this.all.filter((row) => {
      const all = `${row.name} ${row.badge} ${row.error?.text ?? ""} ${row.breaker}`.toLowerCase();
      return words.every((each) => all.includes(each));
    });
    this.found = found.length;
    const compare = this.compare();
    const groups = new Map();
    for (const row of found) {
      const group = this.grouped ? groupOf(row.name) : row.name;
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(row);
    }
    const top = [...groups].map(([group, rows]) => (rows.length === 1
      ? {row: rows[0]} : {row: sumOf(group, rows), group, rows}));
    return top.sort(compare).flatMap((each) => (each.rows && this.isOpen(each.group)
      ? [each, ...each.rows.map((row) => ({row, of: each.group})).sort(compare)] : [each]));
  }

  /** Whether the pointer or the keyboard was used in the table a short time ago and is still there. */
  isUsed() {
    const since = performance.now() - keptFor;
    return (this.pointed > since && this.body.matches(":hover")) ||
      (this.typed > since && this.body.contains(document.activeElement));
  }

  /** `reorder`: even while the table is used. Then rows keep their places otherwise. */
  refresh(reorder = false) {
    if (!this.all || this.root.hidden) return;
    const entries = this.arranged();
    const groups = new Set(entries.map((each) => each.group));
    for (const name of this.groups.keys()) if (!groups.has(name)) this.groups.delete(name);
    const roots = entries.map((each) => this.rowFor(each).root);
    const present = this.body.children;
    const same = present.length === roots.length && roots.every((each, i) => present[i] === each);
    const held = !reorder && this.isUsed();
    const sameRows = held && present.length === roots.length && roots.every((each) => each.parentNode === this.body);
    if (!same && !sameRows) this.place(roots);
    this.empty.hidden = entries.length > 0;
    const total = this.all.length;
    const shown = this.found === total ? plural(total, "pool") : `${count(this.found)} of ${plural(total, "pool")}`;
    if (this.number.textContent !== shown) this.number.textContent = shown;
    this.groupButton.hidden = new Set(this.all.map((each) => groupOf(each.name))).size === total;
  }

  /** Moves only the rows that are not in their places. Moving a row drops its focus. */
  place(roots) {
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const wanted = new Set(roots);
    for (const each of [...this.body.children]) if (!wanted.has(each)) each.remove();
    let at = this.body.firstElementChild;
    for (const each of roots) {
      if (each === at) at = at.nextElementSibling;
      else this.body.insertBefore(each, at);
    }
    if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({preventScroll: true});
  }

  rowFor({row, group, of}) {
    const rows = group === undefined ? this.rows : this.groups;
    let shown = rows.get(row.name);
    if (!shown) {
      shown = new Row(row.name, group === undefined ? this.link(row.name) : this.groupToggle(group));
      if (group === undefined) shown.root.dataset.pool = row.name;
      else shown.root.dataset.group = group;
      rows.set(row.name, shown);
    }
    shown.root.classList.toggle("member", of !== undefined);
    if (group !== undefined) {
      shown.head.setAttribute("aria-expanded", this.isOpen(group));
      shown.head.querySelector(".group-size").textContent = ` ${count(row.pools)}`;
    }
    shown.update(row);
    return shown;
  }

  link(name) {
    return el("a", {href: this.hrefOf(name), textContent: name});
  }

  groupToggle(group) {
    return el("button", {type: "button", className: "group-toggle", onclick: () => {
      this.toggled.set(group, !this.isOpen(group));
      this.refresh(true);
    }}, el("span", {textContent: group}), el("span", {className: "group-size"}));
  }
}
