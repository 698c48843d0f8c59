// policies.js - the policies in force, with the lines they come from.
import { get } from "./api.js";
import { by, duration, fill, row, time } from "./dom.js";

function limit(rule) {
  if (rule.limit === 0) return "always denied";
  const burst = rule.burst && rule.burst !== rule.limit ? `, burst ${rule.burst}` : "";
  const per = rule.window_ms ? `per ${duration(rule.window_ms)}` : "at once";
  return `${rule.limit} ${per}${burst}, ${rule.algorithm.replace("_", " ")}`;
}

function mode(policy, rule) {
  const now = policy.live_mode;
  const live = now ? ` (now ${now.mode}${now.expires_ms ? `, until ${time(now.expires_ms)}` : ""})` : "";
  return rule.mode + (rule.shadow_limit ? `, in shadow: ${limit(rule.shadow_limit)}` : "") + live;
}

// Returns the policies, for the selects of other parts.
export async function showPolicies() {
  const told = await get("/v1/policies");
  by("policy-file").textContent = told.file
    ? `${told.file}${told.enabled ? "" : ", switched off by WEIR_ENABLED"}` : "No policy file: limits come with requests.";
  by("reload-problem").textContent = told.reload.problem ?? "";
  by("reload-problem").hidden = !told.reload.problem;
  fill(by("policies"), told.policies.flatMap((policy) => policy.rules.map((rule) =>
    row(policy.policy, rule.rule, limit(rule), rule.by.join(", ") || "all together", mode(policy, rule),
      policy.on_error, rule.line))));
  return told.policies;
}
