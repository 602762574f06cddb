// What is wrong with a pool, from its row of the overview.
import {ago, plural} from "/text.js";

const recentSeconds = 10;  // as on the server
const levels = ["good", "notable", "bad"];
/** "good" is 0, "bad" is 2. */
export const rankOf = (level) => levels.indexOf(level);
export const levelOf = (rank) => levels[rank];

/** "the breaker …: every acquire is refused": the last error of this kind, if there is one. */
function because(found, now) {
  return found ? `: ${found.text || "no reason was given"} (${ago(found.at, now)})` : "";
}

/**
 * Finds the problems of all pools, the worst first: [{level, badge, text}]. It remembers which pools
 * are crowded.
 */
export class Diagnosis {
  constructor() {
    this.crowded = new Set();
  }

  /** Forgets pools that are gone. `ids`: of the present ones. */
  keep(ids) {
    for (const id of this.crowded) if (!ids.has(id)) this.crowded.delete(id);
  }

  of(pool, now) {
    const o = pool.overview;
    const found = [];
    const add = (level, badge, text) => found.push({level, badge, text});
    const last = (kind) => o.causes.find((each) => each.kind === kind);
    const recently = (kind) => {
      const one = last(kind);
      return one && now - one.at < recentSeconds * 1000 ? one : undefined;
    };
    if (o.breaker === "inactive") {
      add("bad", "breaker open", `the breaker is open: every acquire is refused${this.reason(last("open_failed"), now)}`);
    }
    if (o.deadlock) {
      add("bad", "deadlock", "probably a deadlock: every lease is held by a thread that waits for another one");
    }
    if (o.suspects) {
      const {count, site, task} = o.suspects;
      add("bad", plural(count, "leak suspect"), `${plural(count, "lease is", "leases are")} held for too long, ` +
        `the oldest from ${site}${task ? ` (${task})` : ""}`);
    }
    if (o.recent.open_failed > 0) {
      add("bad", "opens fail", `${plural(o.recent.open_failed, "open")} failed in the last ${recentSeconds} s` +
        because(last("open_failed"), now));
    }
    if (o.recent.unserved > 0 && o.breaker === "active") {
      add("bad", "refusing", `${plural(o.recent.unserved, "acquire was", "acquires were")} refused in the last ${recentSeconds} s`);
    }
    const blocked = recently("loop_blocked");
    if (blocked) add("bad", "loop blocked", `a call blocks the pool's own event loop${because(blocked, now)}`);
    if (o.breaker === "recovering") add("notable", "recovering", "the breaker allows a few acquires");
    if (o.state === "paused") {
      add("notable", "paused", `paused: no lease is granted${
        o.waiting > 0 ? `, ${plural(o.waiting, "caller waits", "callers wait")}` : ""}`);
    }
    if (o.state === "closed") add("notable", "closed", "closed");
    for (const [kind, badge, what] of [["probe_failed", "probes fail", "a probe failed"],
      ["reset_failed", "resets fail", "a reset failed"]]) {
      const one = recently(kind);
      if (one) add("notable", badge, what + because(one, now));
    }
    const nested = recently("nested_acquire");
    if (nested && !o.deadlock) {
      add("notable", "nested acquire", `a thread with a lease waits for another one${because(nested, now)}`);
    }
    if (this.isCrowded(pool) && o.state === "lending" && o.breaker === "active" && !o.deadlock) {
      add("notable", "crowded", "callers wait most of the time");
    }
    return found.sort((a, b) => rankOf(b.level) - rankOf(a.level));
  }

  reason(error, now) {
    return error ? `; the last open error${because(error, now)}` : "";
  }

  /** Different thresholds for on and off, so that the state does not flicker. */
  isCrowded(pool) {
    const crowded = pool.overview.recent.waiting >= (this.crowded.has(pool.id) ? 2 : 6);
    if (crowded) this.crowded.add(pool.id);
    else this.crowded.delete(pool.id);
    return crowded;
  }
}
