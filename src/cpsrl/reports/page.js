const data = JSON.parse(document.getElementById("data").textContent);
const off = new Set(), charts = [];
const colour = (slot) => `var(--c${slot % 11})`;
const agents = data.agents.map(([name, slot]) => ({ name, colour: colour(slot), dash: data.dashes[slot % 6] }));
const on = (place) => place.agents.map((agent, row) => [agent, row]).filter(([agent]) => !off.has(agent));

const SERIES = {
  regret: (place, show) => on(place).map(([agent, row]) => {
    const own = place.regret[row], some = { ...agents[agent], x: place.times };
    if (show === "runs")
      return { ...some, runs: own.runs.map((y, i) => ({ name: own.seeds[i], x: place.at, y })) };
    const [y, low, high] = own[show];
    return { ...some, y, low, high };
  }),
  small: (place) => SERIES.regret(place, "mean"),
  resamples: (place) => on(place).map(([agent, row]) => ({ ...agents[agent], x: place.times, y: place.resamples[row] })),
  sweep: (sweep) => sweep.lines.filter((line) => !off.has(line.agent)).map((line) => ({
    name: line.name, ...(line.agent === null ? { colour: "var(--soft)" } : agents[line.agent]), ...line,
    thin: line.level, dots: line.level ? null : line.who.map((who) => who === null ? agents[line.agent].colour : agents[who].colour),
  })),
};

function lines(figure, host) {
  const { kind, place } = figure.dataset, source = kind === "sweep" ? data.sweeps[place] : data.places[place];
  const chosen = (name) => { const input = figure.querySelector(`input[data-choice=${name}]:checked`); return input && input.value; };
  const scales = () => {
    const log = SCALES.log(), linear = SCALES.linear(), wanted = kind === "small" ? source.scale : chosen("scale");
    if (kind === "sweep") return [source.log ? log : linear, log];
    return wanted === "log" ? [log, log] : [linear, wanted === "symlog" ? SCALES.symlog(source.knee) : linear];
  };
  const chart = new Chart(host, {
    series: () => SERIES[kind](source, chosen("show")), scales: scales(), marks: source.marks,
    labels: { sweep: [source.option, "final regret"], resamples: ["step", "resamplings"] }[kind] || ["step", "regret"],
    bounds: kind === "regret" || kind === "small" ? source.bounds : null, ends: kind !== "small", height: kind === "small" ? 190 : null,
  });
  charts.push(chart);
  const reset = figure.querySelector("[data-do=reset]");
  host.addEventListener("view", () => { if (reset) reset.disabled = chart.view === null; });
  for (const input of figure.querySelectorAll("input[data-choice]"))
    input.addEventListener("change", () => { chart.scales = scales(); chart.look(null); });
  const actions = { in: () => chart.zoom(.5), out: () => chart.zoom(2), reset: () => chart.look(null) };
  for (const button of figure.querySelectorAll("button[data-do]"))
    button.addEventListener("click", actions[button.dataset.do]);
}

// One strip a row: a dot for every run, a bar from quartile to quartile, a ring at the median.
function strips(figure, host) {
  const place = data.places[figure.dataset.place], { knee } = place, { to: bent, ticks } = SCALES.symlog(knee);
  const draw = () => {
    const width = host.clientWidth, rows = on(place), row = 48, height = rows.length * row + 40;
    host.replaceChildren();
    if (!width || !rows.length) return;
    const finals = (r) => place.regret[r].finals;
    const every = place.agents.flatMap((_, r) => finals(r)), ends = [Math.min(0, ...every), Math.max(knee, ...every)].map(bent);
    const air = .03 * (ends[1] - ends[0]), left = 8, inner = width - 2 * left;
    const px = (v) => left + (bent(v) - ends[0] + (ends[0] < 0 ? air : 0)) / (ends[1] - ends[0] + air * (ends[0] < 0 ? 2 : 1)) * inner;
    const svg = make(host, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": host.getAttribute("aria-label") });
    let last = -Infinity;
    const seen = [Math.min(0, ...every), Math.max(knee, ...every)];
    for (const v of ticks([seen[0] * 1.2, seen[1] * 1.2], Math.max(2, Math.floor(width / 80)))) {
      const x = px(v), half = 3.7 * short(v).length + 4;
      if (x < left - 1 || x > width - left + 1) continue;
      make(svg, "path", { class: "grid", d: `M${x} 4V${height - 36}` });
      if (x - half < last || x + half > width + 6) continue;
      last = x + half;
      make(svg, "text", { x: Math.max(x, half - 4), y: height - 20, "text-anchor": "middle" }, short(v));
    }
    make(svg, "text", { class: "name", x: width / 2, y: height - 3, "text-anchor": "middle" }, `regret after ${exact(place.times[place.times.length - 1])} steps`);
    rows.forEach(([agent, r], i) => {
      const y = i * row + 36, own = place.regret[r], [low, middle, high] = own.quartiles, style = `fill:${agents[agent].colour}`;
      make(svg, "text", { class: "who", x: left, y: y - 17 }, agents[agent].name);
      make(svg, "rect", { x: px(low), y: y - 3, width: Math.max(px(high) - px(low), 1), height: 6, style });
      finals(r).forEach((v, k) => {
        const dot = make(svg, "circle", { class: "dot", cx: px(v), cy: y + ((k * 37) % 15 - 7), r: 3.2, style });
        make(dot, "title", {}, `${agents[agent].name}, run ${own.seeds[k]}: ${exact(v)}`);
      });
      const ring = make(svg, "circle", { class: "ring", cx: px(middle), cy: y, r: 5, style: `stroke:${agents[agent].colour}` });
      make(ring, "title", {}, `${agents[agent].name}: median ${exact(middle)}, quartiles ${exact(low)} and ${exact(high)}`);
    });
  };
  new ResizeObserver(draw).observe(host);
  charts.push({ draw });
}

for (const figure of document.querySelectorAll("figure.chart")) {
  const host = figure.querySelector(".canvas");
  (figure.dataset.kind === "finals" ? strips : lines)(figure, host);
}

// The switches of agents; those of an agent, wherever they are, go together.
for (const legend of document.querySelectorAll(".legend")) {
  const shown = legend.dataset.place === "" ? agents.map((_, i) => i) : data.places[legend.dataset.place].agents;
  const boxes = make(legend, "fieldset"), all = make(legend, "fieldset");
  for (const agent of shown) {
    const label = make(boxes, "label");
    make(label, "input", { type: "checkbox", checked: "", "data-agent": agent });
    label.append(swatch(agents[agent]));
    make(label, "span", {}, agents[agent].name);
  }
  for (const [key, text] of [["on", "All"], ["off", "None"]]) make(all, "button", { type: "button", "data-all": key }, text);
}

function show() {
  for (const box of document.querySelectorAll("input[data-agent]")) box.checked = !off.has(Number(box.dataset.agent));
  for (const chart of charts) chart.draw();
}
for (const box of document.querySelectorAll("input[data-agent]"))
  box.addEventListener("change", () => { off[box.checked ? "delete" : "add"](Number(box.dataset.agent)); show(); });
for (const button of document.querySelectorAll("button[data-all]"))
  button.addEventListener("click", () => { agents.forEach((_, i) => off[button.dataset.all === "on" ? "delete" : "add"](i)); show(); });

for (const button of document.querySelectorAll("button[data-copy]"))
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy);
    getSelection().selectAllChildren(text);
    try { await navigator.clipboard.writeText(text.textContent); } catch { document.execCommand("copy"); }
    button.textContent = "Copied";
  });
