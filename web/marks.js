// marks.js - what was changed, as marks of a chart: reloads, overrides, plans, modes; of one policy also corrections.
import { getIfAllowed } from "./api.js";
import { changeText } from "./format.js";
import { mayRead } from "./session.js";

const NEWEST = 1000;
let entries = [];

export async function lookAtMarks() {
  entries = (mayRead() ? await getIfAllowed(`/v1/audit?newest=${NEWEST}`) : null)?.entries ?? [];
}

const concerns = (e, policy) => e.kind === "reload" || (policy ? !e.policy || e.policy === policy : e.kind !== "correction");

export const marksOf = (policy = "") => entries.filter((e) => concerns(e, policy)).map((e) => ({ at: e.at_ms, text: changeText(e) }));
