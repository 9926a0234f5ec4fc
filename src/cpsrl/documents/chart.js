// Small charts in SVG: lines with bands, hover, zoom and keys. Colours are those of page.css.

const MARGIN = { left: 58, right: 16, top: 12, bottom: 44 };
const ENDS = 640;  // pixels from which on curves have their names at their ends

// A scale has a function, its inverse, and the ticks of a range. "symlog" is linear up to `knee`.
const SCALES = {
  linear: () => ({ to: (v) => v, from: (u) => u, ticks: evenly, first: -Infinity }),
  log: () => ({ to: (v) => v > 0 ? Math.log10(v) : NaN, from: (u) => 10 ** u, ticks: decades, first: Number.MIN_VALUE }),
  symlog: (knee = 1) => ({
    to: (v) => Math.sign(v) * (Math.abs(v) < knee ? Math.abs(v) / knee : 1 + Math.log10(Math.abs(v) / knee)),
    from: (u) => Math.sign(u) * knee * (Math.abs(u) < 1 ? Math.abs(u) : 10 ** (Math.abs(u) - 1)),
    ticks: ([low, high], most) => {
      const far = Math.max(Math.abs(low), Math.abs(high)), sizes = [];
      for (let v = knee; v <= far * 1.0001; v *= 10) sizes.push(v, 3 * v);
      const all = [0, ...sizes, ...sizes.map((v) => -v)].filter((v) => v >= low && v <= high).sort((a, b) => a - b);
      return all.length < 3 ? evenly([low, high], most) : all.length <= 1.6 * most ? all
        : all.filter((v) => v === 0 || Math.abs(Math.log10(Math.abs(v) / knee) % 1) < .1);
    },
    first: -Infinity,
  }),
};

function evenly([low, high], most) {
  const rough = (high - low) / most, size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((f) => f * size >= rough);
  const count = Math.floor(high / step + 1e-9) - Math.ceil(low / step - 1e-9) + 1;
  return Array.from({ length: count }, (_, i) => step * (Math.ceil(low / step - 1e-9) + i));
}

function decades([low, high], most) {
  const first = Math.floor(Math.log10(low)), size = Math.log10(high / low);
  const factors = size > 2.5 ? [1] : size > 1 ? [1, 3] : size > .5 ? [1, 2, 5] : [];
  for (let step = Math.max(1, Math.ceil(size / most)); step > 0; step--) {
    const found = [];
    for (let k = first; k <= Math.log10(high); k += step)
      for (const f of factors) if (f * 10 ** k >= low && f * 10 ** k <= high) found.push(f * 10 ** k);
    if (found.length > 1) return found;
  }
  return evenly([low, high], most);
}

// Places at least `gap` apart, in the order of `heights` and as near to them as can be: neighbours
// that are too near are pooled around their mean.
function spread(heights, gap, most) {
  const pools = [];
  for (const h of heights) {
    pools.push({ sum: h, n: 1 });
    for (let i = pools.length - 1; i > 0; i--) {
      const [a, b] = [pools[i - 1], pools[i]];
      if (b.sum / b.n - a.sum / a.n >= gap * (a.n + b.n) / 2) break;
      pools.splice(i - 1, 2, { sum: a.sum + b.sum, n: a.n + b.n });
    }
  }
  const placed = pools.flatMap(({ sum, n }) => Array.from({ length: n }, (_, i) => sum / n + gap * (i - (n - 1) / 2)));
  const over = Math.max(0, placed[placed.length - 1] - most);
  return placed.map((v, i) => Math.max(v - over, (i + .5) * gap));
}

function swatch(series) {
  const drawn = make(null, "svg", { class: "swatch", viewBox: "0 0 30 8", "aria-hidden": "true" });
  make(drawn, "path", { d: "M0 4H30", style: stroke(series, 2.4) });
  return drawn;
}

const stroke = (series, width) => `fill:none;stroke:${series.colour};stroke-width:${width};` +
  `stroke-dasharray:${(series.dash || []).map((d) => d * width).join(" ") || "none"}`;

