const data = JSON.parse(document.getElementById("data").textContent);
const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };
const S = data.states.length, A = data.actions.length, PARTS = 250, RECENT = 60, POINTS = 1000;
const find = (query, inside = document) => inside.querySelector(query);

function unpacked(column) {
  const bytes = Uint8Array.from(atob(column.bytes), c => c.charCodeAt(0));
  return new KINDS[column.kind](bytes.buffer);
}

function element(tag, attributes = {}, ...children) {
  const made = make(null, tag, attributes);
  made.append(...children);
  return made;
}

/* Steps that show some curves in about POINTS points: the lowest and the highest of each stretch. */
function thinned(curves) {
  const n = curves[0].length, kept = new Set([0, n - 1]), stretch = Math.ceil(2 * n * curves.length / POINTS);
  if (n <= POINTS) return Array.from({ length: n }, (_, i) => i);
  for (const curve of curves) for (let i = 0; i < n; i += stretch) {
    let low = i, high = i;
    for (let k = i; k < Math.min(i + stretch, n); k++) {
      if (curve[k] < curve[low]) low = k;
      if (curve[k] > curve[high]) high = k;
    }
    kept.add(low).add(high);
  }
  return [...kept].sort((a, b) => a - b);
}

/* The states named at the axis, all or some round ones of them; by number where names are long. */
const named = data.states.every(name => name.length <= 8);
const heights = (S <= 8 ? data.states.map((_, s) => s) : evenly([0, S - 1], 6).filter(s => s % 1 === 0)).map(s => [s, named ? data.states[s] : String(s)]);

/* As the Python side writes numbers: four digits, or one decimal where they are large. */
function number(value) {
  if (Math.abs(value) >= 100) return value.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  return String(Number(value.toPrecision(4)));
}

const worse = (s, a) => data.worse[s * A + a] === 1;
const whole = value => value.toLocaleString("en-US");
const steps = n => `${whole(n)} ${n === 1 ? "step" : "steps"}`;

/* The last place of a sorted list whose entry is at most x; -1 if there is none. */
function last(sorted, x) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= x) low = middle + 1; else high = middle;
  }
  return low - 1;
}

class Film {
  constructor(columns, index) {
    Object.assign(this, columns);
    this.place = document.getElementById(`film${index}`);
    this.states = unpacked(columns.states);
    this.actions = unpacked(columns.actions);
    const codes = unpacked(columns.rewards);
    this.paidAt = columns.paid ? t => columns.paid[codes[t]] : t => codes[t];
    let begun = 0, sum = 0;
    this.shown = 0;
    this.begun = columns.begun.map(more => (begun += more));
    this.regret = new Float64Array(data.steps + 1);
    for (let t = 0; t < data.steps; t++) {
      sum += this.paidAt(t);
      this.regret[t + 1] = this.gain * (t + 1) - sum;
    }
    this.looked = {};
    for (const [name, column] of Object.entries(columns.tables)) this.looked[name] = unpacked(column);
    this.look = { name: this.label, colour: `var(--c${this.slot % 11})`, dash: data.dashes[this.slot % 6] };
    find("h2", this.place).prepend(swatch(this.look), " ");
    const entry = make(find(".legend"), "span");
    entry.append(swatch(this.look), ` ${this.label} `);
    this.readout = make(entry, "b", { class: "regret" });
    const x = thinned([this.states]), all = { ...this.look, dash: [], thin: true, x, y: x.map(t => this.states[t]) };
    const common = { heights, labels: ["step", named ? "state" : "number of the state"], say: s => data.states[s] };
    const marks = this.begun.map((step, k) => [step - 1, `model ${whole(k + 1)}, drawn at step ${whole(step)}`]);
    this.chart = new Chart(find(".chart .canvas", this.place), { ...common, series: () => [all], strokes: () => marks, height: 210 });
    this.last = [0, RECENT];
    this.near = new Chart(find(".recent", this.place), {
      ...common, height: 190, strokes: () => marks.filter(([t]) => t >= this.last[0] && t <= this.last[1]),
      series: () => {
        const steps = Array.from({ length: this.shown - this.last[0] + 1 }, (_, i) => this.last[0] + i);
        return [{ ...this.look, dash: [], x: steps, y: steps.map(t => this.states[t]) }];
      },
    });
  }

  /* The numbers of look k in one of its tables. */
  at(name, k) {
    const table = this.looked[name];
    if (!table || k < 0) return null;
    const size = table.length / this.numbers.length;
    return table.subarray(k * size, (k + 1) * size);
  }

