// identities.js - who is limited: a lookup by value or tag, the most denied, and what is overridden.
import { get, getIfAllowed, post } from "./api.js";
import { assignPlan, override, refund, removeChange, reset } from "./actions.js";
import { bar } from "./chart.js";
import { button, element, labelled, link, numeric, section, table, tag } from "./dom.js";
import { count, duration, effect, time, until } from "./format.js";
import { csvButton } from "./csv.js";
import { address, go, where } from "./router.js";
import { mayAct } from "./session.js";

const UNNAMED = "(unnamed)"; // unnamed limits given in requests
const IS_TAG = /^[0-9a-fA-F]{32}$/;
let policies = [], overrides = [], assigned = [];

const rulesOf = (policy) => policies.find((p) => p.policy === policy)?.rules ?? [];
const plansOf = (policy) => [...new Set(rulesOf(policy).flatMap((r) => (r.plans ?? []).map((p) => p.plan)))];
const allPlans = () => [...new Set(policies.flatMap((p) => plansOf(p.policy)))];
const overrideOf = (policy, rule, t) => overrides.find((o) => o.tag === t && o.policy === policy && (!o.rule || o.rule === rule));

// A mark for what is overridden already, with the way to its end.
function marked(o, called) {
  if (!o) return "";
  return element("span", {}, element("span", { class: "mark", title: `${o.who}: ${o.reason}` }, `${effect(o)} until ${until(o.expires_ms)}`), " ",
    mayAct() ? button("Remove", () => removeChange("overrides", o, called), { class: "small", "aria-label": `Remove override ${o.id}` }) : null);
}

const acts = (made) => element("span", { class: "acts" }, ...made);

function overrideButtons(whom) {
  if (!mayAct()) return [];
  const of = `${whom.called} in ${whom.policy}`, plans = plansOf(whom.policy);
  return [["block", "Block"], ["exempt", "Exempt"], ["limit", "Limit"], ...(plans.length ? [["plan", "Plan"]] : [])]
    .map(([kind, text]) => button(text, () => override(whom, kind, plans), { class: "small", "aria-label": `${text} ${of}` }));
}

// ---- lookup ---------------------------------------------------------------------------------------

const value = element("input", { id: "whom", type: "search", spellcheck: "false", autocomplete: "off", placeholder: "address, user, tenant … or a tag", required: "" });
const more = element("div", { class: "fields" });
const found = element("div", { id: "found" }), told = element("p", { role: "status" });
const form = element("form", { class: "lookup" }, labelled("Value", value), more, element("button", { class: "main" }, "Look up"));
const lookup = section("Look up", form, told, found);
const standing = table("How it stands", ["Policy and rule", "Counted by", { title: "Limit", number: true }, { title: "Used", number: true }, { title: "Left", number: true },
  "Of the limit", "Resets", "Override", { title: "Act", hidden: true }], "No policy counts by it.", { id: "standing" });

let looked = null; // {value, attributes, said} or {tag}

const attributesOf = (rule) => Object.fromEntries(rule.by.map((name) => [name, looked.attributes[name] ?? looked.value]));

function rowOf(policy, r, attributes, used) {
  const called = looked.value || Object.values(attributes).join(", "), whom = { policy, attributes: attributesOf(r), called };
  const numbers = r.used === undefined ? ["", "", "", "nothing is counted", ""]
    : [r.limit, numeric(count(r.used) + (r.held ? ` and ${count(r.held)} held` : "")), r.left, bar(r), r.reset_after_ms ? `in ${duration(r.reset_after_ms)}` : "–"];
  const all = { policy, attributes, called };
  return [link(`${policy}/${r.rule}`, address("policies", policy)), r.by.join(", ") || "all together", ...numbers, marked(overrideOf(policy, r.rule, r.tag), called),
    acts([...(mayAct() && r.used > 0 ? [button("Reset", () => reset(all, used), { class: "small", "aria-label": `Reset ${called} in ${policy}` })] : []),
      ...(mayAct() && r.used > 0 ? [button("Refund", () => refund(all), { class: "small", "aria-label": `Refund ${called} in ${policy}` })] : []),
      ...(r.by.length ? overrideButtons(whom) : [])])];
}

