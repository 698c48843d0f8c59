// shadow.js - limits in shadow, next to the enforced ones.
import { getIfAllowed } from "./api.js";
import { by, count, duration, fill, numeric, row } from "./dom.js";

const share = (side) => numeric(`${count(side.denied)} (${side.denied_percent.toFixed(2)} %)`);

export async function showShadow() {
  const told = await getIfAllowed("/v1/shadow");
  by("shadow-panel").hidden = !told;
  if (!told) return;
  by("shadow-replay").textContent = told.replay;
  fill(by("shadow"), told.limits.map((t) => row(t.policy, t.rule, `${t.limit} ${t.window_ms ? `per ${duration(t.window_ms)}` : "at once"}`,
    t.shadow.checks, share(t.shadow), share(t.enforced), numeric(`${count(t.shadow.denied_identities)} of ${count(t.shadow.identities)}`))),
  by("no-shadow"));
}
