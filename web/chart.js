// chart.js - a bar chart over time on a canvas, sparklines, and what is used of a limit.
//
// Written by hand: stacked bars with marks, a cursor and a range to drag are what is needed, and no
// library is to be fetched when the page is built. The canvas has as many columns as it has pixels at
// most, so the time for a frame does not grow with the history.
import { drawn, element } from "./dom.js";
import { count, day, hour, time } from "./format.js";

const KINDS = ["denied", "fallback", "shadow_denied", "allowed"]; // from the bottom
const COLOURS = { denied: "--bad", fallback: "--blue", shadow_denied: "--warn", allowed: "--good", axis: "--line", tick: "--faint", mark: "--text" };
const HEIGHT = 200, LEFT = 44, BOTTOM = 20, TOP = 14;
const NEAR = 5, MOST_TOLD = 3; // pixels to a mark, and marks at once in the line below

function short(n) {
  if (n >= 1e6) return `${+(n / 1e6).toFixed(1)}M`;
  return n >= 1e3 ? `${+(n / 1e3).toFixed(1)}k` : `${+n.toFixed(1)}`;
}

// The least of 1, 2, 5, 10, 20 … that is as much: so the half of it is a round number, too.
function round(n) {
  const size = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 4, 5, 10].map((step) => step * size).find((step) => step >= n);
}

// So many round times lie between both, at most.
const STEPS = [1, 5, 15, 30, 60, 180, 360, 720, 1440, 2880, 10080, 20160].map((minutes) => minutes * 60000);

function ticks(since, until, most) {
  const step = STEPS.find((one) => (until - since) / one <= most) ?? (until - since) / most;
  const zone = new Date(until).getTimezoneOffset() * 60000, found = [];
  for (let at = Math.ceil((since - zone) / step) * step + zone; at < until; at += step) found.push(at);
  return { step, found };
}

const tickText = (at, step) => (step < 86400000 ? hour(at) : day(at));

// shadow_denied and fallback are parts of allowed and denied, and are drawn inside their bars.
function parts(s) {
  const fallback = Math.min(s.fallback, s.allowed), shadow = Math.min(s.shadow_denied, s.allowed - fallback);
  return { denied: s.denied, fallback, shadow_denied: shadow, allowed: s.allowed - fallback - shadow };
}

// Bars that would share a pixel become one.
function columns(steps, since, until, step, most) {
  const wide = Math.max(1, Math.ceil((until - since) / step / most)) * step, found = new Map();
  for (const s of steps) {
    const at = since + Math.floor((s.at - since) / wide) * wide;
    const sum = found.get(at);
    if (!sum) found.set(at, { ...s, at });
    else for (const kind of ["allowed", "denied", "shadow_denied", "fallback"]) sum[kind] += s[kind];
  }
  return { bars: [...found.values()], wide };
}