  show(t, state, action) {
    const episode = last(this.begun, Math.max(t, 1)), look = last(this.steps, Math.max(t, 1));
    const here = this.states[t], policy = this.at("policy", look);
    this.readout.textContent = number(this.regret[t]);
    this.chart.mark(t);
    this.words(t, here, episode, look, policy);
    this.world(here, policy);
    this.recent(t);
    this.believed(here, look, policy);
    this.posterior(t, look, state, action);
  }

  words(t, here, episode, look, policy) {
    const said = [`In state ${data.states[here]} after ${steps(t)}.`];
    if (episode >= 0) {
      const ago = Math.max(t, 1) - this.begun[episode];
      said.push(`Model ${whole(episode + 1)}, drawn at step ${whole(this.begun[episode])}, ${steps(ago)} ago.`);
    }
    if (look >= 0) {
      const wrong = data.best.filter((_, s) => worse(s, policy[s])).length;
      said.push(`In truth its policy earns ${number(this.earns[look])} a step, the best one ${number(this.gain)}` +
        (wrong ? `; it does not do best in ${wrong} of ${S} states.` : "; it is a best one."));
      if (this.numbers[look] !== episode + 1) said.push(`(Policy and beliefs: those of model ${whole(this.numbers[look])}.)`);
    }
    find(".here", this.place).textContent = said.join(" ");
  }

  world(here, policy) {
    const cells = data.places.map(([row, column], s) => {
      const names = [s === here && "at", data.pays.includes(s) && "pays", policy && worse(s, policy[s]) && "wrong"];
      const does = policy ? data.actions[policy[s]] : "";
      return element("span", {
        class: names.filter(Boolean).join(" "), style: `grid-area:${row + 1}/${column + 1}`,
        title: `${data.states[s]} ${does}`,
      }, policy ? data.symbols[policy[s]] : String(s));
    });
    find(".world", this.place).replaceChildren(...cells);
  }

  recent(t) {
    const first = Math.max(0, t - RECENT);
    this.last = [first, first + RECENT];
    Object.assign(this.near, { limit: this.last, view: null, cursor: null });
    this.shown = t;
    this.near.draw();
  }

  believed(here, look, policy) {
    const place = find(".believed", this.place);
    if (!policy) return place.replaceChildren(element("p", { class: "note" }, "It draws no models."));
    find(".model", this.place).textContent = `${whole(this.numbers[look])}, drawn at step ${whole(this.steps[look])}, `;
    const value = this.at("value", look), sure = this.at("optimal", look);
    const discounts = value && this.gammas[this.gamma[look]] !== "nan";
    const head = (text, span = 1) => element("th", { scope: span > 1 ? "colgroup" : "col", colspan: span }, text);
    const groups = [head("", 2)], heads = [head("state"), head("does (best)")];
    if (value) {
      groups.push(head(discounts ? "value" : "bias", 2));
      heads.push(head("of model"), head("true"));
    }
    if (sure) {
      groups.push(head("P(best)", A));
      heads.push(...data.actions.map(a => head(a)));
    }
    const table = element("table", {},
      element("thead", {}, element("tr", {}, ...groups), element("tr", {}, ...heads)));
    const rows = data.states.map((name, s) => {
      const same = !worse(s, policy[s]), does = data.actions[policy[s]];
      const row = element("tr", s === here ? { class: "at" } : {}, element("th", { scope: "row" }, name),
        element("td", same ? {} : { class: "wrong" }, same ? does : `${does} (${data.actions[data.best[s]]})`));
      if (value) row.append(element("td", {}, number(value[s])), element("td", {}, number(this.truths[this.gamma[look]][s])));
      if (sure) for (let a = 0; a < A; a++) {
        const share = sure[s * A + a] / PARTS;
        row.append(element("td", { class: "sure", style: `--share:${100 * share}%` }, `${Math.round(100 * share)}%`));
      }
      return row;
    });
    table.append(element("tbody", {}, ...rows));
    place.replaceChildren(table);
  }

