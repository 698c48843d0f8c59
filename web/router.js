// router.js - which view the address names: #/VIEW/NAME?since=7d

export function where() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, name] = path.split("/");
  let decoded = "";
  try {
    decoded = decodeURIComponent(name ?? "");
  } catch {
    // an address that was typed badly names nothing
  }
  return { view: view || "overview", name: decoded, query: new URLSearchParams(query ?? "") };
}

export function address(view, name = "", query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${view}${name ? `/${encodeURIComponent(name)}` : ""}${words ? `?${words}` : ""}`;
}

export function go(view, name, query) {
  location.hash = address(view, name, query);
}
