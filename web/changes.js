// changes.js - the audit log with a way back, and a reload that says first what it would change.
import { get } from "./api.js";
import { reload, tell, undoChange } from "./actions.js";
import { button, element, link, section, table, tag } from "./dom.js";
import { effect, time, until } from "./format.js";
import { csvButton } from "./csv.js";
import { address } from "./router.js";
import { mayAct } from "./session.js";

const NEWEST = 200;
const log = table("Changes, newest first", ["When", "Who", "What", "Policy", "Whom or where", "Until", "Why", { title: "Act", hidden: true }], "No changes yet.", { id: "audit" });
const last = element("p", { id: "reload-state" }), diff = table("A reload would change", ["Policy and rule", "Change", "Was", "Is"], "A reload would change no policy.", { id: "diff" });
const preview = button("What would a reload change?", look), run = button("Reload …", () => reload(sentence), { class: "main" });
const choices = element("div", { class: "choices" }, preview, run);
const page = element("div", {}, section("Policy file", last, choices, diff.whole), section("Changes", csvButton("changes", log), log.whole));
let sentence = "";

const members = (object) => Object.entries(object).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");

async function look() {
  try {
    const said = await get("/v1/reload");
    sentence = said.changes;
    diff.whole.hidden = false;
    diff.fill(said.diff.map((d) => [`${d.policy}${d.rule ? `/${d.rule}` : ""}`, d.change, d.change === "added" ? "" : members(d.was), d.change === "removed" ? "" : members(d.is)]));
    run.hidden = !mayAct();
  } catch (problem) {
    diff.whole.hidden = true;
    run.hidden = true;
    tell(problem.message, "bad");
  }
}

// The last change of what can hold can be taken back, unless it is over.
function undoable(entries, now) {
  const seen = new Set(), can = new Set();
  for (const e of entries) {
    const about = [e.kind, e.policy, e.rule, e.tag].join("\n");
    if (!seen.has(about) && e.kind !== "correction" && e.kind !== "reload" && (e.effect === "removed" || !e.expires_ms || e.expires_ms > now)) can.add(e.id);
    seen.add(about);
  }
  return can;
}

function undoButton(e) {
  return button("Undo", async () => {
    try {
      await undoChange(e.id);
    } catch (problem) {
      tell(problem.message, "bad");
    }
  }, { class: "small", "aria-label": `Undo change ${e.id}` });
}

function showLog(entries, now) {
  const newest = entries.reverse(), can = undoable(newest, now), holds = (e) => e.effect !== "removed" && e.kind !== "correction" && e.kind !== "reload";
  log.fill(newest.map((e) => [time(e.at_ms), e.who, e.kind === "override" || e.effect !== "removed" ? effect(e) : `${e.kind} removed`,
    e.policy ? link(e.policy, address("policies", e.policy)) : e.kind === "reload" ? "" : "all",
    e.tag ? link(tag(e.tag), address("identities", "", { tag: e.tag })) : e.instance ?? "", holds(e) ? until(e.expires_ms) : "", e.reason, mayAct() && can.has(e.id) ? undoButton(e) : ""]));
}

export const changes = {
  title: "Changes", page,
  enter() {
    diff.whole.hidden = true;
    run.hidden = true;
  },
  async look({ stats, isLate }) {
    if (!isLate) return;
    const told = await get("/v1/policies");
    last.className = told.reload.problem ? "bad" : "";
    last.textContent = told.reload.problem ? `The last reload failed: ${told.reload.problem}` :
      `${told.file ?? "No policy file"}${told.reload.last_ms ? `, loaded ${time(told.reload.last_ms)}` : ""}.`;
    preview.hidden = !told.file;
    showLog((await get(`/v1/audit?newest=${NEWEST}`)).entries, stats.now_ms);
  },
};
