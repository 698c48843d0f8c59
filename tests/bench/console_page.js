// console_page.js - opens the console in a browser for a while, and says what it did and how long its frames took.
//
//     NODE_PATH=… node console_page.js CHROMIUM URL SECONDS
//
// Prints one JSON object: {requests: [[at, path]…], frames: [[at, ms]…], long_tasks: [[at, ms]…], loaded: at, points: ms}. A frame is the time that
// the page's own code took from an answer to what is drawn; long_tasks are those of more than 50 ms, as the browser counts;
// points is a chart of 10,000.
const { chromium } = require("playwright-core");
const [, , executablePath, url, seconds] = process.argv;

const watch = () => {
  window.longTasks = [];
  window.frames = [];
  new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((one) => [one.startTime, one.duration]))).observe({ type: "longtask" });
  const parse = Response.prototype.json;
  Response.prototype.json = async function json() {
    const said = await parse.call(this), began = performance.now();
    setTimeout(() => window.frames.push([began, performance.now() - began])); // what waits for the answer runs before it
    return said;
  };
};

const points = async () => {
  const { chart } = await import(document.querySelector("script[type=module]").src.replace("app.js", "chart.js"));
  const steps = Array.from({ length: 10000 }, (_, i) => ({ at: i * 60000, allowed: i % 97, denied: i % 7, shadow_denied: 1, fallback: 0 }));
  const drawing = chart(() => {}), times = [];
  document.querySelector("main").append(drawing.whole);
  for (let i = 0; i < 20; i++) {
    const began = performance.now();
    drawing.draw({ steps, since: 0, until: 600000000, step: 60000, label: "many", marks: [] });
    times.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
  }
  return times.sort((a, b) => a - b)[10];
};

(async () => {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage(), requests = [];
  await page.addInitScript(watch);
  const began = Date.now();
  page.on("request", (one) => requests.push([Date.now() - began, new URL(one.url()).pathname + new URL(one.url()).search]));
  await page.goto(`${url}/#/overview?since=7d`);
  await page.locator("#checks tr").first().waitFor();
  await page.waitForTimeout(1000);
  const loaded = await page.evaluate(() => performance.now());
  await page.waitForTimeout(1000 * Number(seconds));
  const said = await page.evaluate(() => ({ frames: window.frames, long_tasks: window.longTasks }));
  console.log(JSON.stringify({ requests, ...said, loaded, points: await page.evaluate(points) }));
  await browser.close();
})();
