// format.js - how numbers, times and limits are written.

// Made when they are needed first, and then kept: making one takes as long as some hundred uses.
const made = new Map();
function written(kind, name, options, value) {
  if (!made.has(name)) made.set(name, new kind(kind === Intl.NumberFormat ? "en" : [], options));
  return made.get(name).format(value);
}

export function count(n) {
  return Number.isInteger(n) ? written(Intl.NumberFormat, "count", {}, n) : n.toFixed(n < 10 ? 1 : 0);
}

export const percent = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(1)} %` : "–");

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; n >= 1000 && unit < units.length - 1; unit++) n /= 1000;
  return `${unit ? n.toFixed(1) : n} ${units[unit]}`;
}

export function duration(ms) {
  for (const [size, unit] of [[86400000, "d"], [3600000, "h"], [60000, "m"], [1000, "s"]]) {
    if (ms >= size && (ms % size === 0 || ms >= 10 * size)) return `${Math.floor(ms / size)}${unit}`;
    if (ms >= 2 * size) return `${Math.floor(ms / size)}${unit}`;
  }
  return `${Math.round(ms)}ms`;
}

export const time = (ms) => written(Intl.DateTimeFormat, "time", { dateStyle: "short", timeStyle: "short" }, ms);
export const hour = (ms) => written(Intl.DateTimeFormat, "hour", { timeStyle: "short" }, ms);
export const day = (ms) => written(Intl.DateTimeFormat, "day", { day: "numeric", month: "short" }, ms);
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;
export const until = (ms) => (ms ? time(ms) : "removed by hand");
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

export function limit(rule) {
  if (rule.limit === 0) return "always denied";
  const burst = rule.burst && rule.burst !== rule.limit ? `, burst ${rule.burst}` : "";
  const per = rule.window_ms ? `per ${duration(rule.window_ms)}` : "at once";
  return `${count(rule.limit)} ${rule.counts ? `${rule.counts} ` : ""}${per}${burst}${rule.algorithm ? `, ${rule.algorithm.replace("_", " ")}` : ""}`;
}

// What a change of an operator does.
export function effect(o) {
  if (o.kind === "reload") return o.effect === "failed" ? "reload failed" : "policies loaded";
  if (o.effect === "limit") return `limit ${o.limit ?? "unchanged"}${o.burst ? `, burst ${o.burst}` : ""}`;
  if (o.effect === "mode") return `mode ${o.mode}`;
  if (o.cost) return `${o.effect} ${count(o.cost)}`;
  return o.effect === "plan" ? `plan ${o.plan}` : o.effect;
}

// A change in a sentence.
export const changeText = (e) => (e.kind === "reload" ? `${effect(e)} on ${e.instance} (${e.who}): ${e.reason}`
  : `${e.effect === "removed" ? `${e.kind} removed` : effect(e)}${e.policy ? ` in ${e.policy}` : ""}, by ${e.who}${e.reason ? `: ${e.reason}` : ""}`);
