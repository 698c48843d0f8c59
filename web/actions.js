// actions.js - what an operator does: a dialog that asks once, and a message with a way back.
import { post, put, remove } from "./api.js";
import { button, by, element, labelled } from "./dom.js";
import { effect } from "./format.js";

const SHOWN_MS = 30000;

// Views look again at once.
const changed = () => dispatchEvent(new Event("weir-changed"));

export function tell(text, kind = "good", ...more) {
  const message = element("p", { class: `message ${kind}` }, text, " ", ...more, button("×", () => message.remove(), { class: "small", "aria-label": "Close" }));
  by("told").append(message);
  setTimeout(() => message.remove(), SHOWN_MS);
}

// `undo` does the opposite, and is offered until the message goes.
function done(text, undo) {
  const back = undo && button("Undo", async (event) => {
    event.target.closest(".message").remove();
    try {
      await undo();
      tell("Undone.");
    } catch (problem) {
      tell(problem.message, "bad");
    }
    changed();
  });
  tell(text, "good", ...(back ? [back] : []));
  changed();
}

export const undoChange = (id, text = `Change ${id} is undone.`) => post("/v1/undo", { id }).then((made) =>
  done(text, () => post("/v1/undo", { id: made.id })));

// A form in a dialog. submit() gets its values; what it throws is shown, and the form stays open.
function ask({ title, text, fields = [], label, isBad, submit, changed: onChange }) {
  const wrong = element("p", { class: "bad", role: "alert" });
  const form = element("form", {}, ...fields, wrong, element("div", { class: "choices" },
    element("button", { class: isBad ? "danger" : "main" }, label), button("Cancel", () => dialog.close())));
  const heading = element("h2", { id: "dialog-title" }, title);
  const dialog = element("dialog", { "aria-labelledby": "dialog-title" }, heading, text ? element("p", {}, text) : null, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await submit(Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()])));
      dialog.close();
    } catch (problem) {
      wrong.textContent = problem.message;
    }
  });
  if (onChange) form.addEventListener("change", () => onChange(form));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  if (onChange) onChange(form);
  dialog.showModal();
}

const LENGTHS = [["15m", "15 minutes"], ["1h", "1 hour"], ["4h", "4 hours"], ["1d", "1 day"], ["7d", "7 days"], ["at", "until …"], ["", "no end"]];

function ending(chosen) {
  const select = element("select", { name: "for" }, ...LENGTHS.map(([value, text]) => element("option", { value, ...(value === chosen && { selected: "" }) }, text)));
  const at = element("input", { type: "datetime-local", name: "until" }), when = labelled("Until", at);
  when.hidden = true;
  select.addEventListener("change", () => {
    when.hidden = select.value !== "at";
    at.required = select.value === "at";
  });
  return [labelled("For", select), when];
}

const reason = () => labelled("Reason", element("input", { name: "reason", maxlength: "500", placeholder: "for the audit log" }));

// The members that say when it ends and why.
function endOf(values) {
  const end = values.for === "at" ? { expires_ms: new Date(values.until).getTime() } : values.for ? { for: values.for } : {};
  return { ...end, ...(values.reason && { reason: values.reason }) };
}

const EFFECTS = { block: "Block", exempt: "Exempt", limit: "Another limit", plan: "A plan" };

// `whom`: {policy, rule, by, tag} or {policy, attributes}, and `called`, for people.
export function override(whom, chosen, plans = []) {
  const effects = Object.entries(EFFECTS).filter(([kind]) => kind !== "plan" || plans.length > 0);
  const kind = element("select", { name: "effect" }, ...effects.map(([value, text]) => element("option", { value, ...(value === chosen && { selected: "" }) }, text)));
  const limit = labelled("Limit", element("input", { name: "limit", type: "number", min: "0" }));
  const plan = labelled("Plan", element("select", { name: "plan" }, ...plans.map((name) => element("option", {}, name))));
  ask({
    title: `${whom.called} in ${whom.policy}`, label: EFFECTS[chosen], isBad: chosen === "block",
    fields: [labelled("Do", kind), limit, plan, ...ending(chosen === "block" ? "1h" : "1d"), reason()],
    changed(form) {
      limit.hidden = kind.value !== "limit";
      limit.querySelector("input").required = kind.value === "limit";
      plan.hidden = kind.value !== "plan";
      form.querySelector("button").textContent = EFFECTS[kind.value];
      form.querySelector("button").className = kind.value === "block" ? "danger" : "main";
    },
    async submit(values) {
      const { called, ...named } = whom;
      const what = values.effect === "limit" ? { limit: Number(values.limit) } : values.effect === "plan" ? { plan: values.plan } : { effect: values.effect };
      const made = await put("/v1/overrides", { ...named, ...what, ...endOf(values) });
      done(`${called} in ${whom.policy}: ${effect(made)} is in force.`, () => post("/v1/undo", { id: made.id }));
    },
  });
}

