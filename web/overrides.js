// overrides.js - the overrides in force, and a form to add one.
import { getIfAllowed, put, remove } from "./api.js";
import { by, element, fill, row, tag, time } from "./dom.js";

let policies = [];
let seenWith = ""; // the rule that denied this tag

function effect(o) {
  if (o.effect === "limit") return `limit ${o.limit ?? "unchanged"}${o.burst ? `, burst ${o.burst}` : ""}`;
  return o.effect === "plan" ? `plan ${o.plan}` : o.effect;
}

// Update the list before the message: a removed override must not be listed any more.
async function told(work, done) {
  const to = by("override-told");
  let [kind, text] = ["good", done];
  try {
    await work();
  } catch (problem) {
    [kind, text] = ["bad", problem.message];
  }
  try {
    await showOverrides();
  } finally {
    to.className = kind;
    to.textContent = text;
  }
}

function removal(o) {
  const button = element("button", { type: "button", "aria-label": `Remove override ${o.id}` }, "Remove");
  button.addEventListener("click", () => told(() => remove(`/v1/overrides?id=${o.id}`,
    { who: by("override-who").value, reason: "removed on the dashboard" }), "Override removed."));
  return button;
}

let asks = 0;

// An answer is dropped if a newer request was sent meanwhile.
export async function showOverrides(known) {
  if (known) offer(known);
  const ask = ++asks;
  const said = await getIfAllowed("/v1/overrides");
  if (ask !== asks) return;
  by("overrides-panel").hidden = !said;
  if (!said) return;
  fill(by("overrides"), said.overrides.map((o) => row(tag(o.tag), `${o.policy}${o.rule ? `/${o.rule}` : ""}`,
    effect(o), o.expires_ms ? time(o.expires_ms) : "never expires", [o.who, o.reason].filter(Boolean).join(": "), removal(o))),
  by("no-overrides"));
}

// ---- the form -----------------------------------------------------------------------------------

function offer(known) {
  const select = by("override-policy"), chosen = select.value;
  if (known.map((p) => p.policy).join("\n") === policies.map((p) => p.policy).join("\n")) return;
  policies = known;
  select.replaceChildren(...known.map((p) => element("option", { value: p.policy }, p.policy)));
  if (known.some((p) => p.policy === chosen)) select.value = chosen;
  offerAttributes();
}

// The sets of attributes that the rules of a policy count by.
function offerAttributes() {
  const policy = policies.find((p) => p.policy === by("override-policy").value);
  const sets = [...new Set((policy?.rules ?? []).map((r) => r.by.join("\n")))].filter(Boolean);
  const place = by("override-attributes");
  const inputs = (set) => set.split("\n").map((name) =>
    element("label", {}, name, element("input", { name, required: "", class: "attribute" })));
  if (sets.length <= 1) {
    place.replaceChildren(...(sets.length ? inputs(sets[0]) : []));
    tagged();
    return;
  }
  const which = element("select", { "aria-label": "Counted by" }, ...sets.map((set) => element("option", { value: set }, set.replace("\n", ", "))));
  const rest = element("span", {}, ...inputs(sets[0]));
  which.addEventListener("change", () => rest.replaceChildren(...inputs(which.value)));
  place.replaceChildren(which, rest);
  tagged();
}

// Fill the form from a row of "Most denied": only the tag of the identity is known.
export function choose({ policy, rule, tag }) {
  by("override-add").open = true;
  by("override-policy").value = policy;
  offerAttributes();
  by("override-tag").value = tag;
  seenWith = rule;
  tagged();
  by("override-effect").focus();
}

// With a tag, the inputs for attributes are hidden.
function tagged() {
  const has = by("override-tag").value.trim() !== "";
  by("override-attributes").hidden = has;
  by("override-attributes").querySelectorAll("input, select").forEach((input) => (input.disabled = has));
}

function asked() {
  const body = { policy: by("override-policy").value }, tag = by("override-tag").value.trim();
  if (tag) {
    body.tag = tag;
    const rule = policies.find((p) => p.policy === body.policy)?.rules.find((r) => r.rule === seenWith);
    if (rule) body.by = rule.by;
  } else {
    body.attributes = {};
    for (const input of by("override-attributes").querySelectorAll("input.attribute")) body.attributes[input.name] = input.value;
  }
  const kind = by("override-effect").value;
  if (kind === "limit") body.limit = Number(by("override-limit").value);
  else if (kind === "plan") body.plan = by("override-plan").value;
  else body.effect = kind;
  for (const name of ["for", "who", "reason"]) {
    const text = by(`override-${name}`).value.trim();
    if (text) body[name] = text;
  }
  return body;
}

export function listenToOverrides() {
  by("override-policy").addEventListener("change", offerAttributes);
  by("override-tag").addEventListener("input", () => {
    seenWith = "";
    tagged();
  });
  by("override-effect").addEventListener("change", () => {
    by("override-limit-label").hidden = by("override-effect").value !== "limit";
    by("override-plan-label").hidden = by("override-effect").value !== "plan";
  });
  by("override-form").addEventListener("submit", (event) => {
    event.preventDefault();
    told(() => put("/v1/overrides", asked()), "It is in force.");
  });
}
