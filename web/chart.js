// A small time chart: lines in a stretched SVG, texts in HTML.

const svgNamespace = "http://www.w3.org/2000/svg";
const width = 300;
const height = 68;
const labelHeight = 13;  // above the highest value, for its label
const gapMax = 10;  // samples without a value across which a line is drawn
const spanMin = 30;  // samples

function shape(name, className) {
  const made = document.createElementNS(svgNamespace, name);
  made.setAttribute("class", className);
  return made;
}

/** "30 s", "5 min", "24 h". */
function durationText(seconds) {
  if (seconds <= 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 360) / 10} h`;
}

/** Rounds up to a value that is easy to read. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]) if (value <= step * power * 1.0001) return step * power;
  return 10 * power;
}

/**
 * `series`: [{name, className, key, read, area, hideZero}]. `key` names a column of update(), `read` the
 * column of its reading if that differs. The areas below the first series and those with `area` are
 * filled. A series with `hideZero` is hidden while all its values are zero. `format` converts a value to
 * text.
 */
export class Chart {
  constructor(title, series, format) {
    this.title = title;
    this.series = series;
    this.format = format;
    this.at = null;  // the sample under the pointer, counted from the end
    this.step = 1;   // the seconds of a sample

    this.root = document.createElement("figure");
    this.root.className = "chart";
    const head = document.createElement("figcaption");
    const heading = document.createElement("span");
    heading.className = "chart-title";
    heading.textContent = title;
    this.readings = document.createElement("span");
    this.readings.className = "readings";
    head.append(heading, this.readings);

    const frame = document.createElement("div");
    frame.className = "chart-frame";
    this.svg = shape("svg", "chart-lines");
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    for (const y of [labelHeight, (labelHeight + height) / 2, height - 0.5]) {
      const line = shape("line", "grid");
      line.setAttribute("x2", width);
      line.setAttribute("y1", y);
      line.setAttribute("y2", y);
      this.svg.append(line);
    }
    // The areas of later series are larger and lie behind.
    this.areas = series.map((each, i) => (i === 0 || each.area ? shape("path", `area ${each.className}`) : null));
    this.svg.append(...this.areas.filter((each) => each !== null).reverse());
    this.marks = shape("g", "marks");
    this.svg.append(this.marks);
    this.lines = series.map((each) => {
      const path = shape("path", `line ${each.className}`);
      this.svg.append(path);
      return path;
    });
    this.cursor = shape("line", "cursor");
    this.cursor.setAttribute("y2", height);
    this.cursor.setAttribute("visibility", "hidden");
    this.svg.append(this.cursor);
    this.top = document.createElement("span");
    this.top.className = "chart-top";
    frame.append(this.svg, this.top);

    const foot = document.createElement("div");
    foot.className = "chart-foot";
    this.begin = document.createElement("span");
    this.end = document.createElement("span");
    foot.append(this.begin, this.end);
    this.root.append(head, frame, foot);

    frame.addEventListener("pointermove", (event) => this.point(event));
    frame.addEventListener("pointerleave", () => this.point(null));
    frame.addEventListener("click", (event) => {
      this.point(event);
      if (this.at !== null && this.at < this.past[this.series[0].key].length) this.onChoose?.(this.at * this.step);
    });
  }

  point(event) {
    if (event === null || !this.span) {
      this.at = null;
    } else {
      const box = this.svg.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      this.at = Math.round((1 - share) * (this.span - 1));
    }
    this.read();
  }

  /**
   * `past`: {key: [number or null, …]}, arrays of equal length whose last element is now. `step`: the
   * seconds between two elements. `marks`: [{ago, level, text}], moments to be marked, in seconds ago.
   * `pinned`: the moment that is read while the pointer is elsewhere, in seconds ago, or null.
   */
  update(past, step = 1, marks = [], pinned = null) {
    this.pinned = pinned === null ? null : Math.max(0, Math.round(pinned / step));
    this.past = past;
    this.step = step;
    const count = past[this.series[0].key].length;
    this.span = Math.max(spanMin, count);
    const highest = Math.max(
      0, ...this.series.flatMap((each) => past[each.key].map((value) => value ?? 0)));
    const top = roundUp(highest);
    this.root.classList.toggle("empty", !(highest > 0));
    this.top.textContent = highest > 0 ? this.format(top) : "";
    this.begin.textContent = `−${durationText(this.span * step)}`;
    this.showMarks(marks);

    this.series.forEach((each, i) => {
      const shown = this.isShown(each) ? past[each.key] : [];
      const drawn = this.path(shown, top);
      this.lines[i].setAttribute("d", drawn.line);
      this.areas[i]?.setAttribute("d", drawn.area);
    });
    this.read();
  }

  showMarks(marks) {
    const shown = marks.filter((each) => each.ago <= this.span * this.step);
    const key = shown.map((each) => `${each.text} ${Math.round(each.ago / this.step)} ${this.span}`).join();
    if (key === this.marksKey) return;
    this.marksKey = key;
    this.marks.replaceChildren(...shown.map((each) => {
      const line = shape("line", "mark-line");
      const x = (width - (each.ago / this.step) * (width / (this.span - 1))).toFixed(1);
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      line.setAttribute("y1", labelHeight);
      line.setAttribute("y2", height);
      line.dataset.level = each.level;
      const title = shape("title", "");
      title.textContent = each.text;
      line.append(title);
      return line;
    }));
  }

  isShown(series) {
    return !series.hideZero || this.past[series.key].some((value) => value > 0);
  }

  path(values, top) {
    const step = width / (this.span - 1);
    const x = (i) => (width - (values.length - 1 - i) * step).toFixed(1);
    const y = (value) => (height - 1 - (value / top) * (height - 1 - labelHeight)).toFixed(1);
    let line = "";
    let area = "";
    let last = null;
    const close = () => {
      if (last !== null) area += `L${x(last)} ${height}Z`;
    };
    values.forEach((value, i) => {
      if (value === null) return;
      if (last !== null && i - last <= gapMax) {
        line += `L${x(i)} ${y(value)}`;
        area += `L${x(i)} ${y(value)}`;
      } else {
        close();
        // A single value needs some length to be visible.
        line += `M${x(i)} ${y(value)}h.1`;
        area += `M${x(i)} ${height}V${y(value)}`;
      }
      last = i;
    });
    close();
    return {line, area};
  }

  read() {
    if (!this.past) return;
    const length = this.past[this.series[0].key].length;
    const chosen = this.at ?? this.pinned;
    const at = chosen !== null && chosen < length ? chosen : null;
    this.cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    this.end.textContent = at === null ? "now" : `${durationText(at * this.step)} ago`;
    if (at !== null) {
      const x = width - at * (width / (this.span - 1));
      this.cursor.setAttribute("x1", x);
      this.cursor.setAttribute("x2", x);
    }
    const texts = [];
    this.readings.replaceChildren(...this.series.filter((each) => this.isShown(each)).map((each) => {
      const values = this.past[each.read ?? each.key];
      const value = values[values.length - 1 - (at ?? 0)];
      const reading = document.createElement("span");
      reading.className = `reading ${each.className}`;
      const name = document.createElement("span");
      name.className = "reading-name";
      name.textContent = each.name;
      const number = document.createElement("b");
      number.textContent = value === null || value === undefined ? "–" : this.format(value);
      texts.push(`${each.name} ${number.textContent}`);
      reading.append(name, " ", number);
      return reading;
    }));
    this.svg.setAttribute("aria-label", `${this.title}: ${texts.join(", ")}`);
  }
}
