// dom.js - elements and tables. Texts are never parsed as HTML.
import { count } from "./format.js";

export const by = (id) => document.getElementById(id);

function build(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

export const element = (name, attributes = {}, ...children) => build(document.createElement(name), attributes, children);

export const drawn = (name, attributes = {}, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

export function button(text, act, attributes = {}) {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

export const link = (text, href, attributes = {}) => element("a", { href, ...attributes }, text);

// A tag is shortened; its title has all of it.
export const tag = (text) => element("code", { title: text }, text.slice(0, 12));

export function section(title, ...children) {
  const heading = element("h2", { id: `s${++sections}` }, title);
  return element("section", { "aria-labelledby": heading.id }, heading, ...children);
}
let sections = 0;

// An input and its label beside it.
export function labelled(text, input) {
  input.id ||= `f${++fields}`;
  return element("div", { class: "field" }, element("label", { for: input.id }, text), input);
}
let fields = 0;

export const numeric = (text) => ({ isNumber: true, text });

// What has been done so far can be drawn before the rest: no frame has to wait for all of a view.
export const breathe = () => new Promise((done) => setTimeout(done));

// ---- tables ---------------------------------------------------------------------------------------

function cell(content, column, isFirst) {
  const isNumber = typeof content === "number" || content?.isNumber;
  const inside = isNumber ? (content.text ?? count(content)) : content ?? "";
  return element(isFirst ? "th" : "td", { ...(isFirst && { scope: "row" }), class: isNumber ? "number" : null, "data-label": column.title }, inside);
}

// Only what differs is replaced, so that a button that is being pressed stays where it is.
function update(old, next) {
  const cells = [...old.children];
  [...next.children].forEach((made, i) => {
    if (!cells[i].isEqualNode(made)) cells[i].replaceWith(made);
  });
}

// `columns`: titles, or {title, number, hidden}. fill() takes rows of texts, numbers and elements.
export function table(caption, columns, none, attributes = {}) {
  const heads = columns.map((c) => (typeof c === "string" ? { title: c } : c));
  const body = element("tbody", attributes);
  const made = element("table", {}, element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...heads.map((h) => element("th", { scope: "col", class: h.number ? "number" : null },
      h.hidden ? element("span", { class: "hidden" }, h.title) : h.title)))), body);
  const empty = element("p", { class: "faint" }, none);
  const whole = element("div", { class: "scroll" }, made, empty);
  return {
    whole, caption,
    texts: () => [heads.map((h) => h.title), ...[...body.rows].map((row) => [...row.cells].map((c) => c.textContent))],
    fill(rows) {
      const old = [...body.rows], next = rows.map((cells) => element("tr", {}, ...cells.map((content, i) => cell(content, heads[i], i === 0))));
      next.forEach((row, i) => (old[i] ? update(old[i], row) : body.append(row)));
      old.slice(next.length).forEach((row) => row.remove());
      made.hidden = rows.length === 0;
      empty.hidden = rows.length > 0;
    },
  };
}
