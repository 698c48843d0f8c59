// overview.js - is it well? What needs attention, the main numbers, and where to look next.
import { getIfAllowed } from "./api.js";
import { spark } from "./chart.js";
import { csvButton } from "./csv.js";
import { breathe, element, link, numeric, section, table } from "./dom.js";
import { bytes, count, duration, percent, time } from "./format.js";
import { historyPanel } from "./history.js";
import { lookAtMarks, marksOf } from "./marks.js";
import { hourOf, hourOfAll, lookAtHour, note, POINTS, ratesOf } from "./rates.js";
import { address } from "./router.js";
import { mayRead } from "./session.js";

const SOON = 21 * 86400000, MOST_ROWS = 20, SLOW_LOOKS = 5;
const attention = element("ul", { id: "attention" }), calm = element("p", { class: "good" }, "Nothing needs attention.");
const tiles = element("dl", { id: "tiles" }), words = element("p", { id: "health" });
const rates = table("Decisions per second, by policy", ["Policy", { title: "Allowed/s", number: true }, { title: "Denied/s", number: true },
  { title: "Share", number: true }, { title: "Shadow-denied/s", number: true }, { title: "Denied in all", number: true }, "Denied, last hour"], "No checks yet.", { id: "checks" });
const rest = element("p", { class: "faint" }), panel = historyPanel("History");
const store = element("dl", { id: "store" });

const page = element("div", {}, section("Now", words, attention, calm, tiles), panel.whole, section("Policies", csvButton("rates", rates), rates.whole, rest), section("Store and server", store));

// ---- what needs attention -------------------------------------------------------------------------

const STORE = address("overview", "", { at: "store" });

// Each thread has a breaker, so some may have lost the store that others still reach; or null.
const inPart = (ready) => (ready?.breaker?.state === "partly_open" ? `${ready.breaker.open} of ${ready.breaker.threads} threads cannot reach the store` : null);

// [what, what to do, where]
function concerns({ stats, ready, alerts, policies }) {
  const found = [], { recent, recent_ms, reasons } = stats.unanswered;
  if (stats.store.has_failed) found.push([`${inPart(ready) ?? "The store cannot be reached"}, so on_error decides${inPart(ready) ? " there" : ""}.`,
    "Look at the store and at the network to it; weir tries again by itself.", STORE]);
  if (recent) {
    const why = reasons.slice(0, 3).map((r) => `${r.detail} (${r.code}, by ${r.protocol}, ${r.recent === 1 ? "once" : `${count(r.recent)} times`})`);
    found.push([`${count(recent)} check${recent === 1 ? "" : "s"} without an answer in the last ${duration(recent_ms)}: ${why.join("; ")}.`, "These clients may let every request pass: correct what they send.", address("policies")]);
  }
  for (const a of (alerts ?? []).filter((one) => one.state === "firing")) {
    const of = a.firing.map((one) => one.code ?? [one.policy, one.rule, one.tag?.slice(0, 12)].filter(Boolean).join(" ")).slice(0, 3).join(", ");
    const policy = a.firing[0]?.policy;
    found.push([`Alert ${a.alert} since ${time(a.since_ms)}: ${a.condition.replace("_", " ")} ${count(a.value)} over ${count(a.over)}${of ? `, of ${of}` : ""}.`,
      a.firing[0]?.tag ? "See who it is, and block it if it must stop." : "See what the policy denies, and whom.",
      a.firing[0]?.tag ? address("identities", "", { tag: a.firing[0].tag }) : policy ? address("policies", policy) : address("policies")]);
  }
  if (ready?.ledger_stale) found.push(["Changes of operators cannot be read from the store.", "Those that were read last stay in force.", address("changes")]);
  if (policies?.reload.problem) found.push([`The last reload failed: ${policies.reload.problem}`, "Correct the file and reload; the old policies stay in force.", address("changes")]);
  if (policies?.differs_in_database?.length) found.push([`The file and the database differ in ${policies.differs_in_database.join(", ")}.`, "Run weir policy push, so that checks by SQL use the same limits.", address("policies")]);
  if (stats.certificate_expires_ms && stats.certificate_expires_ms < stats.now_ms + SOON)
    found.push([`The certificate ${stats.certificate_expires_ms < stats.now_ms ? "has expired" : "expires"} ${time(stats.certificate_expires_ms)}.`, "Replace its file and reload: open connections stay.", address("changes")]);
  if (stats.enabled === false) found.push(["WEIR_ENABLED is off: everything is allowed, and nothing is counted.", "Start the server without it to enforce limits.", address("changes")]);
  if (stats.store.settlements_dropped) found.push([`${count(stats.store.settlements_dropped)} settlements were dropped.`, "What they would have given back stays used until it resets.", address("budgets")]);
  return found;
}

function showAttention(context) {
  const found = concerns(context);
  attention.replaceChildren(...found.map(([what, act, where]) => element("li", {}, element("strong", {}, what), ` ${act} `, where ? link("Go there", where, { "aria-label": `Go there: ${what}` }) : null)));
  calm.hidden = found.length > 0;
}

// ---- tiles ----------------------------------------------------------------------------------------

let vitals = []; // the last hour: [at_ms, decision_p99_ns, keys, memory_bytes]

const column = (n) => vitals.map((v) => v[n] ?? 0);

// With the least and the most of the hour.
function tile(title, value, points, kind, write) {
  const range = points.length ? `${write(Math.min(...points))} to ${write(Math.max(...points))} in the last hour` : "";
  return element("div", { class: "tile" }, element("dt", {}, title), element("dd", {}, value, spark(points, POINTS, kind), element("small", {}, range)));
}

