// session.js - who uses the page, and what the token allows.
import { get, hasToken, useToken } from "./api.js";
import { button, by, element, labelled } from "./dom.js";

let known = { name: null, scopes: [], is_needed: true };

export const may = (...wanted) => wanted.some((one) => known.scopes.includes(one));
export const mayAct = () => may("admin");
export const mayRead = () => may("admin", "view");
export const isOpen = () => known.scopes.length > 0;

// Numbers are all that metrics may read; with no more than check or reset there is nothing to see.
export const maySee = () => may("admin", "view", "metrics");

export async function learn() {
  try {
    known = await get("/v1/token");
  } catch (problem) {
    known = { name: null, scopes: [], is_needed: true };
    if (problem.status !== 401) throw problem;
    return hasToken() ? "there is no such token" : null;
  }
  return maySee() ? null : `the token has the scope ${known.scopes.join(", ")}, which shows nothing here`;
}

export function signInForm(done) {
  const input = element("input", { id: "token", type: "password", spellcheck: "false", autocomplete: "off", required: "" });
  const kept = element("input", { type: "checkbox", id: "kept" });
  const form = element("form", { class: "sign-in" }, element("h2", {}, "Sign in"),
    element("p", { class: "faint" }, "This server needs a token: scope view to look, admin to act, metrics for the numbers only."),
    labelled("Token", input), element("label", { class: "inline" }, kept, "Keep it until this tab is closed"), element("button", {}, "Sign in"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    useToken(input.value, kept.checked);
    input.value = "";
    done();
  });
  return element("section", { "aria-label": "Sign in" }, form);
}

export function showSession(signedOut) {
  const to = by("session");
  if (!isOpen()) return to.replaceChildren();
  if (!known.is_needed) return to.replaceChildren(element("span", { class: "faint" }, "no token needed"));
  return to.replaceChildren(element("span", { title: `scopes: ${known.scopes.join(", ")}` }, `${known.name ?? "signed in"} `,
    element("span", { class: "faint" }, `(${known.scopes.join(", ")})`)), " ",
  button("Sign out", () => {
    useToken("", false);
    signedOut();
  }));
}