// The attributes that some policies need besides.
function showMissing(said) {
  const names = [...new Set(said.policies.filter((p) => p.missing).map((p) => p.missing))];
  const old = new Set([...more.querySelectorAll("input")].map((input) => input.name));
  for (const name of names) if (!old.has(name)) more.append(labelled(name, element("input", { name, spellcheck: "false" })));
}

function tagsOf(said) {
  const tags = new Map();
  for (const p of said.policies) for (const r of p.rules ?? []) if (r.by.length) tags.set(r.by.join(", "), r.tag);
  return tags;
}

function showFound() {
  const { said } = looked, known = said.policies.filter((p) => p.rules);
  const rows = known.flatMap((p) => {
    const attributes = Object.assign({}, ...p.rules.map(attributesOf)), used = p.rules.filter((r) => r.used !== undefined).map((r) => r.used);
    return p.rules.map((r) => ({ used: r.used ?? -1, cells: rowOf(p.policy, r, attributes, used) }));
  }).sort((a, b) => b.used - a.used);
  standing.fill(rows.map((r) => r.cells));
  const tags = [...tagsOf(said)].map(([by, t]) => {
    const plan = assigned.find((a) => a.tag === t), one = !by.includes(",");
    return element("li", {}, `as ${by}: `, link(tag(t), address("identities", "", { tag: t })),
      plan ? element("span", {}, " ", element("span", { class: "mark" }, `plan ${plan.plan} until ${until(plan.expires_ms)}`), " ",
        mayAct() ? button("Remove", () => removeChange("plans", plan, looked.value), { class: "small", "aria-label": `Remove plan ${plan.id}` }) : null) : null, " ",
      mayAct() && one && allPlans().length ? button("Assign a plan", () => assignPlan({ attributes: { [by]: looked.attributes[by] ?? looked.value }, called: looked.value }, allPlans()), { class: "small" }) : null);
  });
  const missing = said.policies.filter((p) => p.missing);
  found.replaceChildren(element("ul", { class: "tags" }, ...tags), csvButton("identity", standing), standing.whole,
    missing.length ? element("p", { class: "faint" }, `For ${missing.map((p) => p.policy).join(", ")} give ${[...new Set(missing.map((p) => p.missing))].join(", ")}, too.`) : "");
  told.textContent = known.length ? "" : "No policy counts by such a value.";
}

async function lookUp() {
  const text = value.value.trim(), extra = {};
  for (const input of more.querySelectorAll("input")) if (input.value.trim()) extra[input.name] = input.value.trim();
  if (IS_TAG.test(text)) return go("identities", "", { tag: text.toLowerCase() });
  told.className = "";
  try {
    const alone = await post("/v1/lookup", { key: text });
    // With more attributes, the value stands for each that was not given.
    const names = [...new Set(policies.flatMap((p) => p.rules.flatMap((r) => r.by)))];
    const attributes = { ...Object.fromEntries(names.map((name) => [name, text])), ...extra };
    let said = alone;
    if (Object.keys(extra).length) {
      const whole = await post("/v1/lookup", { attributes });
      said = { ...alone, policies: alone.policies.map((p) => (p.missing ? whole.policies.find((q) => q.policy === p.policy) ?? p : p)) };
    }
    looked = { value: text, attributes: extra, said };
    showMissing(said);
    showFound();
  } catch (problem) {
    looked = null;
    found.replaceChildren();
    told.className = "bad";
    told.textContent = problem.message;
  }
  return null;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (where().query.get("tag")) history.replaceState(null, "", address("identities"));
  byTag.hidden = true;
  lookUp();
});

// ---- by tag ---------------------------------------------------------------------------------------

