// budgets.js - what reservations hold, and how one identity stands: used, held, left.
import { post } from "./api.js";
import { by, count, drawn, duration, element, fill, row } from "./dom.js";

let policies = [];

// Nothing to show before the first reservation: the panel is for those who use them.
export function showHeld({ reservations, held }) {
  const names = [...new Set([...reservations, ...(held?.reservations ?? [])].map((r) => r.policy))];
  by("budgets-panel").hidden = names.length === 0;
  const of = (list, policy) => list?.find((r) => r.policy === policy);
  fill(by("reservations"), names.map((policy) => {
    const done = of(reservations, policy), now = of(held?.reservations, policy);
    const known = (n) => (held ? n ?? 0 : "unknown");
    return row(policy, known(now?.held), done?.reserved ?? 0, done?.committed ?? 0, done?.released ?? 0,
      known(now?.expired), done?.late ?? 0, done?.exceeded ?? 0);
  }));
  fill(by("held"), (held?.amounts ?? []).map((a) => row(a.policy, a.rule, a.counts, a.held)), by("no-held"));
}

// ---- one identity -------------------------------------------------------------------------------

const WIDTH = 120, HEIGHT = 12;

// Used, then held, of what the rule can hold.
function bar(rule) {
  const all = Math.max(1, rule.used + (rule.held ?? 0) + rule.left), part = (n) => (WIDTH * n) / all;
  const text = `${count(rule.used)} used, ${rule.held === null ? "held unknown" : `${count(rule.held)} held`}, ${count(rule.left)} left`;
  return drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bar", role: "img", "aria-label": text },
    drawn("rect", { width: WIDTH, height: HEIGHT, class: "left" }),
    drawn("rect", { width: part(rule.used), height: HEIGHT, class: "used" }),
    drawn("rect", { x: part(rule.used), width: part(rule.held ?? 0), height: HEIGHT, class: "held" }));
}

function showUsage(said) {
  by("usage-table").hidden = false;
  fill(by("usage"), said.rules.map((r) => row(`${r.policy}/${r.rule}`, r.counts, r.limit, r.used,
    r.held === null ? "unknown" : r.held, r.left, bar(r), r.reset_after_ms ? `in ${duration(r.reset_after_ms)}` : "–")));
  return said.rules.length === 0 ? "Nothing is counted for it: it is exempt, or the policy is off."
    : said.reservations ? `${count(said.reservations)} reservation${said.reservations > 1 ? "s" : ""} held.` : "";
}

async function look() {
  const attributes = {};
  for (const input of by("usage-attributes").querySelectorAll("input")) if (input.value) attributes[input.name] = input.value;
  const to = by("usage-told");
  try {
    to.textContent = showUsage(await post("/v1/usage", { policy: by("usage-policy").value, attributes }));
    to.className = "";
  } catch (problem) {
    by("usage-table").hidden = true;
    to.textContent = problem.message;
    to.className = "bad";
  }
}

function offerAttributes() {
  const policy = policies.find((p) => p.policy === by("usage-policy").value);
  const names = [...new Set((policy?.rules ?? []).flatMap((r) => r.by))];
  by("usage-attributes").replaceChildren(...names.map((name) => element("label", {}, name, element("input", { name }))));
}

// Called with the policies in force; null: the token may not read them.
export function offerUsage(known) {
  by("usage-form").hidden = !known;
  if (!known || known.map((p) => p.policy).join("\n") === policies.map((p) => p.policy).join("\n")) return;
  const select = by("usage-policy"), chosen = select.value;
  policies = known;
  select.replaceChildren(...known.map((p) => element("option", { value: p.policy }, p.policy)));
  if (known.some((p) => p.policy === chosen)) select.value = chosen;
  offerAttributes();
}

export function listenToUsage() {
  by("usage-policy").addEventListener("change", offerAttributes);
  by("usage-form").addEventListener("submit", (event) => {
    event.preventDefault();
    look();
  });
}
