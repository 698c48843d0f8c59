// history.js - the decisions of the last hours or days.
import { get } from "./api.js";
import { bars, legend } from "./chart.js";
import { by, duration, element, fill, numeric, percent, row } from "./dom.js";

const KINDS = ["allowed", "denied", "shadow_denied", "fallback", "charges"];

function sums(points) {
  const total = Object.fromEntries(KINDS.map((kind) => [kind, 0]));
  for (const [, ...counts] of points) KINDS.forEach((kind, i) => (total[kind] += counts[i]));
  return total;
}

// The sum of all policies, for each step.
function together(series) {
  const steps = new Map();
  for (const { points } of series)
    for (const [at, ...counts] of points) {
      const step = steps.get(at) ?? { at, ...sums([]) };
      KINDS.forEach((kind, i) => (step[kind] += counts[i]));
      steps.set(at, step);
    }
  return [...steps.values()].sort((a, b) => a.at - b.at);
}

function policies(names) {
  const select = by("history-policy"), chosen = select.value;
  const wanted = ["", ...names];
  if (wanted.join("\n") === [...select.options].map((o) => o.value).join("\n")) return;
  select.replaceChildren(...wanted.map((name) => element("option", { value: name }, name || "all")));
  select.value = wanted.includes(chosen) ? chosen : "";
}

let asks = 0;

// An answer is dropped if a newer request was sent meanwhile.
export async function showHistory(names) {
  if (names) policies(names);
  const ask = ++asks;
  const since = new FormData(by("history-form")).get("since"), policy = by("history-policy").value;
  const told = await get(`/v1/history?since=${since}` + (policy ? `&policy=${encodeURIComponent(policy)}` : ""));
  if (ask !== asks) return;
  const total = sums(told.checks.flatMap((s) => s.points));
  const label = `${policy || "all policies"}, last ${since}: ${total.allowed} allowed, ${total.denied} denied`;
  by("history-chart").replaceChildren(bars(together(told.checks), told.since_ms, told.until_ms, told.step_ms, label));
  by("history-replay").textContent = told.replay;
  by("history-text").replaceChildren(...legend(total), ` (${duration(told.step_ms)} a bar)`);
  fill(by("history-rows"), told.checks.map((s) => {
    const t = sums(s.points);
    return row(s.policy, t.allowed, t.denied, numeric(percent(t.denied, t.allowed + t.denied)), t.shadow_denied, t.fallback, t.charges);
  }));
  fill(by("history-rules"), told.rules.map((s) => {
    const t = sums(s.points);
    return row(s.policy, s.rule, t.denied, t.shadow_denied);
  }));
}
