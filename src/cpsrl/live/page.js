const at = (id) => document.getElementById(id);
let rates = [], marks = [];
const chart = new Chart(at("curve"), {
  series: () => rates.length < 2 ? [] : [{
    name: "reward rate", colour: "var(--c0)", x: rates.map((r) => r.outcomes), y: rates.map((r) => r.mean),
    low: rates.map((r) => r.low), high: rates.map((r) => r.high),
  }],
  strokes: () => marks.map((m) => [m.decision, `decision ${(m.decision + 1).toLocaleString("en")}: ${m.why}`]),
  labels: ["outcomes", "reward a decision"], empty: "Loading …",
});

async function get(path) {
  const answer = await fetch(path), found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function showFacts(s) {
  const last = s.last_resample, about = [s.problem, s.path];
  at("agent").textContent = s.agent;
  if (s.learned) about.push(`${s.learned.toLocaleString("en")} transitions from logs`);
  if (s.streams) about.push(`${s.streams} streams`);
  about.push(last ? `acting on the model drawn at decision ${(last.decision + 1).toLocaleString("en")} (${last.why}), `
    + new Date(1000 * last.at).toLocaleString() : "no decision yet");
  at("about").textContent = about.join(" · ");
  const facts = { decisions: s.decisions, outcomes: s.outcomes, waiting: s.pending, discarded: s.discarded,
    "reward rate": s.reward_rate, resamplings: s.resamples };
  at("facts").replaceChildren();
  for (const [name, value] of Object.entries(facts)) {
    const fact = make(at("facts"), "div");
    make(fact, "b", {}, Number.isInteger(value) ? value.toLocaleString("en") : brief(value));
    make(fact, "span", { class: "note" }, name);
  }
}

const brief = (v) => v === null ? "–" : v.toLocaleString("en", { maximumSignificantDigits: 4 });
const interval = (i) => `${brief(i.median)} [${brief(i.low)},\u00a0${brief(i.high)}]`;

function showBelief(e) {
  const host = at("belief"), visited = e.actions.some((a) => a.visits !== null), believed = e.actions.some((a) => a.value);
  host.replaceChildren();
  const table = make(host, "table"), head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  for (const name of ["action", ...(believed ? ["probability of being optimal", `value (${e.objective})`] : []), ...(visited ? ["visits"] : [])])
    make(head, "th", { scope: "col" }, name);
  for (const a of e.actions) {
    const row = make(body, "tr");
    make(row, "td", {}, `${a.action}${a.action === e.action ? " ◂ now" : ""}`);
    if (believed) {
      make(row, "td", { class: "bar", style: `--part:${100 * a.probability}%` }, a.probability.toFixed(3));
      make(row, "td", {}, interval(a.value));
    }
    if (visited) make(row, "td", {}, a.visits.toLocaleString("en"));
  }
  if (e.gain) make(host, "p", { class: "note" }, `The optimal gain is believed to be ${interval(e.gain)}.`);
}

// States are chosen from a list; where there are none, what the agent is shown is typed in.
function offer({ states, features }) {
  const menu = at("state");
  for (const name of states) menu.add(new Option(name));
  if (features === null) return;
  const field = make(null, "input", { id: "state", "aria-label": "state", value: JSON.stringify(Array(features).fill(0)) });
  menu.replaceWith(field);
}

let event = null, shown = null;
async function look() {
  try {
    const s = await get("status");
    at("error").textContent = "";
    if (s.events !== event) {
      const found = await get("rates");
      if (event === null) { offer(found); at("state").addEventListener("change", believe); }
      ({ rates, marks } = found);
      showFacts(s);
      chart.empty = "Not enough outcomes yet.";
      chart.draw();
      event = s.events;
      shown = null;
    }
    if (shown !== at("state").value) await believe();
  } catch (error) { at("error").textContent = error.message || String(error); }
  setTimeout(look, 2000);
}

async function believe() {
  const state = at("state").value;
  try {
    showBelief(await get(`explain?draws=199&state=${encodeURIComponent(state)}`));
  } catch (error) { at("belief").replaceChildren(make(null, "p", {}, error.message || String(error))); }
  shown = state;
}
look();
