// policies.js - all policies, and one of them: rules, numbers, mode, history, what its shadow would do.
import { get, getIfAllowed } from "./api.js";
import { switchMode } from "./actions.js";
import { spark } from "./chart.js";
import { button, element, link, numeric, section, table } from "./dom.js";
import { count, duration, limit, percent, time } from "./format.js";
import { csvButton } from "./csv.js";
import { historyPanel } from "./history.js";
import { lookAtMarks, marksOf } from "./marks.js";
import { hourOf, lookAtHour, note, POINTS, ratesOf } from "./rates.js";
import { address } from "./router.js";
import { mayAct } from "./session.js";

const SLOW_LOOKS = 5;
const NUMBERS = [{ title: "Allowed/s", number: true }, { title: "Denied/s", number: true }, { title: "Share", number: true }];

function modeText(policy) {
  const live = policy.live_mode;
  return live ? `${live.mode}${live.expires_ms ? ` until ${time(live.expires_ms)}` : ""} (file: ${policy.mode})` : policy.mode;
}

// ---- all ------------------------------------------------------------------------------------------

const file = element("p", { id: "policy-file", class: "faint" });
const filter = element("input", { type: "search", "aria-label": "Filter policies", placeholder: "filter" });
const list = table("Policies", ["Policy", "Limits", "By", "Mode", ...NUMBERS, "Denied, last hour", { title: "Line", number: true }], "There is none: limits come with requests.", { id: "policies" });
const all = element("div", {}, section("Policies", file, element("div", { class: "tools" }, filter, csvButton("policies", list)), list.whole));

function showAll(told) {
  file.textContent = told.file ? `${told.file}${told.enabled ? "" : ", switched off by WEIR_ENABLED"}` : "No policy file: limits come with requests.";
  const wanted = told.policies.filter((p) => p.policy.includes(filter.value.trim()));
  list.fill(wanted.map((p) => {
    const { now } = ratesOf(p.policy);
    return [link(p.policy, address("policies", p.policy)), p.rules.map((r) => limit(r)).join("; "),
      [...new Set(p.rules.flatMap((r) => r.by))].join(", ") || "all together",
      p.live_mode ? element("span", { class: "mark" }, modeText(p)) : modeText(p), numeric(count(now.allowed)), numeric(count(now.denied)),
      numeric(percent(now.denied, now.allowed + now.denied)), spark(hourOf(p.policy).map((one) => one.denied), POINTS, "line denied"), p.line];
  }));
}

// ---- one ------------------------------------------------------------------------------------------

const back = link("All policies", address("policies"));
const facts = element("p", { id: "policy-facts" }), live = element("dl", { id: "policy-live" }), modes = element("div", { id: "modes", class: "choices", role: "group", "aria-label": "Mode" });
const rules = table("Rules", ["Rule", "Limit", "By", "Mode", { title: "Denied/s", number: true }, { title: "Shadow-denied/s", number: true },
  { title: "Denied in all", number: true }, { title: "Line", number: true }], "It has no rules.", { id: "rules" });
const plans = table("Plans", ["Rule", "Plan", "Limit", { title: "Line", number: true }], "It has no plans.", { id: "plans" });
const shadow = table("Limits in shadow, next to the enforced ones", ["Rule", "In shadow", { title: "Checks", number: true }, { title: "Shadow-denied", number: true },
  { title: "Denied, enforced", number: true }, { title: "Identities hit", number: true }, { title: "Act", hidden: true }], "No limit of it is in shadow.", { id: "shadow" });
const hint = element("p", { class: "faint" }), panel = historyPanel("History");
const heading = element("h2", { id: "policy-name" });
const one = element("div", {}, element("section", { "aria-labelledby": "policy-name" }, back, heading, facts, modes, live, csvButton("rules", rules), rules.whole, plans.whole),
  panel.whole, section("In shadow", csvButton("shadow", shadow), shadow.whole, hint));
const gone = element("section", { "aria-label": "No such policy" }, link("All policies", address("policies")), element("p", { class: "bad" }, "There is no such policy."));
const page = element("div", {});