// In all policies, to a value of one attribute.
export function assignPlan(whom, plans) {
  ask({
    title: `Plan of ${whom.called}`, label: "Assign", text: "In all policies that have this plan.",
    fields: [labelled("Plan", element("select", { name: "plan" }, ...plans.map((name) => element("option", {}, name)))), ...ending(""), reason()],
    async submit(values) {
      const { called, ...named } = whom;
      const made = await put("/v1/plans", { ...named, plan: values.plan, ...endOf(values) });
      done(`${called} is on plan ${made.plan}.`, () => post("/v1/undo", { id: made.id }));
    },
  });
}

export function removeChange(kind, o, called) {
  ask({
    title: `Remove ${effect(o)} of ${called}`, label: "Remove", fields: [reason()],
    async submit(values) {
      const made = await remove(`/v1/${kind}?id=${o.id}`, { reason: values.reason });
      done("Removed.", () => post("/v1/undo", { id: made.id }));
    },
  });
}

export function switchMode(policy, mode, fileMode) {
  const path = `/v1/policies/${encodeURIComponent(policy)}/mode`, back = (made) => () => post("/v1/undo", { id: made.id });
  if (mode === "file")
    return ask({
      title: `${policy}: back to ${fileMode}`, text: "The mode of the policy file.", label: "Switch back", fields: [reason()],
      async submit(values) {
        done(`${policy} has the mode of the file.`, back(await remove(path, { reason: values.reason })));
      },
    });
  const meaning = { enforce: "Its limits deny.", shadow: "Nothing is denied; what would have been is counted.", off: "Everything is allowed, and nothing is counted." };
  return ask({
    title: `${policy}: ${mode}`, text: meaning[mode], label: `Switch to ${mode}`, isBad: mode !== "enforce", fields: [...ending(mode === "enforce" ? "" : "1h"), reason()],
    async submit(values) {
      done(`${policy} is in mode ${mode}.`, back(await post(path, { mode, ...endOf(values) })));
    },
  });
}

// What was used of each rule is counted again by a charge. That is exact if all rules have counted the
// same; otherwise there is no way back, and the question says so.
const correct = (policy, attributes, change) => post("/v1/corrections", { policy, attributes, ...change });

const why = (values) => (values.reason ? { reason: values.reason } : {});

export function reset({ policy, attributes, called }, used) {
  const same = used.every((n) => n === used[0]), canUndo = same && used[0] > 0;
  ask({
    title: `Reset ${called} in ${policy}`, label: "Reset", isBad: true, fields: [reason()],
    text: `What is counted is forgotten${canUndo ? "" : "; this cannot be undone"}.`,
    async submit(values) {
      await correct(policy, attributes, { effect: "reset", ...why(values) });
      done(`${called} in ${policy} is reset.`, canUndo && (() => correct(policy, attributes, { effect: "charge", cost: used[0], reason: "undo of a reset" })));
    },
  });
}

export function refund({ policy, attributes, called }) {
  ask({
    title: `Refund ${called} in ${policy}`, label: "Refund", text: "Give back what was counted but did not happen.",
    fields: [labelled("How much", element("input", { name: "cost", type: "number", min: "1", value: "1", required: "" })), reason()],
    async submit(values) {
      const cost = Number(values.cost);
      await correct(policy, attributes, { effect: "refund", cost, ...why(values) });
      done(`${called} in ${policy}: ${cost} given back.`, () => correct(policy, attributes, { effect: "charge", cost, reason: "undo of a refund" }));
    },
  });
}

export function reload(changes) {
  ask({
    title: "Reload the policies?", label: "Reload", text: `${changes}. Tokens and certificates are read again, too.`,
    async submit() {
      const said = await post("/v1/reload");
      done(`Reloaded: ${said.changes}.`);
    },
  });
}
