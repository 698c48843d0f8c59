// shadow.js - limits on trial, beside what is live.
import { getIfAllowed } from "./api.js";
import { by, count, duration, fill, numeric, row } from "./dom.js";

const share = (side) => numeric(`${count(side.refused)} (${side.refused_percent.toFixed(2)} %)`);

export async function showShadow() {
  const told = await getIfAllowed("/v1/shadow");
  by("shadow-panel").hidden = !told;
  if (!told) return;
  fill(by("shadow"), told.trials.map((t) => row(t.policy, t.rule, `${t.limit} per ${duration(t.window_ms)}`,
    t.tried.requests, share(t.tried), share(t.live), numeric(`${count(t.tried.refused_identities)} of ${count(t.tried.identities)}`))),
  by("no-shadow"));
}
