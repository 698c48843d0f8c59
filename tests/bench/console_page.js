// console_page.js - opens the console in a browser some times, then for a while, and says what it asked for and how long its tasks took.
//
//     NODE_PATH=… node console_page.js CHROMIUM URL LOADS SECONDS
//
// Prints one JSON object: {requests: [[at, path]…], loads: [[cpu, wall]…], tasks: [[cpu, wall]…], points: ms}. A task is what the page's
// main thread does without a break: scripts, layout and paint of a frame. Of each load, the longest task; then all tasks of the open page, as ms
// of the processor, which other work of the machine hardly changes, and of the clock. points is a chart of 10,000.
const { chromium } = require("playwright-core");
const [, , executablePath, url, loads, seconds] = process.argv;
const PATIENCE = 120000, LOOKS = 4, MARK = "weir-console";

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

// What the page's main thread did meanwhile, the longest first. The browser's own surface has such threads, too.
async function traced(browser, page, act) {
  await browser.startTracing(page, { categories: ["toplevel", "blink.user_timing"] });
  await act();
  await page.evaluate((mark) => performance.mark(mark), MARK);
  const { traceEvents } = JSON.parse(await browser.stopTracing());
  const place = (event) => `${event.pid} ${event.tid}`;
  const pages = new Set(traceEvents.filter((one) => one.name === MARK).map((one) => one.pid));
  const main = new Set(traceEvents.filter((one) => one.name === "thread_name" && one.args.name === "CrRendererMain" && pages.has(one.pid)).map(place));
  const tasks = traceEvents.filter((one) => one.name === "ThreadControllerImpl::RunTask" && one.tdur !== undefined && main.has(place(one)));
  if (tasks.length === 0) throw new Error("this browser does not tell what its tasks take");
  return tasks.map((one) => [one.tdur / 1000, one.dur / 1000]).sort((a, b) => b[0] - a[0]);
}

(async () => {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] }), longest = [];
  let page, requests;
  for (let i = 0; i < Number(loads); i++) {
    await page?.context().close();
    page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
    page.setDefaultTimeout(PATIENCE);
    requests = [];
    page.on("request", (one) => requests.push([Date.now(), new URL(one.url()).pathname + new URL(one.url()).search]));
    const tasks = await traced(browser, page, async () => {
      await page.goto(`${url}/#/overview?since=7d`);
      await page.locator("#checks tr").first().waitFor();
      await page.locator("canvas[data-bars]").first().waitFor();
      await page.waitForTimeout(1000);
    });
    longest.push(tasks[0]);
  }
  const tasks = await traced(browser, page, async () => {
    const ends = Date.now() + 1000 * Number(seconds), mostLate = ends + PATIENCE;
    const looks = () => requests.filter(([, path]) => path === "/v1/stats").length;
    while (Date.now() < ends || (looks() < LOOKS && Date.now() < mostLate)) await page.waitForTimeout(200); // a page that is slow asks less often
  });
  console.log(JSON.stringify({ requests, loads: longest, tasks, points: await page.evaluate(points) }));
  await browser.close();
})();
