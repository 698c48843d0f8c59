// app.js - the console: one view at a time, by the address, and a poll that keeps it fresh.
import { get } from "./api.js";
import { by, element, link } from "./dom.js";
import { duration, plural, zone } from "./format.js";
import { edition, hurry, noteLook, pause } from "./pace.js";
import { address, where } from "./router.js";
import { isOpen, learn, maySee, mayRead, showSession, signInForm } from "./session.js";
import { budgets } from "./budgets.js";
import { changes } from "./changes.js";
import { identities } from "./identities.js";
import { overview } from "./overview.js";
import { policies } from "./policies.js";

const VIEWS = { overview, policies, identities, budgets, changes };
const RETRY_MS = 2000;

let current = null, timer, isLooking = false, isLate = false, known = "", title = "weir";

function problem(text) {
  by("problem").hidden = !text;
  by("problem").textContent = text ?? "";
}

function showState(stats, ready) {
  const word = stats.draining ? "ending" : stats.store.has_failed ? "store failed" : ready?.ready === false ? "not ready" : "well";
  const alerts = stats.alerts_firing ? plural(stats.alerts_firing, "alert") : "";
  by("state").replaceChildren(word, ...(alerts ? [", ", link(alerts, address("overview"))] : []));
  document.title = (stats.alerts_firing ? `(${stats.alerts_firing}) ` : word === "well" ? "" : "(!) ") + title;
  by("state").className = word !== "well" ? "bad" : alerts ? "warn" : "good";
  by("about").textContent = `weir ${stats.version}, up ${duration(stats.now_ms - stats.started_ms)}, ${plural(stats.threads, "thread")}.`;
}

function showViews(chosen) {
  const offered = Object.entries(VIEWS).filter(([, view]) => mayRead() || view.isForNumbers);
  by("views").hidden = !maySee();
  by("views").replaceChildren(...offered.map(([name, view]) =>
    link(view.title, address(name), name === chosen ? { "aria-current": "page" } : {})));
}

// The view that the address names, or the first that there is.
function enter() {
  const place = where(), name = VIEWS[place.view] && (mayRead() || VIEWS[place.view].isForNumbers) ? place.view : "overview";
  if (!maySee()) return;
  const next = VIEWS[name];
  if (next !== current) {
    by("main").replaceChildren(next.page);
    if (current) by("main").focus();
    current = next;
  }
  title = `${place.name || next.title} · weir`;
  document.title = title;
  showViews(name);
  next.enter(place);
  isLate = true;
  again();
}

// A hidden page only keeps its title true.
async function look() {
  const stats = await get("/v1/stats"), ready = await get("/readyz");
  noteLook(stats);
  showState(stats, ready);
  if (document.hidden) return;
  const isChanged = isLate || known !== edition(stats);
  await current.look({ stats, ready, isLate: isChanged });
  known = edition(stats);
  isLate = false;
}

async function again() {
  clearTimeout(timer);
  if (isLooking || !maySee() || !current) return;
  const began = performance.now(), wanted = current;
  isLooking = true;
  try {
    await look();
    problem(null);
    if (current !== wanted) isLate = true;
  } catch (found) {
    noteLook(null);
    if (found.status === 401) start();
    else problem(found.message);
    isLate = true;
  }
  isLooking = false;
  const isWaitedFor = isLate && !by("problem").textContent && !document.hidden;
  timer = setTimeout(again, isWaitedFor ? 0 : pause(performance.now() - began));
}

async function start() {
  current = null;
  by("main").replaceChildren();
  let why;
  try {
    why = await learn();
  } catch (found) {
    problem(found.message);
    timer = setTimeout(start, RETRY_MS);
    return;
  }
  problem(why);
  showSession(start);
  showViews();
  by("state").replaceChildren();
  if (maySee()) enter();
  else if (!isOpen() || why) by("main").replaceChildren(signInForm(start));
}

addEventListener("hashchange", enter);
addEventListener("weir-changed", () => {
  isLate = true;
  hurry();
  again();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  isLate = true;
  again();
});
by("main").append(element("p", { class: "faint" }, "Loading …"));
setTimeout(() => by("zone").textContent = `Times are in ${zone()}.`); // in a frame of its own, as browsers load tables for it
start();