// options: series() gives [{name, colour, dash, x, y, low, high, runs: [{name, x, y}]}] to be drawn;
// bounds: [least, most] beyond which bands are cut; marks, heights: [[value, text]] of the axes;
// scales: [x, y], of SCALES; labels: [x, y]; dots: the colours of the points of a series;
// strokes(): [[x, text]] above the x axis; empty: what is said where there is nothing to draw;
// height: in pixels; ends: whether curves have their names at their ends; limit: the range of x;
// say(y): a value in words.
class Chart {
  constructor(host, options) {
    Object.assign(this, { host, scales: [SCALES.linear(), SCALES.linear()], view: null, cursor: null, bounds: null,
      strokes: () => [], empty: "No agent is switched on.", ends: false, now: null, say: exact }, options);
    host.tabIndex = 0;
    this.frame = make(host, "div", { class: "frame" });
    if (this.height) this.frame.style.minHeight = `${this.height}px`;
    this.tip = make(host, "div", { class: "tip", role: "status", "aria-live": "polite", hidden: "" });
    host.addEventListener("keydown", (event) => this.key(event));
    this.frame.addEventListener("pointerdown", (event) => this.begin(event));
    this.frame.addEventListener("pointermove", (event) => this.move(event));
    this.frame.addEventListener("pointerup", (event) => this.end(event));
    this.frame.addEventListener("pointerleave", () => { if (!this.drag) this.point(null); });
    this.frame.addEventListener("dblclick", () => this.look(null));
    new ResizeObserver(() => { if (host.clientWidth !== this.width) this.draw(); }).observe(host);
    this.draw();
  }

  look(view) {
    this.view = view;
    this.cursor = null;
    this.draw();
    this.host.dispatchEvent(new CustomEvent("view", { detail: this.limits }));
  }

  // The middle of the axis, or the cursor, stays where it is; y is fitted to what is seen of x.
  zoom(factor) {
    const { to, from } = this.scales[0], [a, b] = this.limits[0].map(to), whole = this.range()[0].map(to);
    const middle = this.cursor === null ? (a + b) / 2 : to(this.cursor);
    const next = [Math.max(whole[0], middle + (a - middle) * factor), Math.min(whole[1], middle + (b - middle) * factor)];
    const all = next[0] <= whole[0] && next[1] >= whole[1];
    this.look(all ? null : { x: next.map(from) });
  }

  // What there is to see: the range of x, and that of y between the limits of x.
  range(x = null) {
    const [along, up] = this.scales, some = this.drawn, seen = [], centre = [], log = up.first > 0;
    const all = some.flatMap((s) => s.x).filter((v) => v >= along.first);
    x = x || this.limit || [along.first > 0 || this.marks ? Math.min(...all) : 0, Math.max(...all)];
    if (!(x[1] > x[0])) x = along.first > 0 ? [x[0] / 2, x[0] * 2] : [x[0] - 1, x[0] + 1];
    const [least, most] = this.bounds || [-Infinity, Infinity];
    for (const s of some) {
      for (const one of s.runs || [s]) one.x.forEach((v, i) => {
        if (v < x[0] || v > x[1]) return;
        for (const [values, cut] of [[one.y, false], [s.runs ? null : s.low, true], [s.runs ? null : s.high, true]]) {
          const y = values ? values[i] : null;
          if (y === null || y < up.first) continue;
          if (!cut) centre.push(y);
          seen.push(cut ? Math.min(Math.max(y, least), most) : y);
        }
      });
    }
    if (this.heights) seen.push(...this.heights.map(([v]) => v));
    if (!seen.length) return [x, log ? [1, 10] : [0, 1]];
    let low = Math.min(...seen), high = Math.max(...seen);
    if (log) return [x, [Math.max(low, Math.min(...centre) / 2) / 1.1, high * 1.15]];
    if (!this.view && low > 0 && !this.heights) low = 0;
    const [a, b] = [low, high].map(up.to), air = .05 * (b - a || Math.abs(b) || 1);
    return [x, [low === 0 && !this.heights ? 0 : up.from(a - air), up.from(b + air)]];
  }

