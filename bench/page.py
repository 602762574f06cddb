"""Formats the results of cenote-bench.

    page.py RESULTS.json REPORT.html       a page with bars for each workload
    page.py RESULTS.json --markdown        tables and goals, as in docs/benchmarks.md
"""

import html
import json
import math
import sys

# The metrics that the page shows, and which values are better.
DRAWN = {
    "cycle": "less", "cycles": "more", "queries": "more", "instructions": "less",
    "wait p99": "less", "wait longest": "less", "least/most": "more", "latest": "less",
    "cpu": "less", "bytes": "less", "peak memory": "less",
}

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em;
       color: #1b1f24; background: #fff; }
h1 { font-size: 1.6em; } h2 { font-size: 1.15em; margin: 2.2em 0 .2em; }
p { margin: .3em 0; } .about, .range { color: #57606a; }
table { border-collapse: collapse; margin: .8em 0; } caption { text-align: left; font-weight: 600; }
td, th { padding: .1em .9em .1em 0; text-align: left; white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.bar { width: 26em; } .bar i { display: block; height: 1em; background: #8c959f; }
.ours i { background: #0b6bcb; }
.met { color: #116329; } .missed { color: #a40e26; font-weight: 600; }
"""


def number(value):
    """With at most three significant digits after the decimal point."""
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}".replace(",", "\u202f")


def spread(row):
    return f"{number(row['spread'][0])}–{number(row['spread'][1])}"


def unique(rows, key):
    return list(dict.fromkeys(row[key] for row in rows))


def workloads(data):
    """Name, description, rows and goals of each workload, in the order of the run."""
    for name in unique(data["results"], "workload"):
        rows = [r for r in data["results"] if r["workload"] == name]
        yield name, rows[0]["about"], rows, [g for g in data["goals"] if g["workload"] == name]


def bars(metric, rows):
    """A table with bars, on a logarithmic scale if the values differ too much."""
    rows = [r for r in rows if r["metric"] == metric and math.isfinite(r["value"])]
    largest = max(r["value"] for r in rows)
    smallest = min((r["value"] for r in rows if r["value"] > 0), default=0)
    logarithmic = smallest > 0 and largest / smallest > 50

    def percent(value):
        if value <= 0:
            return 0
        if logarithmic:
            return 100 * math.log(2 * value / smallest) / math.log(2 * largest / smallest)
        return 100 * value / largest

    note = f"{rows[0]['unit']} ({DRAWN[metric]} is better{', logarithmic' * logarithmic})"
    out = [f"<table><caption>{html.escape(metric)} <span class=\"range\">{html.escape(note)}</span>"
           "</caption>"]
    for row in rows:
        ours = row["subject"].startswith("cenote") or row["subject"] == "pool"
        out.append(f'<tr{" class=ours" * ours}><td>{html.escape(row["subject"])}</td>'
                   f'<td class="bar"><i style="width:{percent(row["value"]):.1f}%"></i></td>'
                   f'<td class="number">{number(row["value"])}</td>'
                   f'<td class="range">{spread(row)}</td></tr>')
    return "\n".join(out + ["</table>"])


def goal_table(goals):
    out = ["<table><tr><th>goal</th><th>bound</th><th>measured</th><th></th></tr>"]
    for g in goals:
        word = "met" if g["met"] else "missed"
        out.append(f'<tr><td>{html.escape(g["goal"])}</td>'
                   f'<td>{html.escape(g["bound"])} {g["limit"]:g}</td>'
                   f'<td class="number">{number(g["value"])}</td>'
                   f'<td class="{word}">{word}</td></tr>')
    return "\n".join(out + ["</table>"])


def page(data):
    met = sum(g["met"] for g in data["goals"])
    out = ["<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
           '<meta name="viewport" content="width=device-width">',
           f"<title>cenote benchmarks</title><style>{STYLE}</style></head><body>",
           "<h1>cenote benchmarks</h1>", f"<p>{html.escape(data['machine'])}</p>",
           f"<p>{met} of {len(data['goals'])} goals met. Bars are medians of interleaved "
           "repetitions, followed by the range.</p>"]
    for name, about, rows, goals in workloads(data):
        out += [f'<h2 id="{html.escape(name)}">{html.escape(name)}</h2>',
                f'<p class="about">{html.escape(about)}</p>']
        out += [bars(metric, rows) for metric in unique(rows, "metric") if metric in DRAWN]
        if goals:
            out.append(goal_table(goals))
    return "\n".join(out + ["</body></html>", ""])


def markdown(data):
    out = [f"Machine: {data['machine']}.", ""]
    for name, about, rows, goals in workloads(data):
        metrics = unique(rows, "metric")
        cells = {(r["subject"], r["metric"]): f"{number(r['value'])} ({spread(r)})" for r in rows}
        units = {r["metric"]: r["unit"] for r in rows}
        heads = [f"{m} ({units[m]})" if units[m] else m for m in metrics]
        out += [f"### {name}", "", about, "", "| | " + " | ".join(heads) + " |",
                "|---|" + "--:|" * len(metrics)]
        out += [f"| {subject} | " + " | ".join(cells.get((subject, m), "") for m in metrics) + " |"
                for subject in unique(rows, "subject")]
        out += [""] + [f"- {'met' if g['met'] else '**missed**'}: {g['goal']} {g['bound']} "
                       f"{g['limit']:g}: {number(g['value'])}" for g in goals] + [""]
    return "\n".join(out)


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__.strip())
    with open(arguments[0], encoding="utf-8") as file:
        data = json.load(file)
    if arguments[1] == "--markdown":
        print(markdown(data))
        return
    with open(arguments[1], "w", encoding="utf-8") as file:
        file.write(page(data))
    print(f"page: {arguments[1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
