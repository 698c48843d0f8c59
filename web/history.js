// history.js - a panel with what was decided over time: of one policy or of all.
import { get } from "./api.js";
import { chart, legend } from "./chart.js";
import { breathe, button, element, section, table, numeric } from "./dom.js";
import { duration, percent, time } from "./format.js";
import { csvButton } from "./csv.js";
import { go, where } from "./router.js";

const RANGES = ["1h", "24h", "7d", "30d", "90d"];

// A point is [at, allowed, denied, shadow_denied, fallback, charges]. There may be ten thousand: nothing else is made of each.
const nothing = (at) => ({ at, allowed: 0, denied: 0, shadow_denied: 0, fallback: 0, charges: 0 });

function add(sum, point) {
  sum.allowed += point[1];
  sum.denied += point[2];
  sum.shadow_denied += point[3];
  sum.fallback += point[4];
  sum.charges += point[5];
  return sum;
}

const sums = (points) => points.reduce(add, nothing());

// The sum of all policies, for each step; and of all steps.
function together(series) {
  const steps = new Map(), total = nothing();
  for (const { points } of series)
    for (const point of points) {
      let step = steps.get(point[0]);
      if (!step) steps.set(point[0], step = nothing(point[0]));
      add(step, point);
      add(total, point);
    }
  return { steps: [...steps.values()].sort((a, b) => a.at - b.at), total };
}

// The range is in the address, so that a link shows the same.
export function historyPanel(title) {
  const range = () => {
    const { query } = where();
    return query.get("from") ? { since: query.get("from"), until: query.get("to") } : { since: query.get("since") ?? "24h", until: "" };
  };
  const use = (next) => go(where().view, where().name, { ...Object.fromEntries([...where().query].filter(([name]) => !["since", "from", "to"].includes(name))), ...next });
  const drawing = chart((from, to) => use({ from, to }));
  const choices = element("div", { class: "choices", role: "group", "aria-label": "Range" },
    ...RANGES.map((since) => button(since.replace(/(\d+)/, "$1 "), () => use({ since }), { "data-since": since })));
  const key = element("figcaption", { class: "faint" });
  const totals = table("Checks", ["Policy", { title: "Allowed", number: true }, { title: "Denied", number: true },
    { title: "Share", number: true }, { title: "Shadow-denied", number: true }, { title: "By fallback", number: true }, { title: "Charges", number: true }], "Nothing was checked.");
  const byRule = table("Denied by rule", ["Rule", { title: "Denied", number: true }, { title: "Shadow-denied", number: true }], "Nothing was denied.");
  const changed = table("Changes, newest first", ["When", "What"], "Nothing was changed.", { class: "marks" });
  const tables = element("details", {}, element("summary", {}, "As a table"), csvButton("history", totals), totals.whole, byRule.whole, changed.whole);
  const whole = section(title, choices, element("figure", {}, drawing.whole, key), tables);
  let asks = 0, shown = null;

  // Only if they can be seen: of hundreds of policies they would take most of the time of a frame.
  function fillTables() {
    if (!tables.open || !shown) return;
    totals.fill(shown.checks.map((s) => {
      const t = sums(s.points);
      return [s.policy, t.allowed, t.denied, numeric(percent(t.denied, t.allowed + t.denied)), t.shadow_denied, t.fallback, t.charges];
    }));
    byRule.fill(shown.rules.map((s) => {
      const t = sums(s.points);
      return [`${s.policy}/${s.rule}`, t.denied, t.shadow_denied];
    }));
    changed.fill(shown.marks.toReversed().map((m) => [time(m.at), m.text]));
  }
  tables.addEventListener("toggle", fillTables);
  return {
    whole,
    // An answer is dropped if a newer request was sent meanwhile.
    async look(policy, marks) {
      const ask = ++asks, { since, until } = range();
      for (const choice of choices.children) choice.setAttribute("aria-pressed", String(choice.dataset.since === since));
      const said = await get(`/v1/history?since=${since}` + (until ? `&until=${until}` : "") + (policy ? `&policy=${encodeURIComponent(policy)}` : ""));
      const { steps, total } = together(said.checks);
      await breathe();
      if (ask !== asks) return;
      const span = until ? `${time(said.since_ms)} to ${time(said.until_ms)}` : `last ${since}`;
      const seen = marks.filter((m) => m.at >= said.since_ms && m.at <= said.until_ms);
      drawing.draw({ steps, since: said.since_ms, until: said.until_ms, step: said.step_ms, marks: seen,
        label: `${policy || "all policies"}, ${span}: ${total.allowed} allowed, ${total.denied} denied` });
      key.replaceChildren(...legend(total, seen.length), ` (${duration(said.step_ms)} a bar; drag to choose a range)`);
      shown = { ...said, marks: seen };
      fillTables();
    },
  };
}