  draw() {
    const width = this.host.clientWidth;
    if (width < 2 * (MARGIN.left + MARGIN.right)) return;
    this.width = width;
    const height = this.tall = this.height || Math.round(Math.min(Math.max(width * .42, 260), 400));
    this.drawn = this.series();
    this.tip.hidden = true;
    this.frame.replaceChildren();
    if (!this.drawn.length) {
      make(this.frame, "p", { class: "note empty" }, this.empty);
      return;
    }
    const names = this.drawn.map((s) => s.name), longest = Math.min(Math.max(...names.map((name) => name.length)), 30);
    this.right = this.ends && width >= ENDS && names.length * 15 < height - 40 ? 7.7 * longest + 38 : MARGIN.right;
    this.left = this.heights ? 30 + 6.9 * Math.max(...this.heights.map(([, text]) => text.length)) : MARGIN.left;
    const inner = [width - this.left - this.right, height - MARGIN.top - MARGIN.bottom];
    const [x, y] = this.range(this.view && this.view.x), [along, up] = this.scales;
    const limits = this.limits = [x, this.view && this.view.y ? this.view.y : y];
    const [[x0, x1], [y0, y1]] = limits.map((pair, i) => pair.map(this.scales[i].to));
    this.px = (v) => this.left + (along.to(v) - x0) / (x1 - x0) * inner[0];
    this.py = (v) => MARGIN.top + (1 - (up.to(v) - y0) / (y1 - y0)) * inner[1];
    this.value = (px, py) => [along.from(x0 + (px - this.left) / inner[0] * (x1 - x0)),
      up.from(y0 + (1 - (py - MARGIN.top) / inner[1]) * (y1 - y0))];
    const svg = this.svg = make(this.frame, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const clip = `clip-${Chart.count = (Chart.count || 0) + 1}`;
    make(make(make(svg, "defs"), "clipPath", { id: clip }), "rect", { x: this.left - 5, y: MARGIN.top - 5, width: inner[0] + 10, height: inner[1] + 10 });
    this.axes(svg, limits, inner);
    const area = make(svg, "g", { "clip-path": `url(#${clip})` });
    for (const s of this.drawn) if (!s.runs && s.low)
      make(area, "path", { class: "band", d: this.band(s), style: `fill:${s.colour}` });
    for (const s of this.drawn) {
      if (s.runs) make(area, "path", { class: "run", d: s.runs.map((run) => this.path(run.x, run.y)).join(""), style: stroke({ colour: s.colour }, 1) });
      else make(area, "path", { class: "curve", "data-name": s.name, d: this.path(s.x, s.y), style: stroke(s, s.thin ? 1.3 : 2) });
      if (s.dots) s.x.forEach((v, i) => make(area, "circle", { cx: this.px(v), cy: this.py(s.y[i]), r: 4.5, style: `fill:${s.dots[i]}` }));
    }
    if (this.right > MARGIN.right) this.name(svg, inner);
    this.over = make(svg, "g", { class: "over" });
    this.hand = make(svg, "path", { class: "now" });
    this.mark(this.now);
    if (this.cursor !== null) this.point(this.cursor);
  }

  // A line that stays at a place of x.
  mark(x) {
    this.now = x;
    if (x !== null && this.hand) this.hand.setAttribute("d", `M${this.px(x)} ${MARGIN.top}V${this.tall - MARGIN.bottom}`);
  }

  // The name of every curve at its end, or as near to it as the others allow.
  name(svg, [w, h]) {
    const x = this.left + w, [low, high] = this.limits[0];
    const ends = this.drawn.map((s) => {
      const own = (s.runs || [s]).map((one) => one.x.reduce((best, v, i) => v >= low && v <= high && one.y[i] !== null ? one.y[i] : best, null));
      const there = own.filter((v) => v !== null && Number.isFinite(this.py(v)));
      return { s, y: there.length ? this.py(there.reduce((a, b) => a + b) / there.length) : NaN };
    }).filter(({ y }) => Number.isFinite(y) && y >= MARGIN.top - 3 && y <= MARGIN.top + h + 3).sort((a, b) => a.y - b.y);
    spread(ends.map(({ y }) => y), 15, MARGIN.top + h).forEach((at, i) => {
      const { s, y } = ends[i], full = s.name, text = full.length > 30 ? `${full.slice(0, 29)}…` : full;
      make(svg, "path", { d: `M${x + 2} ${y}L${x + 12} ${at}H${x + 24}`, style: stroke(s, 1.6) });
      make(make(svg, "text", { class: "who", x: x + 28, y: at + 4 }, text), "title", {}, full);
    });
  }

  axes(svg, [x, y], [w, h]) {
    const left = this.left, marks = this.marks || this.scales[0].ticks(x, Math.max(2, Math.floor(w / 90))).map((v) => [v, short(v)]);
    let last = -Infinity;
    for (const [v, text] of marks) {
      const at = this.px(v);
      if (at < left - 1 || at > left + w + 1) continue;
      make(svg, "path", { class: "grid", d: `M${at} ${MARGIN.top}v${h}` });
      const half = 3.6 * text.length + 3;
      if (at - half < last) continue;
      last = at + half;
      const over = at + half - 3 > this.width;
      make(svg, "text", { x: over ? this.width : at, y: MARGIN.top + h + 17, "text-anchor": over ? "end" : "middle" }, text);
    }
    let lowest = Infinity;
    for (const [v, text] of this.heights || this.scales[1].ticks(y, Math.max(3, Math.floor(h / 55))).map((v) => [v, short(v)])) {
      const at = this.py(v);
      make(svg, "path", { class: "grid", d: `M${left} ${at}h${w}` });
      if (lowest - at < 13) continue;
      lowest = at;
      make(svg, "text", { x: left - 8, y: at + 4, "text-anchor": "end" }, text);
    }
    for (const [v, text] of this.strokes()) {
      const at = this.px(v);
      if (at < left - 1 || at > left + w + 1) continue;
      make(make(svg, "path", { class: "stroke", d: `M${at} ${MARGIN.top + h}v-9` }), "title", {}, text);
    }
    make(svg, "path", { class: "axis", d: `M${left} ${MARGIN.top}v${h}h${w}` });
    make(svg, "text", { class: "name", x: left + w / 2, y: this.tall - 6, "text-anchor": "middle" }, this.labels[0]);
    make(svg, "text", { class: "name", transform: `translate(13 ${MARGIN.top + h / 2}) rotate(-90)`, "text-anchor": "middle" }, this.labels[1]);
  }

  path(xs, ys) {
    let pen = "M", d = "";
    xs.forEach((v, i) => {
      const x = this.px(v), y = ys[i] === null ? NaN : this.py(ys[i]);
      if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = "M"; return; }
      d += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = "L";
    });
    return d;
  }

