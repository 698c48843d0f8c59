// rates.js - rates by policy and rule, from the counters of two looks.

const POINTS = 60;
const seen = new Map(); // by policy and rule: the last counts, and the rates
let before = null;

function rate(counts, seconds) {
  const key = `${counts.policy}\n${counts.rule ?? ""}`;
  const known = seen.get(key) ?? { last: seconds ? { allowed: 0, denied: 0, shadow_denied: 0 } : counts, points: [] };
  const of = (kind) => (seconds ? Math.max(0, (counts[kind] ?? 0) - (known.last[kind] ?? 0)) / seconds : 0);
  known.now = { allowed: of("allowed"), denied: of("denied"), shadow_denied: of("shadow_denied") };
  if (seconds) known.points = [...known.points, known.now].slice(-POINTS);
  known.last = counts;
  seen.set(key, known);
}

// Counters that decreased, or another start, belong to a new process.
export function note(stats) {
  if (before === stats) return;
  if (before && before.started_ms !== stats.started_ms) {
    before = null;
    seen.clear();
  }
  const seconds = before ? (stats.now_ms - before.now_ms) / 1000 : 0;
  if (before && seconds <= 0) return;
  for (const counts of [...stats.checks, ...stats.rules]) rate(counts, seconds);
  before = stats;
}

export const ratesOf = (policy, rule = "") => seen.get(`${policy}\n${rule}`) ?? { now: { allowed: 0, denied: 0, shadow_denied: 0 }, points: [] };
export { POINTS };
