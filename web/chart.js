// chart.js - bar charts over time as SVG, and sparklines in a table.
import { drawn, element, time } from "./dom.js";

const KINDS = ["denied", "fallback", "shadow_denied", "allowed"]; // from the bottom
const WIDTH = 720, HEIGHT = 200, LEFT = 44, BOTTOM = 18, TOP = 6;

function short(n) {
  if (n >= 1e6) return `${+(n / 1e6).toFixed(1)}M`;
  return n >= 1e3 ? `${+(n / 1e3).toFixed(1)}k` : `${+n.toFixed(1)}`;
}

// `steps`: one {at, allowed, denied, shadow_denied, fallback} for each bar. shadow_denied and fallback
// are parts of allowed and denied, and are drawn inside their bars.
export function bars(steps, since, until, step, label) {
  const split = (s) => {
    const denied = s.denied, fallback = Math.min(s.fallback, s.allowed), shadow = Math.min(s.shadow_denied, s.allowed - fallback);
    return { denied, fallback, shadow_denied: shadow, allowed: s.allowed - fallback - shadow };
  };
  const most = Math.max(1, ...steps.map((s) => s.allowed + s.denied));
  const height = HEIGHT - BOTTOM - TOP, scale = height / most;
  const columns = Math.max(1, Math.ceil((until - since) / step)), width = (WIDTH - LEFT) / columns;
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const share of [0, 0.5, 1]) {
    const y = TOP + height * (1 - share);
    svg.append(drawn("line", { x1: LEFT, x2: WIDTH, y1: y, y2: y, class: "axis" }),
      drawn("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end", class: "tick" }, short(most * share)));
  }
  for (const s of steps) {
    const parts = split(s), x = LEFT + ((s.at - since) / step) * width;
    let y = TOP + height;
    for (const kind of KINDS) {
      const tall = parts[kind] * scale;
      if (tall <= 0) continue;
      y -= tall;
      svg.append(drawn("rect", { x: x.toFixed(2), y: y.toFixed(2), width: Math.max(width - 0.5, 0.5).toFixed(2), height: tall.toFixed(2), class: kind },
        drawn("title", {}, `${time(s.at)}: ${s.allowed} allowed, ${s.denied} denied`)));
    }
  }
  svg.append(drawn("text", { x: LEFT, y: HEIGHT - 4, class: "tick" }, time(since)),
    drawn("text", { x: WIDTH, y: HEIGHT - 4, "text-anchor": "end", class: "tick" }, time(until)));
  return svg;
}

export function legend(totals) {
  const names = { allowed: "allowed", denied: "denied", shadow_denied: "shadow-denied", fallback: "by fallback" };
  return Object.entries(names).filter(([kind]) => kind === "allowed" || kind === "denied" || totals[kind] > 0)
    .flatMap(([kind, name]) => [element("span", { class: `key ${kind}` }), `${name} ${totals[kind].toLocaleString("en")}`]);
}

// The sparkline of a rule: denied below, allowed above.
export function spark(points, most) {
  const svg = drawn("svg", { viewBox: `0 0 ${most} 20`, class: "spark", preserveAspectRatio: "none", "aria-hidden": "true" });
  const top = Math.max(1, ...points.map((p) => p.allowed + p.denied));
  points.forEach((p, i) => {
    const x = most - points.length + i, denied = (20 * p.denied) / top, allowed = (20 * p.allowed) / top;
    if (denied > 0) svg.append(drawn("rect", { x, y: 20 - denied, width: 0.9, height: denied, class: "denied" }));
    if (allowed > 0) svg.append(drawn("rect", { x, y: 20 - denied - allowed, width: 0.9, height: allowed, class: "allowed" }));
  });
  return svg;
}