  band(s) {
    const bottom = this.limits[1][0], log = this.scales[1].first > 0, there = s.x.map((_, i) => i).filter((i) =>
      s.low[i] !== null && s.high[i] !== null && Number.isFinite(this.px(s.x[i])) && (!log || s.high[i] > 0));
    if (there.length < 2) return "";
    const up = there.map((i) => `${this.px(s.x[i]).toFixed(1)} ${this.py(s.high[i]).toFixed(1)}`);
    const down = there.reverse().map((i) =>
      `${this.px(s.x[i]).toFixed(1)} ${this.py(log ? Math.max(s.low[i], bottom / 2) : s.low[i]).toFixed(1)}`);
    return `M${up.join("L")}L${down.join("L")}Z`;
  }

  // Show the values at the place of x nearest to `x`; of single runs, those of the nearest run.
  point(x, py = null) {
    this.over && this.over.replaceChildren();
    this.cursor = x;
    this.tip.hidden = x === null;
    if (x === null || !this.drawn.length) return;
    const near = (xs) => xs.reduce((best, v, i) => Math.abs(this.px(v) - this.px(x)) < Math.abs(this.px(xs[best]) - this.px(x)) ? i : best, 0);
    let lines = [];
    for (const s of this.drawn) for (const one of s.runs || [s]) {
      const i = near(one.x);
      if (one.y[i] === null || s.level) { if (s.level) lines.push({ s, i: 0, y: s.y[0], x: null, name: s.name }); continue; }
      lines.push({ s, i, x: one.x[i], y: one.y[i], name: s.runs ? `${s.name}, run ${one.name}` : s.name, run: s.runs ? one : null });
    }
    const placed = lines.filter((l) => l.x !== null);
    if (!placed.length) { this.tip.hidden = true; return; }
    const here = placed.reduce((best, l) => Math.abs(this.px(l.x) - this.px(x)) < Math.abs(this.px(best.x) - this.px(x)) ? l : best).x;
    lines = lines.filter((l) => l.x === null || l.x === here);
    const run = lines.some((l) => l.run);
    if (run) {
      const middle = py === null ? MARGIN.top : py;
      const away = (l) => Math.abs(this.py(l.y) - middle) || 0;
      lines = [lines.reduce((best, l) => away(l) < away(best) ? l : best)];
      make(this.over, "path", { d: this.path(lines[0].run.x, lines[0].run.y), style: stroke(lines[0].s, 2.4) });
    }
    lines.sort((a, b) => b.y - a.y);
    make(this.over, "path", { class: "cursor", d: `M${this.px(here)} ${MARGIN.top}V${this.tall - MARGIN.bottom}` });
    for (const l of lines) if (l.x !== null && Number.isFinite(this.py(l.y)))
      make(this.over, "circle", { cx: this.px(l.x), cy: this.py(l.y), r: 4, style: `fill:${l.s.dots ? l.s.dots[l.i] : l.s.colour}` });
    const mark = this.marks && this.marks.find(([v]) => v === here);
    this.tip.replaceChildren(make(null, "strong", {}, `${this.labels[0]} ${mark ? mark[1] : exact(here)}`));
    const table = make(this.tip, "table");
    for (const l of lines) {
      const row = make(table, "tr"), low = run ? null : l.s.low && l.s.low[l.i];
      make(row, "td").append(swatch(l.s), ` ${l.name}`);
      make(row, "td", { class: "value" }, this.say(l.y));
      make(row, "td", {}, low === null || low === undefined ? "" : `[${exact(low)}, ${exact(l.s.high[l.i])}]`);
    }
    this.cursor = here;
    const right = this.px(here) > this.width / 2;
    this.tip.style.left = right ? "" : `${this.px(here) + 14}px`;
    this.tip.style.right = right ? `${this.width - this.px(here) + 14}px` : "";
  }

