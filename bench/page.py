"""Turns what cenote-bench measured into something to look at.

    page.py RESULTS.json REPORT.html       a page with a chart for each workload
    page.py RESULTS.json --markdown        tables and goals, as docs/benchmarks.md has them
"""

import html
import json
import math
import sys

# Which of a workload's metrics are drawn, and whether much is good.
DRAWN = {
    "cycle": "less", "cycles": "more", "queries": "more", "instructions": "less",
    "wait p99": "less", "wait longest": "less", "least/most": "more", "latest": "less",
    "cpu": "less", "bytes": "less", "peak memory": "less",
}
BAR, GAP, LEFT, WIDTH, RIGHT = 16, 5, 190, 420, 170

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em;
       color: #1b1f24; background: #fff; }
h1 { font-size: 1.6em; } h2 { font-size: 1.15em; margin: 2.2em 0 .2em; }
p { margin: .3em 0; } .about { color: #57606a; }
svg { display: block; margin: .8em 0; max-width: 100%; height: auto; }
svg text { font-size: 12px; fill: #1b1f24; } .unit { fill: #57606a; }
.title { font-weight: 600; }
.peer { fill: #8c959f; } .ours { fill: #0b6bcb; } .spread { stroke: #1b1f24; stroke-width: 1; }
table { border-collapse: collapse; margin: .8em 0; }
td, th { padding: .15em .9em .15em 0; text-align: left; border-bottom: 1px solid #d8dee4; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.met { color: #116329; } .missed { color: #a40e26; font-weight: 600; }
"""


def number(value):
    """With about as many digits as mean something."""
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}".replace(",", "\u202f")


def is_ours(subject):
    return subject.startswith("cenote") or subject == "pool"


def workloads(results):
    """In the order in which they ran: name, about, rows."""
    found = {}
    for row in results:
        found.setdefault(row["workload"], []).append(row)
    return [(name, rows[0].get("about", ""), rows) for name, rows in found.items()]


def chart(metric, rows):
    """Bars from a common zero; on a logarithmic scale where they would not be seen otherwise."""
    rows = [r for r in rows if math.isfinite(r["value"])]
    largest = max(max(r["spread"][1], r["value"]) for r in rows)
    smallest = min((r["value"] for r in rows if r["value"] > 0), default=0)
    logarithmic = smallest > 0 and largest / smallest > 50

    def length(value):
        if value <= 0 or largest <= 0:
            return 0.0
        if not logarithmic:
            return WIDTH * value / largest
        floor = smallest / 2
        return WIDTH * max(0.0, math.log(value / floor)) / math.log(largest / floor)

    unit = rows[0]["unit"]
    good = {"less": "less is better", "more": "more is better"}[DRAWN[metric]]
    scale = ", logarithmic" if logarithmic else ""
    height = 26 + len(rows) * (BAR + GAP)
    out = [f'<svg viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" width="{LEFT + WIDTH + RIGHT}" '
           f'role="img" aria-label="{html.escape(metric)}">',
           f'<text x="0" y="14"><tspan class="title">{html.escape(metric)}</tspan> '
           f'<tspan class="unit">{html.escape(unit)} ({good}{scale})</tspan></text>']
    for i, row in enumerate(rows):
        y = 24 + i * (BAR + GAP)
        low, high = (length(v) for v in row["spread"])
        who = "ours" if is_ours(row["subject"]) else "peer"
        middle = y + BAR / 2
        out += [f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">'
                f'{html.escape(row["subject"])}</text>',
                f'<rect class="{who}" x="{LEFT}" y="{y}" height="{BAR}" '
                f'width="{max(1.0, length(row["value"])):.1f}"/>',
                f'<line class="spread" x1="{LEFT + low:.1f}" x2="{LEFT + high:.1f}" '
                f'y1="{middle}" y2="{middle}"/>',
                f'<text x="{LEFT + max(high, length(row["value"])) + 6:.1f}" y="{y + 12}">'
                f'{number(row["value"])}</text>']
    return "\n".join(out + ["</svg>"])


def goal_rows(goals, workload):
    return [g for g in goals if g["workload"] == workload]


def page(data):
    met = sum(g["met"] for g in data["goals"])
    out = ["<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
           '<meta name="viewport" content="width=device-width">',
           f"<title>cenote, measured</title><style>{STYLE}</style></head><body>",
           "<h1>cenote, measured</h1>", f"<p>{html.escape(data['machine'])}</p>",
           f"<p>{met} of {len(data['goals'])} goals met. Bars are medians of interleaved "
           "repetitions, thin lines reach from the least to the most.</p>"]
    for name, about, rows in workloads(data["results"]):
        out += [f'<h2 id="{html.escape(name)}">{html.escape(name)}</h2>',
                f'<p class="about">{html.escape(about)}</p>']
        for metric in dict.fromkeys(r["metric"] for r in rows):
            if metric in DRAWN:
                out.append(chart(metric, [r for r in rows if r["metric"] == metric]))
        goals = goal_rows(data["goals"], name)
        if goals:
            out.append("<table><tr><th>goal</th><th>bound</th><th>measured</th><th></th></tr>")
            for g in goals:
                word = "met" if g["met"] else "missed"
                out.append(f'<tr><td>{html.escape(g["goal"])}</td>'
                           f'<td>{html.escape(g["bound"])} {g["limit"]:g}</td>'
                           f'<td class="number">{number(g["value"])}</td>'
                           f'<td class="{word}">{word}</td></tr>')
            out.append("</table>")
    return "\n".join(out + ["</body></html>", ""])


def markdown(data):
    out = [f"Machine: {data['machine']}.", ""]
    for name, about, rows in workloads(data["results"]):
        metrics = list(dict.fromkeys(r["metric"] for r in rows))
        cells = {(r["subject"], r["metric"]): r for r in rows}
        units = {r["metric"]: r["unit"] for r in rows}
        heads = [f"{m} ({units[m]})" if units[m] else m for m in metrics]
        out += [f"### {name}", "", about, "", "| | " + " | ".join(heads) + " |",
                "|---|" + "--:|" * len(metrics)]
        for subject in dict.fromkeys(r["subject"] for r in rows):
            line = []
            for m in metrics:
                r = cells.get((subject, m))
                line.append("" if r is None else
                            f"{number(r['value'])} ({number(r['spread'][0])}–"
                            f"{number(r['spread'][1])})")
            out.append(f"| {subject} | " + " | ".join(line) + " |")
        goals = goal_rows(data["goals"], name)
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
    print(f"charts: {arguments[1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
