// budgets.js - what reservations hold, and what of each amount is used, held and left.
import { get, post } from "./api.js";
import { bar } from "./chart.js";
import { csvButton } from "./csv.js";
import { element, labelled, section, table } from "./dom.js";
import { count, duration, time } from "./format.js";
import { mayAct } from "./session.js";

const number = (title) => ({ title, number: true });
const made = table("Reservations, by policy", ["Policy", number("Held"), number("Reserved"), number("Committed"), number("Released"), number("Expired, 10 min"),
  number("Settled late"), number("Exceeded")], "No reservations yet.", { id: "reservations" });
const held = table("Held now, by rule", ["Policy", "Rule", "Amount", number("Held")], "Nothing is held.", { id: "held" });
const usage = table("Usage of an identity", ["Rule", "Amount", number("Limit"), number("Used"), number("Held"), number("Left"), "Of the limit", "Resets"], "", { id: "usage" });
const policy = element("select", {}), attributes = element("div", { class: "fields" }), told = element("p", { id: "usage-told", role: "status" });
const form = element("form", { id: "usage-form", autocomplete: "off" }, labelled("Usage of", policy), attributes, element("button", { class: "main" }, "Look up"));
const page = element("div", {}, section("Budgets", csvButton("budgets", made), made.whole, held.whole), section("One identity", form, told, usage.whole, csvButton("usage", usage)));
let policies = [];

function showHeld({ reservations, held: now }) {
  const names = [...new Set([...reservations, ...(now?.reservations ?? [])].map((r) => r.policy))];
  const of = (list, name) => list?.find((r) => r.policy === name);
  made.fill(names.map((name) => {
    const done = of(reservations, name), waiting = of(now?.reservations, name), known = (n) => (now ? n ?? 0 : "unknown");
    return [name, known(waiting?.held), done?.reserved ?? 0, done?.committed ?? 0, done?.released ?? 0, known(waiting?.expired), done?.late ?? 0, done?.exceeded ?? 0];
  }));
  held.fill((now?.amounts ?? []).map((a) => [a.policy, a.rule, a.counts, a.held]));
}

// ---- one identity -------------------------------------------------------------------------------

function showUsage(said) {
  usage.whole.hidden = false;
  usage.fill(said.rules.map((r) => [`${r.policy}/${r.rule}`, r.counts, r.limit, r.used, r.held === null ? "unknown" : r.held, r.left, bar(r),
    r.reset_after_ms ? `in ${duration(r.reset_after_ms)}: ${time(Date.now() + r.reset_after_ms)}` : "–"]));
  return said.rules.length === 0 ? "Nothing is counted for it: it is exempt, or the policy is off."
    : said.reservations ? `${count(said.reservations)} reservation${said.reservations > 1 ? "s" : ""} held.` : "";
}

async function look() {
  const given = {};
  for (const input of attributes.querySelectorAll("input")) if (input.value) given[input.name] = input.value;
  try {
    told.textContent = showUsage(await post("/v1/usage", { policy: policy.value, attributes: given }));
    told.className = "";
  } catch (problem) {
    usage.whole.hidden = true;
    told.textContent = problem.message;
    told.className = "bad";
  }
}

function offerAttributes() {
  const chosen = policies.find((p) => p.policy === policy.value);
  const names = [...new Set((chosen?.rules ?? []).flatMap((r) => r.by))];
  attributes.replaceChildren(...names.map((name) => labelled(name, element("input", { name, spellcheck: "false" }))));
}

function offer(known) {
  if (known.map((p) => p.policy).join("\n") === policies.map((p) => p.policy).join("\n")) return;
  const chosen = policy.value;
  policies = known;
  policy.replaceChildren(...known.map((p) => element("option", { value: p.policy }, p.policy)));
  if (known.some((p) => p.policy === chosen)) policy.value = chosen;
  offerAttributes();
}

policy.addEventListener("change", offerAttributes);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  look();
});

export const budgets = {
  title: "Budgets", isForNumbers: true, page,
  enter() {
    form.closest("section").hidden = !mayAct();
    usage.whole.hidden = true;
  },
  async look({ stats, isLate }) {
    showHeld(stats);
    if (mayAct() && isLate) offer((await get("/v1/policies")).policies);
  },
};
