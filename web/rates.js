// rates.js - rates by policy and rule, from the counters of two looks; and their last hour, from the history.

const POINTS = 60;
const seen = new Map(); // by policy and rule: the last counts, and the rates
let before = null;

function rate(counts, seconds) {
  const key = `${counts.policy}\n${counts.rule ?? ""}`;
  const known = seen.get(key) ?? { last: seconds ? { allowed: 0, denied: 0, shadow_denied: 0 } : counts };
  const of = (kind) => (seconds ? Math.max(0, (counts[kind] ?? 0) - (known.last[kind] ?? 0)) / seconds : 0);
  known.now = { allowed: of("allowed"), denied: of("denied"), shadow_denied: of("shadow_denied") };
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

export const ratesOf = (policy, rule = "") => seen.get(`${policy}\n${rule}`) ?? { now: { allowed: 0, denied: 0, shadow_denied: 0 } };

// ---- the last hour --------------------------------------------------------------------------------

const MINUTE = 60000, EACH_MS = 10000;
let hours = new Map(), all = [], askedAt = -Infinity;

const empty = () => Array.from({ length: POINTS }, () => ({ allowed: 0, denied: 0, shadow_denied: 0 }));

// Of each policy, and of all together, one entry a minute.
export async function lookAtHour(get, now) {
  if (performance.now() - askedAt < EACH_MS) return;
  const said = await get(`/v1/history?since=${POINTS}m&step=1m`);
  if (!said) return;
  askedAt = performance.now();
  const first = now - (now % MINUTE) - (POINTS - 1) * MINUTE;
  hours = new Map();
  all = empty();
  for (const { policy, points } of said.checks) {
    const own = empty();
    for (const [at, allowed, denied, shadow] of points) {
      const place = Math.round((at - first) / MINUTE);
      if (place < 0 || place >= POINTS) continue;
      own[place] = { allowed, denied, shadow_denied: shadow };
      all[place].allowed += allowed;
      all[place].denied += denied;
      all[place].shadow_denied += shadow;
    }
    hours.set(policy, own);
  }
}

export const hourOf = (policy) => hours.get(policy) ?? [];
export const hourOfAll = () => all;
export { POINTS };