function showModes(policy) {
  const now = policy.live_mode?.mode ?? policy.mode;
  const made = [...["enforce", "shadow", "off"].map((mode) =>
    button(mode, () => switchMode(policy.policy, mode), { "aria-pressed": String(mode === now), disabled: mayAct() ? null : "" })),
  ...(policy.live_mode && mayAct() ? [button("As in the file", () => switchMode(policy.policy, "file", policy.mode))] : [])];
  if (made.length !== modes.children.length || made.some((b, i) => !b.isEqualNode(modes.children[i]))) modes.replaceChildren(...made);
}

const share = (side) => numeric(`${count(side.denied)} (${side.denied_percent.toFixed(2)} %)`);

// A policy in shadow is enforced from here; a single rule, a shadow limit or a rollout in the file.
function enforce(policy, t) {
  const inShadow = (policy.live_mode?.mode ?? policy.mode) === "shadow";
  return inShadow && mayAct() ? button("Enforce", () => switchMode(policy.policy, "enforce"), { class: "main", "aria-label": `Enforce ${policy.policy}` })
    : `in the file, line ${t.line ?? "–"}`;
}

function showOne(policy) {
  heading.textContent = policy.policy;
  const { now } = ratesOf(policy.policy), all = now.allowed + now.denied;
  facts.textContent = `Mode: ${modeText(policy)}. If the store fails: ${policy.on_error}. Line ${policy.line} of ${told.file ?? "the file"}.`;
  live.replaceChildren(...[["Checks/s", count(all)], ["Allowed/s", count(now.allowed)], ["Denied/s", count(now.denied)], ["Denied", percent(now.denied, all)],
    ["Shadow-denied/s", count(now.shadow_denied)]].map(([title, value]) => element("div", { class: "tile" }, element("dt", {}, title), element("dd", {}, value))));
  facts.className = policy.live_mode ? "mark" : "";
  showModes(policy);
  rules.fill(policy.rules.map((r) => {
    const { now, last } = ratesOf(policy.policy, r.rule);
    return [r.rule, limit(r) + (r.shadow_limit ? `; in shadow: ${limit(r.shadow_limit)}` : ""), r.by.join(", ") || "all together",
      r.mode + (r.rollout ? `, rollout ${r.rollout}` : ""), numeric(count(now.denied)), numeric(count(now.shadow_denied)), last?.denied ?? 0, r.line];
  }));
  const known = policy.rules.flatMap((r) => (r.plans ?? []).map((p) => [r.rule, p.plan, limit(p), p.line]));
  plans.whole.hidden = known.length === 0;
  plans.fill(known);
}

function showShadow(policy, told) {
  hint.replaceChildren("What other limits would have done to an access log: ", element("code", {}, told.replay));
  shadow.fill(told.limits.map((t) => [t.rule, `${count(t.limit)} ${t.window_ms ? `per ${duration(t.window_ms)}` : "at once"}`, t.shadow.checks, share(t.shadow), share(t.enforced),
    numeric(`${count(t.shadow.denied_identities)} of ${count(t.shadow.identities)}`), enforce(policy, t)]));
}

let name = "", looks = 0, told = null;

async function lookAtOne(policy, isSlow, isLate) {
  showOne(policy);
  if (!isSlow) return;
  const asked = encodeURIComponent(policy.policy);
  if (isLate) await lookAtMarks();
  await panel.look(policy.policy, marksOf(policy.policy));
  const seen = await getIfAllowed(`/v1/shadow?policy=${asked}`);
  if (seen) showShadow(policy, seen);
}

filter.addEventListener("input", () => told && showAll(told));

export const policies = {
  title: "Policies", page,
  enter(place) {
    name = place.name;
    heading.textContent = name;
    looks = 0;
    page.replaceChildren(name ? one : all);
  },
  async look({ stats, isLate }) {
    const wanted = name, isSlow = isLate || looks++ % SLOW_LOOKS === 0;
    note(stats);
    if (isLate || !told) told = await get("/v1/policies");
    if (wanted !== name) return;
    if (!name && isSlow) await lookAtHour(getIfAllowed, stats.now_ms);
    if (!name) return showAll(told);
    const policy = told.policies.find((p) => p.policy === name);
    page.replaceChildren(policy ? one : gone);
    if (policy) await lookAtOne(policy, isSlow, isLate);
  },
};