const tagTitle = element("h2", { id: "tag-title" });
const tagChanges = table("Its changes", ["When", "What", "Policy", "Until", "Who and why"], "Nothing was changed for it.", { id: "tag-changes" });
const tagDenied = table("Denied lately", ["Policy", "Rule", { title: "Denied", number: true }, "Last", "Override", { title: "Act", hidden: true }], "It is not among the most denied.", { id: "tag-denied" });
const byTag = element("section", { "aria-labelledby": "tag-title", hidden: "" }, tagTitle,
  element("p", { class: "faint" }, "Of a tag, nothing but this is known: to see what is left, or to reset it, look up the value."), tagDenied.whole, tagChanges.whole);

function whomOf(e) {
  const rule = rulesOf(e.policy).find((r) => r.rule === e.rule);
  return { policy: e.policy, tag: e.tag, ...(rule && { by: rule.by }), called: e.tag.slice(0, 12) };
}

function deniedCells(e, now) {
  const whom = whomOf(e);
  return [e.rule, e.denied - e.error, `${duration(Math.max(0, now - e.last_ms))} ago`, marked(overrideOf(e.policy, e.rule, e.tag), whom.called),
    e.policy === UNNAMED ? "" : acts(overrideButtons(whom))];
}

async function showTag(t, top, now) {
  tagTitle.textContent = `Tag ${t.slice(0, 12)}`;
  tagTitle.title = t;
  tagDenied.fill(top.filter((e) => e.tag === t).map((e) => [e.policy, ...deniedCells(e, now)]));
  const audit = await getIfAllowed(`/v1/audit?newest=1000&tag=${t}`);
  tagChanges.fill((audit?.entries ?? []).reverse().map((e) => [time(e.at_ms), effect(e), e.policy ?? "all", e.effect === "removed" ? "" : until(e.expires_ms), `${e.who}: ${e.reason}`]));
}

// ---- the most denied, and what is in force --------------------------------------------------------

const denied = table("Identities denied most, by tag", ["Tag", "Policy", "Rule", { title: "Denied", number: true }, "Last", "Override", { title: "Act", hidden: true }], "No identity is denied.", { id: "top" });
const inForce = table("Overrides in force, by tag", ["Tag", "Policy", "Effect", "Until", "Who and why", { title: "Remove", hidden: true }], "No overrides.", { id: "overrides" });
const plans = table("Assigned plans, by tag", ["Tag", "Policy", "Plan", "Until", "Who and why", { title: "Remove", hidden: true }], "No plans are assigned.", { id: "assigned" });
const page = element("div", {}, lookup, byTag, section("Most denied", csvButton("most-denied", denied), denied.whole), section("In force", csvButton("overrides", inForce), inForce.whole, plans.whole));

const linked = (t) => link(tag(t), address("identities", "", { tag: t }));
const removal = (kind, o) => (mayAct() ? button("Remove", () => removeChange(kind, o, o.tag.slice(0, 12)), { class: "small", "aria-label": `Remove ${kind === "plans" ? "plan" : "override"} ${o.id} in force` }) : "");
const whoAndWhy = (o) => [o.who, o.reason].filter(Boolean).join(": ");

export const identities = {
  title: "Identities", page,
  enter(place) {
    lookup.hidden = !mayAct();
    byTag.hidden = !IS_TAG.test(place.query.get("tag") ?? "");
  },
  async look({ stats, isLate }) {
    const t = where().query.get("tag") ?? "";
    if (isLate) {
      policies = (await get("/v1/policies")).policies;
      overrides = (await get("/v1/overrides")).overrides;
      assigned = (await get("/v1/plans")).plans;
      if (looked && mayAct()) await lookUp();
    }
    const { top } = await get("/v1/top?n=50");
    denied.fill(top.map((e) => [linked(e.tag), e.policy, ...deniedCells(e, stats.now_ms)]));
    inForce.fill(overrides.map((o) => [linked(o.tag), `${o.policy}${o.rule ? `/${o.rule}` : ""}`, effect(o), until(o.expires_ms), whoAndWhy(o), removal("overrides", o)]));
    plans.fill(assigned.map((o) => [linked(o.tag), o.policy ?? "all", o.plan, until(o.expires_ms), whoAndWhy(o), removal("plans", o)]));
    if (IS_TAG.test(t)) await showTag(t.toLowerCase(), top, stats.now_ms);
  },
};
