// api.js - requests to the page's own server, and the token that they show.
//
// The token is in memory only, and gone with the page, unless its holder asks to keep it until the
// tab is closed. It is sent in a header and never in a cookie, so no other site can use it.

const KEPT = "weir-token";
let token = sessionStorage.getItem(KEPT) || "";

export function useToken(text, isKept) {
  token = text.trim();
  if (token && isKept) sessionStorage.setItem(KEPT, token);
  else sessionStorage.removeItem(KEPT);
}

export const hasToken = () => token !== "";

// An error answer of the server; `status` is 0 if the server is unreachable.
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function call(method, path, body) {
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  let response, said;
  try {
    response = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: "no-store" });
    said = await response.json();
  } catch {
    throw new Problem(response?.status ?? 0, "the server cannot be reached");
  }
  if (response.ok || path === "/readyz") return said;
  throw new Problem(response.status, said.detail || response.statusText);
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const put = (path, body) => call("PUT", path, body);
export const remove = (path, body) => call("DELETE", path, body);

// What the token does not permit, or a store that is away cannot tell, is not there: null.
export async function getIfAllowed(path) {
  try {
    return await get(path);
  } catch (problem) {
    if ([403, 404, 503].includes(problem.status)) return null;
    throw problem;
  }
}