  posterior(t, look, state, action) {
    find(".pair", this.place).textContent = `${data.actions[action]} in ${data.states[state]}`;
    const place = find(".posterior", this.place), row = state * A + action;
    const seen = new Map();
    let visits = 0, paid = 0;
    for (let i = 0; i < t; i++) if (this.states[i] === state && this.actions[i] === action) {
      visits++; paid += this.paidAt(i);
      seen.set(this.states[i + 1], (seen.get(this.states[i + 1]) || 0) + 1);
    }
    const said = element("p", {}, visits ? `Done ${whole(visits)} times so far.` : "Not done so far.");
    const rewards = this.at("rewards", look), shares = this.at("successors", look);
    if (!rewards) return place.replaceChildren(said);
    const table = element("table", {}, element("thead", {}, element("tr", {},
      ...["", "95% of the posterior", "median", "seen", "true"].map(h => element("th", { scope: "col" }, h)))));
    const body = element("tbody"), pairs = S * A;
    const [middle, low, high] = [0, 1, 2].map(k => rewards[k * pairs + row]);
    const all = [...data.rewards, low, high], least = Math.min(...all), width = Math.max(...all) - least || 1;
    const scaled = x => (x - least) / width;
    body.append(this.line("reward", { low: scaled(low), high: scaled(high), middle: scaled(middle), truth: scaled(data.rewards[row]) },
      [number(middle), visits ? number(paid / visits) : "", number(data.rewards[row])]));
    const each = data.rows.length + pairs;
    let rest = 1, counted = 0;
    const entry = (name, k, observed, truth) => {
      const [m, l, h] = [0, 1, 2].map(i => shares[i * each + k] / PARTS);
      const percent = x => `${Math.round(100 * x)}%`;
      body.append(this.line(name, { low: l, high: h, middle: m, truth },
        [percent(m), visits ? percent(observed / visits) : "", percent(truth)]));
    };
    data.rows.forEach((r, k) => {
      if (r !== row) return;
      const to = data.next[k];
      rest -= data.true[k]; counted += seen.get(to) || 0;
      entry(`to ${data.states[to]}`, k, seen.get(to) || 0, data.true[k]);
    });
    entry("elsewhere", data.rows.length + row, visits - counted, Math.max(0, Math.round(1e4 * rest) / 1e4));
    table.append(body);
    place.replaceChildren(said, element("div", { class: "wide" }, table));
  }

  line(name, marks, texts) {
    return element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, meter(marks)),
      ...texts.map(text => element("td", {}, text)));
  }
}

/* A bar from low to high, with a tick for the truth and one for the median. */
function meter({ low, high, middle, truth }) {
  const made = element("span", { class: "meter" });
  made.append(element("i", { style: `left:${100 * low}%;width:${Math.max(100 * (high - low), 1)}%` }));
  made.append(element("u", { style: `left:calc(${100 * middle}% - 1px)` }));
  made.append(element("b", { style: `left:calc(${100 * truth}% - 1px)` }));
  return made;
}

const films = data.films.map((columns, i) => new Film(columns, i));
const [slider, play, speed, state, action, now] = ["step", "play", "speed", "state", "action", "now"].map(id => document.getElementById(id));
const along = thinned(films.map(film => film.regret));
const regrets = new Chart(find("main > section .chart .canvas"), {
  series: () => films.map(film => ({ ...film.look, x: along, y: along.map(t => film.regret[t]) })),
  labels: ["step", "regret"], ends: true, height: 300,
});

function show() {
  const t = Number(slider.value);
  now.textContent = `step ${whole(t)} of ${whole(data.steps)}`;
  regrets.mark(t);
  for (const film of films) film.show(t, Number(state.value), Number(action.value));
}

function go(t) {
  slider.value = Math.max(0, Math.min(data.steps, t));
  show();
}

let before = null;
function tick(time) {
  if (play.getAttribute("aria-pressed") !== "true") return;
  if (before === null) before = time;
  const taken = Math.floor((time - before) * Number(speed.value) / 1000);
  if (taken > 0) {
    before += taken * 1000 / Number(speed.value);
    go(Number(slider.value) + taken);
  }
  if (Number(slider.value) >= data.steps) pressed(false);
  requestAnimationFrame(tick);
}

function pressed(on) {
  play.setAttribute("aria-pressed", String(on));
  play.textContent = on ? "pause" : "play";
  before = null;
  if (on && Number(slider.value) >= data.steps) go(0);
  if (on) requestAnimationFrame(tick);
}

function toModel(forward) {
  const t = Number(slider.value), begun = [...new Set(films.flatMap(film => film.begun))].sort((a, b) => a - b);
  const k = forward ? last(begun, t) + 1 : last(begun, t - 1);
  if (k >= 0 && k < begun.length) go(begun[k]);
}

slider.addEventListener("input", show);
state.addEventListener("change", show);
action.addEventListener("change", show);
play.addEventListener("click", () => pressed(play.getAttribute("aria-pressed") !== "true"));
find("#next").addEventListener("click", () => toModel(true));
find("#back").addEventListener("click", () => toModel(false));
document.addEventListener("keydown", event => {
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.target.matches("select, input")) return;
  const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (move) { go(Number(slider.value) + (event.shiftKey ? 100 : 1) * move); event.preventDefault(); }
  if (event.key === " " && !event.target.matches("button")) { pressed(play.getAttribute("aria-pressed") !== "true"); event.preventDefault(); }
});
slider.value = data.steps;
show();
