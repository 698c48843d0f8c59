// browser.js - what tests in a real browser share: scenarios one after the other, and what can be read.
const { chromium } = require("playwright-core");

// The ratio of WCAG, of every text on the page against what is behind it.
const contrasts = () => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map((n) => n / 255).map((n) => (n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (at) => {
    for (; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const at of document.querySelectorAll("body *")) {
    const has = [...at.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!has || !at.checkVisibility() || at.closest("svg, .hidden, .skip, option")) continue;
    const [a, b] = [light(getComputedStyle(at).color), light(behind(at))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`${at.tagName} ${at.textContent.slice(0, 20)}`);
  }
  return found;
};

// Prints one JSON object a scenario: {"name": …} and, if it failed, "error". WEIR_TEST_SCENARIO: only
// those whose name has this in it.
async function runAll(scenarios, executablePath) {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  for (const { name, run } of scenarios.filter((one) => one.name.includes(process.env.WEIR_TEST_SCENARIO ?? ""))) {
    let error;
    try {
      await run(browser);
    } catch (problem) {
      error = problem.stack || String(problem);
    }
    for (const context of browser.contexts()) await context.close();
    console.log(JSON.stringify({ name, error }));
  }
  await browser.close();
  process.exit(0);
}

module.exports = { contrasts, runAll };
