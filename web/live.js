// live.js - current rates of policies and rules, the identities denied most, and the store.
import { getIfAllowed } from "./api.js";
import { spark } from "./chart.js";
import { bytes, by, count, duration, element, fill, numeric, percent, row, tag } from "./dom.js";
import { choose } from "./overrides.js";

const POINTS = 60;
const seen = new Map(); // by policy, and by policy and rule: the last counts and the rates
let before = null;

const UNNAMED = "(unnamed)"; // unnamed limits given in requests

// The rate since the last poll; counters that decreased belong to a new process.
function rates(counts, seconds) {
  const key = `${counts.policy}\n${counts.rule ?? ""}`;
  const known = seen.get(key) ?? { last: seconds ? { allowed: 0, denied: 0, shadow_denied: 0 } : counts, points: [] };
  const rate = (kind) => (seconds ? Math.max(0, counts[kind] - known.last[kind]) / seconds : 0);
  const now = { allowed: rate("allowed"), denied: rate("denied"), shadow_denied: rate("shadow_denied") };
  if (seconds) known.points = [...known.points, now].slice(-POINTS);
  known.last = counts;
  seen.set(key, known);
  return { now, points: known.points };
}

function showRates(stats) {
  if (before && before.started_ms !== stats.started_ms) {
    before = null;
    seen.clear();
  }
  const seconds = before ? (stats.now_ms - before.now_ms) / 1000 : 0;
  fill(by("checks"), stats.checks.map((policy) => {
    const { now, points } = rates(policy, seconds);
    return row(policy.policy, numeric(count(now.allowed)), numeric(count(now.denied)),
      numeric(percent(now.denied, now.allowed + now.denied)), numeric(count(now.shadow_denied)), policy.denied,
      spark(points, POINTS));
  }), by("no-checks"));
  fill(by("rules"), stats.rules.map((rule) => {
    const { now } = rates(rule, seconds);
    return row(rule.policy, rule.rule, numeric(count(now.denied)), numeric(count(now.shadow_denied)),
      rule.denied, rule.shadow_denied);
  }));
  by("rules-details").hidden = stats.rules.length === 0;
  before = stats;
}

// Clients without an answer may let all requests pass, so show this at the top.
function showUnanswered({ recent, recent_ms, reasons }) {
  const why = reasons.slice(0, 3).map((r) => `${r.detail} (${r.code}, by ${r.protocol}, ${count(r.recent)} times)`);
  by("unanswered").hidden = !recent;
  by("unanswered").textContent = recent
    ? `${count(recent)} check${recent === 1 ? "" : "s"} without an answer in the last ${duration(recent_ms)}: ${why.join("; ")}` : "";
}

// A shared store does not report its size: null.
const known = (n, write) => (n === null ? "unknown" : write(n));

function showStore(stats, ready) {
  const s = stats.store;
  const state = s.has_failed ? element("span", { class: "bad" }, "unreachable: on_error decides")
    : element("span", { class: "good" }, "well");
  const facts = [["State", state], ["Keys", known(s.keys, count) + (s.max_keys === null ? "" : ` of ${count(s.max_keys)}`)],
    ["Memory for keys", known(s.memory_bytes, bytes)], ["Failures", count(s.failures)],
    ...(s.settlements_waiting + s.settlements_dropped
      ? [["Settlements", `${count(s.settlements_waiting)} waiting, ${count(s.settlements_dropped)} dropped`]] : []),
    ["Evicted keys", known(s.evicted_keys, count)], ["Journal", bytes(s.journal_bytes)], ["Snapshots", count(s.snapshots)],
    ["Connections", `${count(stats.connections.open)} of ${count(stats.connections.max)}`],
    ["Decision, p99", `${(stats.decision_ns.p99 / 1000).toFixed(0)} µs`], ["Memory", bytes(stats.memory_bytes)]];
  by("store").replaceChildren(...facts.map(([title, value]) =>
    element("div", {}, element("dt", {}, title), element("dd", {}, value))));
  by("about").textContent = `${stats.version}, up ${duration(stats.now_ms - stats.started_ms)}, ` +
    `${stats.threads} thread${stats.threads === 1 ? "" : "s"}`;
  const word = stats.draining ? "ending" : s.has_failed ? "store failed" : ready?.ready === false ? "not ready" : "well";
  const alerts = stats.alerts_firing ? `${stats.alerts_firing} alert${stats.alerts_firing > 1 ? "s" : ""}` : "";
  by("state").replaceChildren(word, ...(alerts ? [", ", element("a", { href: "#alerts-panel" }, alerts)] : []));
  by("state").className = word !== "well" ? "bad" : alerts ? "warn" : "good";
}

function chooser(e) {
  const button = element("button", { type: "button", "aria-label": `Override for ${e.tag.slice(0, 12)} in ${e.policy}` }, "Override");
  button.addEventListener("click", () => choose(e));
  return button;
}

function showTop(body, now) {
  by("top-panel").hidden = !body;
  if (!body) return;
  fill(by("top"), body.top.map((e) => row(tag(e.tag), e.policy, e.rule, e.denied - e.error,
    `${duration(Math.max(0, now - e.last_ms))} ago`, e.policy === UNNAMED ? "" : chooser(e))), by("no-top"));
}

export async function look(stats) {
  showRates(stats);
  showUnanswered(stats.unanswered);
  showStore(stats, await getIfAllowed("/readyz"));
  showTop(await getIfAllowed("/v1/top?n=20"), stats.now_ms);
}
