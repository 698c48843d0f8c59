// app.js - the dashboard: polls the server, each part at its own interval.
import { showAlerts } from "./alerts.js";
import { get, useToken } from "./api.js";
import { listenToUsage, offerUsage, showHeld } from "./budgets.js";
import { by } from "./dom.js";
import { showHistory } from "./history.js";
import { look } from "./live.js";
import { listenToOverrides, showOverrides } from "./overrides.js";
import { showPolicies } from "./policies.js";
import { showShadow } from "./shadow.js";

const LOOK_MS = 2000, SLOW_LOOKS = 5; // slow parts are polled every SLOW_LOOKS polls

let looks = 0, timer, isLooking = false;

// Without a token nothing is known: show neither data nor "there is none".
function lock(isLocked) {
  by("locked").hidden = !isLocked;
  document.querySelector("main").hidden = isLocked;
}

function tell(problem) {
  const to = by("problem");
  if (problem?.status === 401 || problem?.status === 403) lock(true);
  to.hidden = !problem;
  if (!problem) return;
  to.textContent = problem.status === 401 || problem.status === 403
    ? `${problem.message}. Type a token with scope admin above.` : problem.message;
}

async function lookAtAll() {
  const stats = await get("/v1/stats");
  lock(false);
  await look(stats);
  showHeld(stats);
  if (looks % SLOW_LOOKS === 0) {
    let policies = null;
    try {
      policies = await showPolicies();
    } catch (problem) {
      if (problem.status !== 403) throw problem; // scope metrics may read numbers only
    }
    offerUsage(policies);
    await showHistory(policies?.map((p) => p.policy));
    await showOverrides(policies);
    await showShadow();
    await showAlerts();
  }
  looks++;
}

async function again() {
  clearTimeout(timer);
  if (!isLooking && !document.hidden) {
    isLooking = true;
    try {
      await lookAtAll();
      tell(null);
    } catch (problem) {
      tell(problem);
      looks = 0;
    }
    isLooking = false;
  }
  timer = setTimeout(again, LOOK_MS);
}

by("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(by("token").value);
  by("token").value = "";
  looks = 0;
  again();
});
by("history-form").addEventListener("change", () => showHistory().catch(tell));
document.addEventListener("visibilitychange", again);
listenToOverrides();
listenToUsage();
again();