// draw() takes {steps, since, until, step, label, marks: [{at, text}]}. chosen(since, until) is called
// with a range that was dragged.
export function chart(chosen) {
  const canvas = element("canvas", { tabindex: "0", role: "img", class: "chart", "aria-label": "History" }), said = element("output", { class: "faint readout" });
  const whole = element("div", { class: "chart-box" }, canvas, said);
  let shown = null, bars = [], wide = 0, cursor = -1, from = null, to = null;

  const at = (px) => shown.since + ((px - LEFT) / (canvas.clientWidth - LEFT)) * (shown.until - shown.since);

  function paint() {
    if (!shown || canvas.clientWidth === 0) return;
    const style = getComputedStyle(canvas), colour = (name) => style.getPropertyValue(COLOURS[name]);
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, context = canvas.getContext("2d");
    const x = (when) => LEFT + ((when - shown.since) / (shown.until - shown.since)) * (width - LEFT);
    canvas.width = width * scale;
    canvas.height = HEIGHT * scale;
    context.scale(scale, scale);
    context.font = "11px system-ui, sans-serif";
    ({ bars, wide } = columns(shown.steps, shown.since, shown.until, shown.step, width - LEFT));
    const most = round(Math.max(1, ...bars.map((s) => s.allowed + s.denied))), tall = HEIGHT - BOTTOM - TOP;
    for (const share of [0, 0.5, 1]) {
      const y = TOP + tall * (1 - share);
      context.fillStyle = colour("axis");
      context.fillRect(LEFT, Math.round(y), width - LEFT, 1);
      context.fillStyle = colour("tick");
      context.textAlign = "right";
      context.fillText(short(most * share), LEFT - 6, y + 4);
    }
    const bar = Math.max(1, ((width - LEFT) * wide) / (shown.until - shown.since) - 0.5);
    const tops = bars.map(() => TOP + tall), split = bars.map(parts);
    for (const kind of KINDS) {
      context.fillStyle = colour(kind);
      for (let i = 0; i < bars.length; i++) {
        const high = (split[i][kind] * tall) / most;
        tops[i] -= high;
        if (high > 0) context.fillRect(x(bars[i].at), tops[i], bar, high);
      }
    }
    context.fillStyle = colour("mark");
    for (const mark of shown.marks ?? []) {
      const middle = Math.min(x(mark.at), width - 5); // one of just now is not cut off
      context.fillRect(middle, TOP, 1, tall);
      context.beginPath();
      context.moveTo(middle - 4, TOP - 8);
      context.lineTo(middle + 5, TOP - 8);
      context.lineTo(middle + 0.5, TOP);
      context.fill();
    }
    context.fillStyle = colour("tick");
    context.textAlign = "center";
    const { step, found } = ticks(shown.since, shown.until, (width - LEFT) / 90);
    for (const when of found.filter((one) => x(one) > LEFT + 20 && x(one) < width - 20)) {
      context.fillRect(x(when), TOP + tall, 1, 4);
      context.fillText(tickText(when, step), x(when), HEIGHT - 4);
    }
    if (bars[cursor]) context.strokeRect(x(bars[cursor].at) - 0.5, TOP, bar + 1, tall);
    if (from !== null && to !== null) {
      context.globalAlpha = 0.2;
      context.fillRect(Math.min(from, to), TOP, Math.abs(to - from), tall);
      context.globalAlpha = 1;
    }
    canvas.dataset.bars = bars.length;
    canvas.dataset.marks = shown.marks?.length ?? 0;
  }

  const barText = (s) => `${time(s.at)}: ${count(s.allowed)} allowed, ${count(s.denied)} denied` +
    (s.shadow_denied ? `, ${count(s.shadow_denied)} shadow-denied` : "") + (s.fallback ? `, ${count(s.fallback)} by fallback` : "");

  // The bar, and the marks in it or within a few pixels of the pointer.
  function point(i, px) {
    cursor = Math.max(-1, Math.min(bars.length - 1, i));
    const s = bars[cursor], near = (shown?.marks ?? []).filter((m) => (s && m.at >= s.at && m.at < s.at + wide) || (m.at >= at(px - NEAR) && m.at <= at(px + NEAR)));
    said.textContent = [...(s ? [barText(s)] : []), ...near.slice(-MOST_TOLD).map((m) => `▼ ${time(m.at)} ${m.text}`),
      ...(near.length > MOST_TOLD ? [`and ${near.length - MOST_TOLD} more, in the table`] : [])].join(". ");
    paint();
  }

  const nearest = (px) => bars.findLastIndex((s) => s.at <= at(px));

  canvas.addEventListener("pointermove", (event) => {
    if (from !== null) to = event.offsetX;
    point(nearest(event.offsetX), event.offsetX);
  });
  canvas.addEventListener("pointerleave", () => from === null && point(-1));
  canvas.addEventListener("pointerdown", (event) => {
    from = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", (event) => {
    const [low, high] = [from, event.offsetX].sort((a, b) => a - b);
    from = to = null;
    if (high - low > 8 && at(high) - at(low) >= 2 * 60000) chosen(Math.round(at(Math.max(low, LEFT))), Math.round(at(high)));
    else point(nearest(event.offsetX), event.offsetX);
  });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") point(-1);
    if (steps === undefined) return;
    event.preventDefault();
    point(Math.max(0, cursor < 0 && Number.isFinite(steps) ? bars.length - 1 : cursor + steps));
  });
  new ResizeObserver(paint).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  return {
    whole,
    draw(next) {
      shown = next;
      canvas.setAttribute("aria-label", next.label);
      paint();
    },
  };
}

export function legend(totals, marks) {
  const names = { allowed: "allowed", denied: "denied", shadow_denied: "shadow-denied", fallback: "by fallback" };
  return [...Object.entries(names).filter(([kind]) => kind === "allowed" || kind === "denied" || totals[kind] > 0)
    .flatMap(([kind, name]) => [element("span", { class: `key ${kind}` }), `${name} ${count(totals[kind])}`]),
  ...(marks ? [element("span", { class: "key change" }, "▼"), `${marks} change${marks === 1 ? "" : "s"}`] : [])];
}

const BAR_WIDTH = 120, BAR_HEIGHT = 12;

// Used, then held, of what the rule can hold.
export function bar(rule) {
  const all = Math.max(1, rule.used + (rule.held ?? 0) + rule.left), part = (n) => (BAR_WIDTH * n) / all;
  const text = `${count(rule.used)} used, ${rule.held === null ? "held unknown" : `${count(rule.held)} held`}, ${count(rule.left)} left`;
  return drawn("svg", { viewBox: `0 0 ${BAR_WIDTH} ${BAR_HEIGHT}`, class: "bar", role: "img", "aria-label": text },
    drawn("rect", { width: BAR_WIDTH, height: BAR_HEIGHT, class: "left" }),
    drawn("rect", { width: part(rule.used), height: BAR_HEIGHT, class: "used" }),
    drawn("rect", { x: part(rule.used), width: part(rule.held ?? 0), height: BAR_HEIGHT, class: "held" }));
}

// A line over `most` places, the newest at the right.
export function spark(values, most, kind = "line") {
  const top = Math.max(1e-9, ...values), first = most - values.length;
  const points = values.map((v, i) => `${first + i},${(19 - (18 * v) / top).toFixed(1)}`);
  return drawn("svg", { viewBox: `0 0 ${most} 20`, class: "spark", preserveAspectRatio: "none", "aria-hidden": "true" },
    points.length > 1 ? drawn("polyline", { points: points.join(" "), class: kind }) : null);
}