const microseconds = (ns) => (ns < 1000000 ? `${count(Math.round(ns / 1000))} µs` : `${(ns / 1000000).toFixed(1)} ms`);
const share = (part) => percent(part, 1);

function showTiles(stats) {
  const now = stats.checks.map((c) => ratesOf(c.policy).now), sum = (kind) => now.reduce((total, one) => total + one[kind], 0);
  const allowed = sum("allowed"), denied = sum("denied"), shadow = sum("shadow_denied"), s = stats.store, hour = hourOfAll();
  const part = (kind) => hour.map((m) => (m.allowed + m.denied ? m[kind] / (m.allowed + m.denied) : 0));
  const recent = vitals.at(-1)?.[1] ?? vitals.at(-2)?.[1] ?? stats.decision_ns.p99;
  const next = [
    tile("Checks/s", count(allowed + denied), hour.map((m) => (m.allowed + m.denied) / 60), "line", count),
    tile("Denied", percent(denied, allowed + denied), part("denied"), "line denied", share),
    tile("Shadow-denied", percent(shadow, allowed + denied), part("shadow_denied"), "line shadow", share),
    tile("Decision, p99", microseconds(recent), column(1), "line", microseconds),
    tile("Keys", s.keys === null ? "unknown" : count(s.keys), s.keys === null ? [] : column(2), "line", count),
    tile("Memory", bytes(stats.memory_bytes), column(3), "line", bytes)];
  next.forEach((made, i) => {
    if (!tiles.children[i]) tiles.append(made);
    else if (!tiles.children[i].isEqualNode(made)) tiles.children[i].replaceWith(made);
  });
}

function showHealth({ stats, ready }) {
  const s = stats.store, breaker = ready?.breaker;
  const server = stats.draining ? "The server is ending" : ready?.ready === false ? "The server is not ready" : "The server is ready";
  const kept = inPart(ready) ?? (s.has_failed ? "the store cannot be reached" : "the store answers");
  const waits = { closed: ", and all threads wait for it", open: ", and no thread waits for it" }[breaker?.state] ?? "";
  words.textContent = `${server}, ${kept}${waits}.`;
  words.className = s.has_failed || ready?.ready === false ? "bad" : "good";
}

// ---- policies and store ---------------------------------------------------------------------------

function showRates(stats) {
  const busiest = [...stats.checks].sort((a, b) => ratesOf(b.policy).now.denied - ratesOf(a.policy).now.denied ||
    ratesOf(b.policy).now.allowed - ratesOf(a.policy).now.allowed || b.denied - a.denied).slice(0, MOST_ROWS);
  rates.fill(busiest.map((c) => {
    const { now } = ratesOf(c.policy);
    return [mayRead() ? link(c.policy, address("policies", c.policy)) : c.policy, numeric(count(now.allowed)), numeric(count(now.denied)),
      numeric(percent(now.denied, now.allowed + now.denied)), numeric(count(now.shadow_denied)), c.denied, spark(hourOf(c.policy).map((p) => p.denied), POINTS, "line denied")];
  }));
  rest.textContent = stats.checks.length > MOST_ROWS ? `${stats.checks.length - MOST_ROWS} more are under Policies.` : "";
}

// A shared store does not report its size: null.
const known = (n, write) => (n === null ? "unknown" : write(n));

function showStore(stats, ready) {
  const s = stats.store;
  const state = s.has_failed ? element("span", { class: "bad" }, inPart(ready) ? "in part unreachable" : "unreachable: on_error decides") : element("span", { class: "good" }, "well");
  const facts = [["State", state], ["Keys", known(s.keys, count) + (s.max_keys === null ? "" : ` of ${count(s.max_keys)}`)],
    ["Memory for keys", known(s.memory_bytes, bytes)], ["Failures", count(s.failures)],
    ...(s.leases_granted ? [["Leases", `${count(s.leases)} held; ${count(s.lease_checks)} checks by ${count(s.lease_requests)} requests`],
      ["Leased units", `${count(s.leases_granted)} granted, ${count(s.leases_spent)} spent, ` +
        `${count(s.leases_returned)} returned, ${count(s.leases_stranded)} stranded`]] : []),
    ...(s.settlements_waiting + s.settlements_dropped ? [["Settlements", `${count(s.settlements_waiting)} waiting, ${count(s.settlements_dropped)} dropped`]] : []),
    ["Evicted keys", known(s.evicted_keys, count)], ["Journal", bytes(s.journal_bytes)], ["Snapshots", count(s.snapshots)],
    ["Connections", `${count(stats.connections.open)} of ${count(stats.connections.max)}`]];
  store.replaceChildren(...facts.map(([title, value]) => element("div", {}, element("dt", {}, title), element("dd", {}, value))));
}

let looks = 0, slow = {};

// What operators and reloads change.
async function lookAtChanges() {
  slow = { policies: mayRead() ? await getIfAllowed("/v1/policies") : null, alerts: (await getIfAllowed("/v1/alerts"))?.alerts };
  await lookAtMarks();
}

export const overview = {
  title: "Overview", isForNumbers: true, page,
  enter(place) {
    looks = 0;
    if (place.query.get("at") === "store") store.scrollIntoView();
  },
  async look({ stats, ready, isLate }) {
    note(stats);
    showHealth({ stats, ready });
    showStore(stats, ready);
    await breathe();
    const isSlow = isLate || looks++ % SLOW_LOOKS === 0;
    if (isSlow) {
      await lookAtHour(getIfAllowed, stats.now_ms);
      vitals = (await getIfAllowed("/v1/vitals"))?.points ?? [];
    }
    await breathe();
    showRates(stats);
    await breathe();
    showTiles(stats);
    if (isLate) await lookAtChanges();
    showAttention({ stats, ready, ...slow });
    if (isSlow) await panel.look("", marksOf());
  },
};
