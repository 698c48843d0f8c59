// drive.js - opens the pages that `weir replay --html` has written in a real browser, and says what it saw.
//
//     NODE_PATH=… node drive.js CHROMIUM FOLDER PICTURE
//
// FOLDER has week.html, compared.html and hostile.html.
const { contrasts, runAll } = require("../dashboard/browser.js");
const assert = require("node:assert");

const [, , executablePath, folder, picture] = process.argv;
const PAGES = ["week.html", "compared.html", "hostile.html"];
const scenarios = [];
const scenario = (name, run) => scenarios.push({ name, run });

async function open(browser, file, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, ...options });
  const page = await context.newPage();
  page.requests = [];
  page.complaints = [];
  page.on("request", (request) => page.requests.push(request.url()));
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => page.complaints.push(message.text()));
  await page.goto(`file://${folder}/${file}`);
  return page;
}

// What is wider than its place, or reaches out of the window; and labels of an axis that touch.
const cutOff = (width) => {
  const found = [];
  const name = (at) => `${at.tagName}.${at.getAttribute("class")} ${at.textContent.slice(0, 30)}`;
  for (const at of document.querySelectorAll("body *")) {
    if (!at.checkVisibility() || at.closest("svg") && at.tagName !== "svg") continue;
    const box = at.getBoundingClientRect();
    if (box.left < -0.5 || box.right > width + 0.5) found.push(`${name(at)}: ${box.left} to ${box.right}`);
    if (getComputedStyle(at).display !== "inline" && at.scrollWidth > at.clientWidth + 1 && !at.matches("svg, .ticks, .mark"))
      found.push(`${name(at)}: ${at.scrollWidth} in ${at.clientWidth}`);
  }
  for (const ticks of document.querySelectorAll(".ticks")) {
    const boxes = [...ticks.children].map((at) => at.getBoundingClientRect());
    boxes.slice(1).forEach((box, i) => box.left < boxes[i].right + 2 && found.push(`labels touch: ${ticks.textContent}`));
  }
  return found;
};

for (const [what, width] of [["a desktop", 1100], ["a tablet", 768], ["a phone", 390], ["a small phone", 320]]) {
  scenarios.push({ name: `nothing is cut off on ${what}`, run: async (browser) => {
    for (const file of PAGES) {
      const page = await open(browser, file, { viewport: { width, height: 800 }, isMobile: width < 700, hasTouch: width < 700 });
      for (const table of await page.getByText("As a table").all()) await table.click();
      assert.equal((await page.evaluate(cutOff, width)).join("\n"), "", file + ": " + await page.evaluate(cutOff, width));
      assert((await page.locator("svg.requests rect").first().boundingBox()).height > 0);
    }
  } });
}

scenario("it can be read by light and in the dark", async (browser) => {
  const backs = [];
  for (const colorScheme of ["light", "dark"])
    for (const file of PAGES) {
      const page = await open(browser, file, { colorScheme });
      backs.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
      assert.deepEqual(await page.evaluate(contrasts), [], `${file}, ${colorScheme}`);
      // Drawings need 3 to 1 against what is behind them.
      const weak = await page.evaluate(() => {
        const light = (colour) => {
          const [r, g, b] = colour.match(/[\d.]+/g).map((n) => n / 255).map((n) => (n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const back = light(getComputedStyle(document.querySelector("section")).backgroundColor);
        return [...document.querySelectorAll("rect, line")].filter((at) => {
          const style = getComputedStyle(at), front = light(at.tagName === "line" ? style.stroke : style.fill);
          return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05) < 3;
        }).length;
      });
      assert.equal(weak, 0, `${file}, ${colorScheme}`);
    }
  assert.notEqual(backs[0], backs.at(-1));
});

scenario("it asks for nothing and has no scripts", async (browser) => {
  for (const file of PAGES) {
    const page = await open(browser, file);
    await page.waitForLoadState("networkidle");
    assert.deepEqual(page.requests.filter((asked) => asked !== `file://${folder}/${file}` && asked !== "data:,"), []);
    assert.deepEqual(page.complaints, []);
    assert.equal(await page.evaluate(() => document.scripts.length), 0);
    await page.evaluate(() => document.body.append(Object.assign(document.createElement("script"), { textContent: "window.broken = 1" })));
    assert.equal(await page.evaluate(() => window.broken), undefined, "a script would not run");
    assert(page.complaints.some((text) => /Content Security Policy/.test(text)), String(page.complaints));
  }
});

scenario("hostile names stand for themselves", async (browser) => {
  const page = await open(browser, "hostile.html");
  const text = await page.evaluate(() => document.body.textContent);
  for (const name of ['<script>window.hacked=1</script>', '"><img src=x onerror=window.hacked=1>', "</style><b>"]) assert(text.includes(name), name);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("img, script, iframe, object, form, input").count(), 0);
  assert(await page.title().then((title) => title.includes("<script>")));
});

scenario("it can be used without seeing it", async (browser) => {
  const page = await open(browser, "compared.html");
  assert.equal(await page.locator("html").getAttribute("lang"), "en");
  assert.equal(await page.locator("h1").count(), 1);
  assert.equal(await page.locator("th:not([scope])").count(), 0);
  assert.equal(await page.locator("svg:not([role=img]), svg:not([aria-label])").count(), 0);
  assert.equal(await page.locator("main").count(), 1);
  const levels = await page.locator("h1, h2, h3").evaluateAll((all) => all.map((at) => Number(at.tagName[1])));
  levels.slice(1).forEach((level, i) => assert(level <= levels[i] + 1, String(levels)));
  const links = await page.locator("a").evaluateAll((all) => all.map((at) => document.querySelector(at.getAttribute("href"))?.tagName));
  assert(links.length > 1 && links.every((tag) => tag === "SECTION"), String(links));
});

scenario("a picture is taken", async (browser) => {
  const page = await open(browser, "week.html", { viewport: { width: 900, height: 1000 } });
  const top = await page.locator("#rule-0").boundingBox();
  await page.setViewportSize({ width: 900, height: Math.ceil(top.height) + 40 });
  await page.locator("#rule-0").screenshot({ path: picture });
});

runAll(scenarios, executablePath);
