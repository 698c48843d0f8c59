// alerts.js - the alerts of the policy file and their current state.
import { getIfAllowed } from "./api.js";
import { by, count, duration, element, fill, numeric, row, time } from "./dom.js";

function amount(alert, n) {
  if (alert.condition === "deny_rate") return `${n} %`;
  return alert.condition === "breaker_open" ? duration(n) : count(n);
}

function about(one) {
  if (one.code) return one.code;
  return [one.policy, one.rule, one.tag?.slice(0, 12)].filter(Boolean).join(" ");
}

export async function showAlerts() {
  const told = await getIfAllowed("/v1/alerts");
  by("alerts-panel").hidden = !told?.alerts.length;
  if (!told) return;
  fill(by("alerts"), told.alerts.map((a) => {
    const isFiring = a.state === "firing";
    const more = a.firing_count > a.firing.length && a.firing.length ? ` and ${a.firing_count - a.firing.length} more` : "";
    return row(a.alert, element("span", { class: isFiring ? "bad" : "good" }, a.state), a.condition.replace("_", " "),
      a.policy ?? "any", numeric(amount(a, a.value)), numeric(amount(a, a.over)), duration(a.window_ms),
      isFiring ? time(a.since_ms) : "", a.firing.map(about).join(", ") + more);
  }));
}