  key(event) {
    const places = [...new Set(this.drawn.flatMap((s) => (s.runs ? s.runs[0] : s).x))].sort((a, b) => a - b)
      .filter((v) => v >= this.limits[0][0] && v <= this.limits[0][1]);
    const at = this.cursor === null ? -1 : places.indexOf(this.cursor), step = event.shiftKey ? 10 : 1;
    const go = (i) => this.point(places[Math.min(Math.max(i, 0), places.length - 1)]);
    const actions = {
      ArrowLeft: () => go(at < 0 ? places.length - 1 : at - step), ArrowRight: () => go(at + step),
      Home: () => go(0), End: () => go(places.length - 1), Escape: () => this.point(null),
      "+": () => this.zoom(.5), "=": () => this.zoom(.5), "-": () => this.zoom(2), 0: () => this.look(null),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  place(event) {
    const box = this.frame.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  begin(event) {
    if (event.button || event.pointerType === "touch" || !this.svg) return;
    this.drag = this.place(event);
    this.frame.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (!this.drawn.length) return;
    const [x, y] = this.place(event);
    if (!this.drag) { this.point(this.value(x, y)[0], y); return; }
    const [a, b] = this.drag;
    this.over.replaceChildren();
    this.tip.hidden = true;
    make(this.over, "rect", { class: "zoom", x: Math.min(a, x), y: Math.min(b, y), width: Math.abs(a - x), height: Math.abs(b - y) });
  }

  end(event) {
    if (!this.drag) { this.move(event); return; }
    const [a, b] = this.drag, [x, y] = this.place(event);
    this.drag = null;
    if (Math.abs(a - x) < 8) { this.move(event); return; }
    const one = this.value(Math.min(a, x), Math.max(b, y)), other = this.value(Math.max(a, x), Math.min(b, y));
    const whole = this.range()[0], view = { x: [Math.max(one[0], whole[0]), Math.min(other[0], whole[1])] };
    if (Math.abs(b - y) >= 12) view.y = [one[1], other[1]];
    this.look(view);
  }
}
