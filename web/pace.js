// pace.js - how long the page waits until it asks again.
//
// A poll, and no stream of events: what is shown are sums, which a stream would have to send again as
// a whole, and a stream that is open holds a connection of the server and is cut by proxies. So the poll
// is made cheap. It is fast after a change, slow while nothing happens, slower while the page is hidden or the
// server is slow; and what changes rarely is asked for when the statistics tell that it has changed.

const FAST = 500, USUAL = 2000, CALM = 5000, HIDDEN = 60000, SLOWEST = 30000;
const HURRY = 8000;     // so long after a change
const CALM_LOOKS = 10;  // without a check that was decided
const PART = 20;        // at most a 20th of the time is spent on asking
let hurriesUntil = 0, quiet = 0, failures = 0, decided = -1;

export const hurry = () => {
  hurriesUntil = performance.now() + HURRY;
};

// After an answer, with its statistics; or after none.
export function noteLook(stats) {
  failures = stats ? 0 : failures + 1;
  if (!stats) return;
  const sum = stats.checks.reduce((total, c) => total + c.allowed + c.denied, 0);
  quiet = sum === decided ? quiet + 1 : 0;
  decided = sum;
}

export function pause(took) {
  if (document.hidden) return HIDDEN;
  if (failures > 0) return Math.min(SLOWEST, USUAL * 2 ** (failures - 1));
  const wanted = performance.now() < hurriesUntil ? FAST : quiet >= CALM_LOOKS ? CALM : USUAL;
  return Math.min(SLOWEST, Math.max(wanted, PART * took));
}

// What operators and reloads change is the same while this is the same. What the store has lost
// touch with is asked for in any case now and then.
export function edition(stats) {
  const minute = Math.floor(stats.now_ms / HIDDEN);
  return JSON.stringify([stats.started_ms, stats.ledger, stats.reloads, stats.alerts_firing, minute]);
}
