// api.js - asks the server that the page came from, with the token that was typed in.

const KEPT = "weir-token";
let token = sessionStorage.getItem(KEPT) || "";

export function useToken(text) {
  token = text.trim();
  if (token) sessionStorage.setItem(KEPT, token);
  else sessionStorage.removeItem(KEPT);
}

// What a server said was wrong; `status` is 0 if it could not be reached.
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
export const put = (path, body) => call("PUT", path, body);
export const remove = (path, body) => call("DELETE", path, body);

// What this token may not see, or this server does not have, is no trouble: null.
export async function getIfAllowed(path) {
  try {
    return await get(path);
  } catch (problem) {
    if ([401, 403, 404].includes(problem.status)) return null;
    throw problem;
  }
}
