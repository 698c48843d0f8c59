// dom.js - elements, and the format of numbers and times. Texts are never parsed as HTML.

export const by = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A table row of texts and elements; numbers are right-aligned.
export function row(...cells) {
  return element("tr", {}, ...cells.map((cell, i) => {
    const isNumber = typeof cell === "number" || cell?.isNumber;
    const content = isNumber ? (cell.text ?? count(cell)) : cell;
    return element(i ? "td" : "th", i ? (isNumber ? { class: "number" } : {}) : { scope: "row" }, content);
  }));
}

export const numeric = (text) => ({ isNumber: true, text });

// Without rows the table is hidden, and the element `none` is shown.
export function fill(body, rows, none) {
  body.replaceChildren(...rows);
  if (none) none.hidden = rows.length > 0;
  body.closest("table").hidden = rows.length === 0;
}

export function count(n) {
  return Number.isInteger(n) ? n.toLocaleString("en") : n.toFixed(n < 10 ? 1 : 0);
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

export const time = (ms) => new Date(ms).toLocaleString([], { dateStyle: "short", timeStyle: "short" });

// A hash is shortened; its title has all of it.
export function tag(text) {
  return element("code", { title: text }, text.slice(0, 12));
}
