// drive.js - opens the console in a real browser, does what operators do, and says what it saw.
//
//     NODE_PATH=… node drive.js CHROMIUM FOLDER URL SECURED_URL DATABASE_URL SHARED_URL SHARED_URL SHARED_URL
//
// FOLDER has the policy file of URL and gets the pictures. DATABASE_URL has other policies in its database. The last three
// share a store, which can be stopped. Each scope has a token: `a-token-to-SCOPE-here`. Prints one JSON object a scenario:
// {"name": …} and, if it failed, "error". When it needs a push of the policies, or the store to be stopped, it says so
// and reads a line from stdin.
const { runAll } = require("./browser.js");
const assert = require("node:assert");
const fs = require("node:fs");
const readline = require("node:readline");

const [, , executablePath, folder, url, secured, database, ...shared] = process.argv;
const PATIENCE = 60000, TOKEN = "a-token-to-admin-here", VIEWS = ["overview", "policies", "policies/login", "identities", "budgets", "changes"];
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const scenarios = [];
const scenario = (name, run) => scenarios.push({ name, run });

async function ask(method, path, body, server = url) {
  const response = await fetch(server + path, { method, headers: { Authorization: `Bearer ${TOKEN}`,
    ...(body && { "Content-Type": "application/json" }) }, body: body && JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
}

const check = async (policy, key, server) => (await ask("POST", "/v1/check", { policy, key }, server)).body;
const tagOf = async (policy, key, server) => (await ask("POST", "/v1/peek", { policy, key, tag: true }, server)).body.tag;

async function attack(times = 20, server = url) {
  for (let i = 0; i < times; i++) await check("login", "203.0.113.7", server);
  for (let i = 0; i < 8; i++) await check("search", `192.0.2.${i}`, server);
}

async function open(browser, options = {}, server = url, view = "") {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: "en-GB", timezoneId: "UTC", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.requests = [];
  page.complaints = [];
  page.on("request", (request) => page.requests.push(request.url()));
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !/40[0134] \(/.test(message.text())) page.complaints.push(message.text());
  });
  await page.goto(`${server}/${view && `#/${view}`}`);
  return page;
}

async function signIn(page, scope = "admin") {
  await page.getByLabel("Token").fill(`a-token-to-${scope}-here`);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("link", { name: "Overview" }).waitFor();
}

async function enter(browser, view, { options, server, scope } = {}) {
  const page = await open(browser, options, server, view);
  await signIn(page, scope);
  return page;
}

async function goTo(page, view) {
  await page.evaluate((to) => (location.hash = `#/${to}`), view);
  await page.locator("main section").first().waitFor();
}

async function until(condition, what) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await condition();
    if (found) return found;
    assert(Date.now() < end, `waited for ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

const cells = (page, selector) => page.locator(`${selector} tr`).evaluateAll((rows) =>
  rows.map((row) => [...row.children].map((cell) => cell.textContent)));
const visible = (page) => until(async () => (await page.locator("main tbody tr:visible, main canvas:visible, main .faint:visible").count()) > 0, "something to see");
const message = (page, text) => page.locator("#told").getByText(text);
const undo = (page) => page.locator("#told").getByRole("button", { name: "Undo" }).last().click();
const confirm = (page, name) => page.getByRole("dialog").getByRole("button", { name, exact: true }).click();

const answers = readline.createInterface({ input: process.stdin });
const wanted = async (what) => {
  const done = new Promise((answered) => answers.once("line", answered));
  console.log(JSON.stringify({ wants: what }));
  await done;
};

const none = (found, where) => assert(found.length === 0, `${where}: ${JSON.stringify(found)}`);

async function lookUp(page, value) {
  await page.getByLabel("Value").fill(value);
  await page.getByRole("button", { name: "Look up" }).click();
}

// ---- who may see what -----------------------------------------------------------------------------

scenario("without a token it shows nothing and asks for one", async (browser) => {
  const page = await open(browser, {}, url, "policies");
  await page.getByLabel("Token").waitFor();
  assert.equal(await page.locator("table").count(), 0);
  assert.equal(await page.getByRole("navigation").count(), 0);
  await page.getByLabel("Token").fill("a-token-that-is-unknown");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("there is no such token").waitFor();
  await signIn(page);
  await page.locator("#policies tr").first().waitFor(); // the link leads where it did
  await page.reload(); // the token was in memory only
  await page.getByLabel("Keep it until this tab is closed").check();
  await signIn(page);
  await page.reload();
  await page.locator("#policies tr").first().waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

scenario("a screen on a wall sees everything and can do nothing", async (browser) => {
  await attack();
  const page = await enter(browser, "identities", { scope: "view" });
  await page.locator("#top tr").first().waitFor();
  assert.match(await page.locator("#session").textContent(), /view \(view\)/);
  assert.equal(await page.getByRole("button", { name: /Block|Exempt|Limit|Remove/ }).count(), 0);
  assert.equal(await page.getByRole("button", { name: "Look up" }).count(), 0);
  await goTo(page, "policies/login");
  await page.locator("#rules tr").first().waitFor();
  assert.equal(await page.getByRole("button", { name: "off", exact: true }).isDisabled(), true);
  await goTo(page, "changes");
  await page.getByRole("button", { name: "What would a reload change?" }).click();
  await page.getByText("A reload would change no policy").waitFor();
  assert.equal(await page.getByRole("button", { name: /Reload …|Undo/ }).count(), 0);
  await goTo(page, "overview");
  await page.locator("#tiles .tile").first().waitFor();
  assert.deepEqual(page.complaints, []);
});

scenario("a token for metrics shows numbers alone", async (browser) => {
  const page = await enter(browser, "identities", { scope: "metrics" });
  await page.locator("#tiles .tile").first().waitFor();
  assert.deepEqual(await page.getByRole("navigation").getByRole("link").allTextContents(), ["Overview", "Budgets"]);
  const useless = await open(browser);
  await useless.getByLabel("Token").fill("a-token-to-check-here");
  await useless.getByRole("button", { name: "Sign in" }).click();
  await useless.getByText("the token has the scope check, which shows nothing here").waitFor();
});

// ---- overview -------------------------------------------------------------------------------------

scenario("rates and tiles change while one looks", async (browser) => {
  const page = await enter(browser, "overview");
  await until(async () => {
    await attack();
    const row = (await cells(page, "#checks")).find(([policy]) => policy === "login");
    return row && Number(row[2]) > 0 && Number(row[5].replaceAll(",", "")) > 10;
  }, "a rate of denials");
  assert.match(await page.locator("#health").textContent(), /^The server is ready, the store answers/);
  const tiles = await page.locator("#tiles .tile").allTextContents();
  assert.equal(tiles.length, 6);
  assert.match(tiles[0], /^Checks\/s[\d.,]+ to [\d.,]+ in the last hour$/);
  assert(await page.locator("#tiles svg polyline").count() >= 3, "sparklines from history");
  assert.match(await page.locator("#store").textContent(), /Statewell/);
  await page.locator("#checks").getByRole("link", { name: "login", exact: true }).click();
  await page.getByRole("heading", { name: "login" }).waitFor();
});

scenario("sparklines are there at the first look", async (browser) => {
  await attack();
  await until(async () => (await ask("GET", "/v1/history?since=10m&step=1m&policy=login")).body.checks.length > 0, "the attack in the history");
  const page = await enter(browser, "overview"), lines = (where) => page.locator(`${where} polyline`).evaluateAll((all) =>
    all.map((one) => one.getAttribute("points").split(" ").map((point) => Number(point.split(",")[1]))));
  await page.locator("#checks tr").first().waitFor();
  const tiles = await lines("#tiles");
  assert(tiles.length >= 3 && tiles.slice(0, 3).every((line) => line.length === 60), JSON.stringify(tiles));
  assert(tiles[0].some((y) => y < 19) && tiles[1].some((y) => y < 19), "the attack");
  assert((await lines("#checks")).some((line) => line.length === 60 && line.some((y) => y < 19)), "the attack, by policy");
  assert.match(await page.locator(".tile small").first().textContent(), /^[\d.,]+ to [\d.,]+ in the last hour$/);
  assert.equal(page.requests.filter((asked) => asked.endsWith("/v1/stats")).length, 1);
  await goTo(page, "policies");
  await page.locator("#policies tr").first().waitFor();
  assert((await lines("#policies")).some((line) => line.length === 60), "of the list");
});

scenario("the poll hurries after a change, rests while nothing changes, and sleeps while hidden", async (browser) => {
  const page = await enter(browser, "policies", { server: shared[1] }), asked = (what) => page.requests.filter((one) => one.includes(what)).length;
  await page.locator("#policies tr").first().waitFor();
  const looks = async (n) => {
    const seen = asked("/v1/stats");
    await until(() => asked("/v1/stats") >= seen + n, `${n} looks`);
  };
  await looks(1);
  const minute = () => Math.floor(Date.now() / 60000), from = minute(), before = asked("/v1/policies");
  await looks(3);
  assert(asked("/v1/policies") - before <= minute() - from, "policies that have not changed are asked for once a minute");
  await ask("POST", "/v1/policies/query/mode", { mode: "shadow", for: "1h" }, shared[2]);
  await until(async () => (await cells(page, "#policies")).some((row) => row[0] === "query" && /^shadow until/.test(row[3])), "the mode of another operator");
  await goTo(page, "policies/query");
  await page.getByRole("button", { name: "As in the file" }).click();
  await confirm(page, "Switch back");
  await message(page, "query has the mode of the file").waitFor();
  const paces = await page.evaluate(async () => {
    const { hurry, noteLook, pause } = await import(document.querySelector("script[type=module]").src.replace("app.js", "pace.js"));
    const stats = { checks: [{ allowed: 1, denied: 0 }] }, found = {};
    hurry();
    found.hurried = pause(0);
    found.slow = pause(1000);
    const now = performance.now;
    performance.now = () => now.call(performance) + 60000; // a minute later
    noteLook(stats);
    found.usual = pause(0);
    for (let i = 0; i < 10; i++) noteLook(stats);
    found.calm = pause(0);
    noteLook({ checks: [{ allowed: 2, denied: 0 }] });
    found.busy = pause(0);
    for (let i = 0; i < 3; i++) noteLook(null);
    found.away = pause(0);
    noteLook(stats);
    performance.now = now;
    Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
    document.dispatchEvent(new Event("visibilitychange"));
    found.hidden = pause(0);
    return found;
  });
  assert.deepEqual(paces, { hurried: 500, slow: 20000, usual: 2000, calm: 5000, busy: 2000, away: 8000, hidden: 60000 });
  const asleep = asked("/v1/stats");
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => false });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await until(() => asked("/v1/stats") > asleep, "a look at once");
});

scenario("what needs attention is said, with what to do", async (browser) => {
  const page = await enter(browser, "overview");
  for (let i = 0; i < 3; i++) assert.equal((await check("logn", "203.0.113.7")).code, "no_such_policy");
  await page.locator("#attention li", { hasText: "3 checks without an answer in the last 5m: there is no policy 'logn': did you mean 'login'? (no_such_policy, by http, 3 times)" }).waitFor();
  await attack(40);
  const alert = page.locator("#attention li", { hasText: "Alert login-attack" });
  await alert.waitFor();
  await until(async () => /1 alert$/.test(await page.locator("#state").textContent()), "it at the top");
  await alert.getByRole("link", { name: /Go there/ }).click();
  await page.getByRole("heading", { name: "login" }).waitFor();
  const file = fs.readFileSync(`${folder}/policies.yaml`, "utf8");
  fs.writeFileSync(`${folder}/policies.yaml`, "version: 1\npolicies: {login: {limit: none}}\n");
  assert.equal((await ask("POST", "/v1/reload")).status, 422);
  await goTo(page, "overview");
  await page.locator("#attention li", { hasText: "The last reload failed" }).waitFor();
  fs.writeFileSync(`${folder}/policies.yaml`, file);
  assert.equal((await ask("POST", "/v1/reload")).status, 200);
});

scenario("a certificate that ends soon is told", async (browser) => {
  const page = await enter(browser, "overview", { server: secured, options: { ignoreHTTPSErrors: true } });
  await page.locator("#attention li", { hasText: /The certificate expires \d\d\/.* Replace its file and reload/ }).waitFor();
});

// ---- history --------------------------------------------------------------------------------------

scenario("a range is chosen by button, by dragging and by link, and values are read by keyboard", async (browser) => {
  const page = await enter(browser, "overview");
  const canvas = page.locator("canvas.chart"), label = async () => await canvas.getAttribute("aria-label") ?? "";
  await until(async () => /all policies, last 24h/.test(await label()), "a day");
  await page.getByRole("button", { name: "7 d" }).click();
  await until(async () => /last 7d/.test(await label()), "a week");
  assert.match(page.url(), /#\/overview\?since=7d$/);
  await canvas.hover({ position: { x: 500, y: 90 } });
  await until(async () => /\d+ allowed, \d+ denied/.test(await page.locator(".readout").textContent()), "what is under the mouse");
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + 500, box.y + 90);
  await page.mouse.down();
  await page.mouse.move(box.x + 800, box.y + 90, { steps: 5 });
  await page.mouse.up();
  await until(async () => / to /.test(await label()), "what was dragged");
  assert.match(page.url(), /from=\d+&to=\d+$/);
  const same = (text) => text.replace(/: .*/, ""), there = await enter(browser, page.url().split("#/")[1]);
  await until(async () => same(await there.locator("canvas.chart").getAttribute("aria-label") ?? "") === same(await label()), "the same by the link");
  await page.getByRole("button", { name: "7 d" }).click();
  await until(async () => /last 7d/.test(await label()), "the week again");
  await canvas.focus();
  await page.keyboard.press("Home");
  const first = await page.locator(".readout").textContent();
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await page.locator(".readout").textContent(), first);
  await page.getByText("As a table").click();
  const row = await until(async () => (await cells(page, "details")).find((r) => r[0] === "search"), "the table");
  const told = (await ask("GET", "/v1/history?since=7d&policy=search")).body.checks[0].points;
  const shown = Number(row[1].replaceAll(",", "")), sum = told.reduce((total, point) => total + point[1], 0);
  assert(shown > 1000 && Math.abs(shown - sum) < 200, `${shown} and ${sum}`);
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "CSV of Checks" }).click();
  const csv = fs.readFileSync(await (await download).path(), "utf8");
  assert(csv.startsWith("Policy,Allowed,Denied,Share") && csv.includes("\r\nsearch,"), csv);
});

scenario("ten thousand points take less than 50 ms", async (browser) => {
  const page = await enter(browser, "overview");
  await page.locator("canvas.chart").waitFor();
  const took = await page.evaluate(async () => {
    const { chart } = await import(document.querySelector("script[type=module]").src.replace("app.js", "chart.js"));
    const steps = Array.from({ length: 10000 }, (_, i) => ({ at: i * 60000, allowed: i % 97, denied: i % 7, shadow_denied: 1, fallback: 0 }));
    const drawing = chart(() => {}), times = [];
    document.querySelector("main").append(drawing.whole);
    for (let i = 0; i < 9; i++) {
      const began = performance.now();
      drawing.draw({ steps, since: 0, until: 600000000, step: 60000, label: "many", marks: [{ at: 300000000, text: "a mark" }] });
      times.push(performance.now() - began);
    }
    return Math.min(...times); // what the page needs, and not what else the machine does
  });
  console.error(`# a frame of 10,000 points takes ${took.toFixed(1)} ms`);
  assert(took < 50, `${took} ms`);
});

// ---- policies -------------------------------------------------------------------------------------

scenario("policies have their rules, lines and plans", async (browser) => {
  const page = await enter(browser, "policies");
  await page.locator("#policies tr").first().waitFor();
  const told = (await ask("GET", "/v1/policies")).body;
  assert.deepEqual((await cells(page, "#policies")).map((row) => [row[0], row[8]]), told.policies.map((p) => [p.policy, String(p.line)]));
  assert.equal(await page.locator("#policy-file").textContent(), told.file);
  await page.getByLabel("Filter policies").fill("quer");
  await until(async () => (await cells(page, "#policies")).length === 1, "one policy");
  await page.locator("#policies").getByRole("link", { name: "query" }).click();
  await until(async () => (await cells(page, "#plans"))[0]?.[1] === "paid", "its plan");
  assert.match((await cells(page, "#rules"))[0][1], /^1,000 per 1d/);
  await goTo(page, "policies/%2Fapi%2Flogin");
  await page.getByRole("heading", { name: "/api/login" }).waitFor();
  await until(() => page.requests.some((asked) => asked.includes("/v1/history") && asked.endsWith("&policy=%2Fapi%2Flogin")), "its history");
  await goTo(page, "policies/none");
  await page.getByText("There is no such policy").waitFor();
});

scenario("a mode is switched with an end and a reason, marked in the history, and undone", async (browser) => {
  const page = await enter(browser, "policies/query?since=1h");
  await page.getByRole("button", { name: "off", exact: true }).click();
  await page.getByLabel("For", { exact: true }).selectOption("4h");
  await page.getByLabel("Reason").fill("incident <b>42</b>");
  await confirm(page, "Switch to off");
  await message(page, "query is in mode off").waitFor();
  assert.equal((await check("query", "acme")).source, "off");
  await until(async () => /^Mode: off until .* \(file: enforce\)/.test(await page.locator("#policy-facts").textContent()), "the mode");
  const live = (await ask("GET", "/v1/policies")).body.policies.find((p) => p.policy === "query").live_mode;
  assert(Math.abs(live.expires_ms - Date.now() - 4 * 3600000) < 120000);
  await until(async () => Number(await page.locator("canvas.chart").getAttribute("data-marks")) >= 1, "a mark");
  await undo(page);
  await message(page, "Undone").waitFor();
  assert.equal((await check("query", "acme")).source, "store");
  await until(async () => /^Mode: enforce\./.test(await page.locator("#policy-facts").textContent()), "the mode of the file");
  const { entries } = (await ask("GET", "/v1/audit?newest=2")).body;
  assert.deepEqual(entries.map((e) => [e.effect, e.who, e.reason]), [["mode", "token admin", "incident <b>42</b>"], ["removed", "token admin", `undo of ${entries[0].id}`]]);
});

scenario("a shadow is compared with what is enforced, and then enforced", async (browser) => {
  await ask("POST", "/v1/policies/search/mode", { mode: "shadow" });
  await attack(1);
  await attack(1);
  const page = await enter(browser, "policies/search");
  const rows = await until(async () => {
    const found = await cells(page, "#shadow");
    return found.some((row) => Number(row[2].replaceAll(",", "")) > 0) && found;
  }, "a comparison");
  assert(rows.every((row) => /^[\d,]+ \(\d+\.\d\d %\)$/.test(row[3]) && / of /.test(row[5])), JSON.stringify(rows));
  await page.getByRole("button", { name: "Enforce search" }).first().click();
  await confirm(page, "Switch to enforce");
  await message(page, "search is in mode enforce").waitFor();
  assert.equal((await ask("GET", "/v1/policies")).body.policies.find((p) => p.policy === "search").live_mode.mode, "enforce");
  await page.getByRole("button", { name: "As in the file" }).click();
  await confirm(page, "Switch back");
  await message(page, "search has the mode of the file").waitFor();
});

// ---- identities -----------------------------------------------------------------------------------

scenario("a value is looked up, reset and put back", async (browser) => {
  for (let i = 0; i < 3; i++) await check("login", "198.51.100.1");
  const page = await enter(browser, "identities");
  await lookUp(page, "198.51.100.1");
  const row = async () => (await cells(page, "#standing")).find(([name]) => name === "login/default") ?? [];
  await until(async () => (await row())[3] === "3", "what is used");
  const [, by, limit, , left, , resets] = await row();
  assert.deepEqual([by, limit, left], ["ip", "5", "2"]);
  assert.match(resets, /^in \d+m$/);
  assert.equal(await page.locator("#found .tags code").first().getAttribute("title"), await tagOf("login", "198.51.100.1"));
  await page.getByRole("button", { name: "Reset 198.51.100.1 in login" }).click();
  assert.match(await page.getByRole("dialog").textContent(), /What is counted is forgotten\./);
  await confirm(page, "Reset");
  await until(async () => (await row())[3] === "0", "that nothing is used");
  await undo(page);
  await until(async () => (await row())[3] === "3", "what was used");
  await page.getByRole("button", { name: "Refund 198.51.100.1 in login" }).click();
  await page.getByLabel("How much").fill("2");
  await confirm(page, "Refund");
  await until(async () => (await row())[3] === "1", "a refund");
  await lookUp(page, "not an address");
  await until(async () => !(await cells(page, "#standing")).some(([name]) => name.startsWith("login/")), "no address");
});

scenario("a policy that counts by two attributes is looked up with both", async (browser) => {
  const both = { policy: "export", attributes: { tenant: "acme", ip: "198.51.100.9" } };
  await ask("POST", "/v1/check", both);
  const page = await enter(browser, "identities");
  await lookUp(page, "198.51.100.9");
  await page.locator("#found").getByText("For export give tenant, too.").waitFor();
  await page.locator(".lookup").getByLabel("tenant").fill("acme");
  await page.getByRole("button", { name: "Look up" }).click();
  const row = await until(async () => (await cells(page, "#standing")).find(([name]) => name === "export/default"), "both");
  assert.deepEqual([row[1], row[3]], ["tenant, ip", "1"]);
  await page.getByRole("button", { name: "Exempt 198.51.100.9 in export" }).click();
  await confirm(page, "Exempt");
  await message(page, "exempt is in force").waitFor();
  assert.equal((await ask("POST", "/v1/check", both)).body.source, "exempt");
  await undo(page);
  await message(page, "Undone").waitFor();
  assert.equal((await ask("POST", "/v1/check", both)).body.source, "store");
});

scenario("from a denied row to a block on three servers and back", async (browser) => {
  await attack(20, shared[0]);
  const short = (await tagOf("login", "203.0.113.7", shared[0])).slice(0, 12);
  const page = await enter(browser, "identities", { server: shared[0] });
  await page.getByRole("button", { name: `Block ${short} in login` }).click();
  await page.getByLabel("Reason").fill("it hammers");
  await confirm(page, "Block");
  await message(page, "block is in force").waitFor();
  for (const server of shared) await until(async () => (await check("login", "203.0.113.7", server)).source === "blocked", "the block");
  assert.equal((await check("login", "203.0.113.8", shared[1])).source, "store");
  const marked = async () => (await cells(page, "#top")).find((row) => row[0] === short && row[1] === "login")?.[5];
  await until(async () => /^block until/.test(await marked()), "a mark");
  assert.deepEqual((await cells(page, "#overrides"))[0].slice(0, 3), [short, "login", "block"]);
  await undo(page);
  await message(page, "Undone").waitFor();
  for (const server of shared) await until(async () => (await check("login", "203.0.113.7", server)).source !== "blocked", "its end");
  await until(async () => await marked() === "", "no mark");
  await page.locator("#top").getByRole("link", { name: short }).first().click();
  await page.getByRole("heading", { name: `Tag ${short}` }).waitFor();
  await until(async () => (await cells(page, "#tag-changes")).map((row) => row[1]).join() === "removed,block", "its changes");
  assert.deepEqual(page.complaints, []);
});

scenario("a plan is assigned, shown and removed", async (browser) => {
  const page = await enter(browser, "identities");
  await lookUp(page, "planned");
  await page.locator("#found li", { hasText: "as tenant:" }).getByRole("button", { name: "Assign a plan" }).click();
  await confirm(page, "Assign");
  await message(page, "planned is on plan paid").waitFor();
  assert.equal((await check("query", "planned")).limit, 10000);
  await page.locator("#found li", { hasText: "as tenant:" }).getByText(/^plan paid until/).waitFor();
  await page.locator("#found").getByRole("button", { name: /^Remove plan/ }).click();
  await confirm(page, "Remove");
  await message(page, "Removed").waitFor();
  assert.equal((await check("query", "planned")).limit, 1000);
});

scenario("a wrong change is explained, and the form stays", async (browser) => {
  await attack();
  const page = await enter(browser, "identities");
  await page.getByRole("button", { name: /^Limit .* in login$/ }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Limit", { exact: true }).fill("3");
  await dialog.getByLabel("For", { exact: true }).selectOption("at");
  await dialog.getByLabel("Until", { exact: true }).fill("2020-01-01T00:00");
  await confirm(page, "Another limit");
  await dialog.getByText(/in the past/).waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal(await dialog.count(), 0);
});

// ---- changes --------------------------------------------------------------------------------------

scenario("changes have who, what and why, and the last is undone", async (browser) => {
  await ask("PUT", "/v1/overrides", { policy: "query", key: "umbrella", effect: "block", who: "ann", reason: "they <b>flood</b> us" });
  const { id } = (await ask("PUT", "/v1/overrides", { policy: "query", key: "umbrella", limit: 7 })).body;
  const page = await enter(browser, "changes");
  await page.getByRole("button", { name: `Undo change ${id}` }).waitFor();
  const rows = await cells(page, "#audit");
  assert.deepEqual([rows[0][2], rows[1][1], rows[1][2], rows[1][6]], ["limit 7", "ann (token admin)", "block", "they <b>flood</b> us"]);
  assert.equal(await page.getByRole("button", { name: `Undo change ${id - 1}` }).count(), 0);
  await page.getByRole("button", { name: `Undo change ${id}` }).click();
  await message(page, `Change ${id} is undone`).waitFor();
  assert.equal((await check("query", "umbrella")).source, "blocked");
  await page.getByRole("button", { name: `Undo change ${id + 1}` }).waitFor();
  assert.equal((await ask("DELETE", `/v1/overrides?id=${id + 1}`)).status, 200);
});

scenario("a reload says what it would change before it does", async (browser) => {
  const page = await enter(browser, "changes"), file = `${folder}/policies.yaml`, text = fs.readFileSync(file, "utf8");
  fs.writeFileSync(file, text.replace("login:  {limit: 5 per 15m", "login:  {limit: 6 per 15m"));
  await page.getByRole("button", { name: "What would a reload change?" }).click();
  await until(async () => JSON.stringify(await cells(page, "#diff")) === JSON.stringify([["login/default", "changed", "limit: 5", "limit: 6"]]), "the difference");
  assert.equal((await check("login", "198.51.100.77")).limit, 5);
  await page.getByRole("button", { name: "Reload …" }).click();
  await confirm(page, "Reload");
  await message(page, "Reloaded: changed login/default").waitFor();
  assert.equal((await check("login", "198.51.100.77")).limit, 6);
  const row = await until(async () => (await cells(page, "#audit")).find((r) => r[2] === "policies loaded" && r[6] === "changed login/default"), "the reload in the log");
  assert.deepEqual([row[1], row[3], row[5], row[7]], ["token admin", "", "", ""]); // it has no way back
  fs.writeFileSync(file, text);
  assert.equal((await ask("POST", "/v1/reload")).status, 200);
  const marked = async (place) => {
    await page.goto(`${url}/#/${place}?since=1h`);
    await page.locator("summary", { hasText: "As a table" }).click();
    await until(async () => (await cells(page, ".marks")).filter((r) => /^policies loaded on .* \(token admin\): changed login\/default$/.test(r[1])).length >= 2, `both reloads on ${place}`);
  };
  await marked("overview");
  await marked("policies/login");
});

// ---- budgets --------------------------------------------------------------------------------------

scenario("what is used and what is held stand apart", async (browser) => {
  const page = await enter(browser, "budgets");
  const of = { policy: "model", attributes: { tenant: "acme" } };
  const made = (await ask("POST", "/v1/reserve", { ...of, costs: { tokens: 30000 }, ttl_ms: 3600000 })).body;
  await ask("POST", "/v1/commit", { reservation: made.reservation, costs: { tokens: 12000 } });
  await ask("POST", "/v1/reserve", { ...of, costs: { tokens: 25000 }, ttl_ms: 3600000 });
  await ask("POST", "/v1/reserve", { ...of, costs: { tokens: 5000 }, ttl_ms: 1 });
  const row = await until(async () => (await cells(page, "#reservations")).find((r) => r[1] === "1" && r[5] === "1"), "one that is held and one that has expired");
  assert.deepEqual(row, ["model", "1", "3", "1", "0", "1", "0", "0"]);
  assert.deepEqual(await cells(page, "#held"), [["model", "running", "requests", "1"], ["model", "tokens", "tokens", "25,000"]]);
  await page.getByLabel("Usage of", { exact: true }).selectOption("model");
  await page.locator("#usage-form").getByLabel("tenant").fill("acme");
  await page.getByRole("button", { name: "Look up" }).click();
  await page.locator("#usage tr").first().waitFor();
  const usage = await cells(page, "#usage");
  assert.deepEqual(usage.map((r) => r.slice(0, 6)), [["model/running", "requests", "4", "0", "1", "3"],
    ["model/tokens", "tokens", "100,000", "17,000", "25,000", "58,000"]]);
  assert.equal(await page.locator("#usage svg.bar").nth(1).getAttribute("aria-label"), "17,000 used, 25,000 held, 58,000 left");
  assert.match(await page.locator("#usage-told").textContent(), /^1 reservation held/);
  await page.locator("#usage-form").getByLabel("tenant").fill("");
  await page.getByRole("button", { name: "Look up" }).click();
  await page.locator("#usage-told.bad").waitFor();
  assert.match(await page.locator("#usage-told").textContent(), /tenant/);
});

// ---- the stories of docs/console.md ---------------------------------------------------------------

scenario("story: customer X cannot log in since ten minutes", async (browser) => {
  for (let i = 0; i < 7; i++) await check("/api/login", "xenia");
  const page = await enter(browser, "");
  await page.getByRole("link", { name: "Identities" }).click();
  await lookUp(page, "xenia");
  await until(async () => (await cells(page, "#standing"))[0]?.slice(0, 5).join(" ") === "/api/login/default user 5 5 0", "that nothing is left");
  await page.getByRole("button", { name: "Reset xenia in /api/login" }).click();
  await confirm(page, "Reset");
  await message(page, "xenia in /api/login is reset").waitFor();
  assert.equal((await check("/api/login", "xenia")).allowed, true);
});

scenario("story: a client hammers signup", async (browser) => {
  for (let i = 0; i < 30; i++) await check("signup", "198.51.100.66");
  const page = await enter(browser, "");
  await page.getByRole("link", { name: "Identities" }).click();
  await page.getByRole("button", { name: /^Block .* in signup$/ }).first().click();
  await page.getByLabel("For", { exact: true }).selectOption("1d");
  await page.getByLabel("Reason").fill("hammers signup");
  await confirm(page, "Block");
  await message(page, "block is in force").waitFor();
  assert.equal((await check("signup", "198.51.100.66")).source, "blocked");
});

scenario("story: raise the limit for tenant Y until Friday", async (browser) => {
  const page = await enter(browser, ""), dialog = page.getByRole("dialog");
  await page.getByRole("link", { name: "Identities" }).click();
  await lookUp(page, "yonder");
  await page.getByRole("button", { name: "Limit yonder in query" }).click();
  await dialog.getByLabel("Limit", { exact: true }).fill("5000");
  await dialog.getByLabel("For", { exact: true }).selectOption("at");
  const friday = new Date(Date.now() + 3 * 86400000).toISOString().slice(0, 16);
  await dialog.getByLabel("Until", { exact: true }).fill(friday);
  await dialog.getByLabel("Reason").fill("their launch");
  await confirm(page, "Another limit");
  await message(page, "limit 5000 is in force").waitFor();
  assert.equal((await check("query", "yonder")).limit, 5000);
  const set = (await ask("GET", "/v1/overrides")).body.overrides.find((o) => o.limit === 5000);
  assert.equal(new Date(set.expires_ms).toISOString().slice(0, 16), friday);
});

// ---- how it behaves -------------------------------------------------------------------------------

scenario("it loads nothing from other hosts and breaks no rule of its CSP", async (browser) => {
  const page = await enter(browser, "");
  for (const view of VIEWS) await goTo(page, view);
  await page.evaluate(() => document.body.append(Object.assign(document.createElement("script"), { textContent: "window.broken = true" })));
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.deepEqual(page.complaints.filter((text) => !/inline script/.test(text)), []);
  assert.deepEqual(page.requests.filter((asked) => !asked.startsWith(url + "/")), []);
});

scenario("on a phone nothing is cut off", async (browser) => {
  await attack();
  const page = await enter(browser, "", { options: PHONE });
  for (const view of VIEWS) {
    await goTo(page, view);
    await visible(page);
    const cut = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((at) => at.checkVisibility() && !at.closest(".hidden, thead, .skip, dialog") &&
      (at.getBoundingClientRect().right > innerWidth + 0.5 || at.getBoundingClientRect().left < -0.5 || (at.scrollWidth > at.clientWidth + 1 && getComputedStyle(at).overflowX !== "visible")))
      .map((at) => at.outerHTML.slice(0, 120)));
    none(cut, view);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390, view);
  }
  await goTo(page, "identities");
  await page.getByRole("button", { name: /^Block .* in login$/ }).first().click();
  const box = await page.getByRole("dialog").boundingBox();
  assert(box.x >= 0 && box.x + box.width <= 390, JSON.stringify(box));
});

scenario("by light and in the dark axe finds nothing", async (browser) => {
  const backs = [];
  await attack();
  for (const [options, views] of [[{ colorScheme: "light" }, VIEWS], [{ colorScheme: "dark" }, VIEWS], [PHONE, ["overview", "identities"]]]) {
    const page = await enter(browser, "", { options });
    backs.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    await page.evaluate(axe);
    const problems = async (of) => (await page.evaluate((selector) => window.axe.run(selector, { resultTypes: ["violations"] }), of))
      .violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 160))]);
    for (const view of views) {
      await goTo(page, view);
      await visible(page);
      none(await problems("html"), `${JSON.stringify(options)} ${view}`);
    }
    await page.getByRole("link", { name: "Identities" }).click();
    await page.getByRole("button", { name: /^Block .* in login$/ }).first().click();
    none(await problems("dialog"), "dialog");
  }
  assert.notEqual(backs[0], backs[1]);
});

scenario("nothing moves, and on paper there is nothing to press", async (browser) => {
  const page = await enter(browser, "");
  const moving = () => page.evaluate(() => [...document.querySelectorAll("body *")]
    .filter((at) => getComputedStyle(at).transitionDuration !== "0s" || getComputedStyle(at).animationName !== "none").map((at) => at.outerHTML.slice(0, 120)));
  none(await moving(), "moving");
  assert(await page.locator("nav").isVisible());
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator("nav, button, form").filter({ visible: true }).count(), 0);
  assert(await page.locator("section").first().isVisible());
});

scenario("it can be used by keyboard alone", async (browser) => {
  await attack();
  const page = await enter(browser, "identities"), wanted = /^Block .* in login$/;
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
  await page.getByRole("button", { name: wanted }).first().waitFor();
  await page.locator("#whom").focus();
  for (let i = 0; i < 60 && !wanted.test(await focused()); i++) await page.keyboard.press("Tab");
  assert.match(await focused(), wanted);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.closest("dialog") !== null), true);
  await page.keyboard.press("Escape");
  await until(async () => (await page.getByRole("dialog").count()) === 0, "no dialog");
  await until(async () => wanted.test(await focused()), "the focus where it was");
});

// ---- pictures -------------------------------------------------------------------------------------

scenario("pictures are taken", async (browser) => {
  const shoot = async (file, view, options, isReady) => {
    const page = await enter(browser, view, { options: { viewport: { width: 1000, height: 700 }, ...options } });
    await until(() => isReady(page), file);
    await page.screenshot({ path: `${folder}/${file}.png` });
  };
  const isDrawn = async (page) => {
    await attack(6);
    const rate = await page.locator(".tile").first().innerText(); // of now: a server at work
    return Number(await page.locator("canvas.chart").getAttribute("data-bars")) > 20 && /^Checks\/s\s+[1-9]/.test(rate);
  };
  await shoot("console-overview", "overview?since=7d", {}, isDrawn);
  await shoot("console-dark", "overview?since=7d", { colorScheme: "dark" }, isDrawn);
  await shoot("console-policy", "policies/login?since=7d", {}, isDrawn);
  await shoot("console-identity", "identities", {}, async (page) => {
    await lookUp(page, "203.0.113.7");
    await page.locator("#standing tr").first().waitFor();
    return (await page.locator("#top tr").count()) > 0;
  });
  await shoot("console-phone", "identities", PHONE, async (page) => (await page.locator("#top tr").count()) > 0);
});

scenario("policies that differ in the database are told", async (browser) => {
  const page = await enter(browser, "overview", { server: database });
  const told = page.locator("#attention li", { hasText: "The file and the database differ in login, signup. Run weir policy push" });
  await told.waitFor();
  await told.getByRole("link", { name: /Go there/ }).click();
  await page.locator("#policies tr").first().waitFor();
  await wanted("push");
  await until(async () => (await ask("GET", "/v1/policies", undefined, database)).body.differs_in_database.length === 0, "the push to be heard of");
  await goTo(page, "overview");
  await page.getByText("Nothing needs attention.").waitFor();
});

scenario("a store that cannot be asked is shown, and by how many threads", async (browser) => {
  const page = await enter(browser, "overview", { server: shared[0] }), attention = page.locator("#attention li");
  await page.locator("#store").getByText("well").waitFor();
  await wanted("stopped store");
  await until(async () => {
    await check("login", "203.0.113.7", shared[0]);
    return /the store cannot be reached, and no thread waits for it\.$/.test(await page.locator("#health").textContent());
  }, "that all threads have lost it");
  await page.locator("#store").getByText("unreachable: on_error decides").waitFor();
  await attention.filter({ hasText: "The store cannot be reached, so on_error decides. Look at the store" }).waitFor();
  assert.match(await page.locator("#state").textContent(), /store failed/);
  // Of a store that is away all threads know within a moment, so how a part of them is shown needs an answer that is made up.
  await page.route("**/readyz", async (route) => {
    const response = await route.fetch(), said = await response.json();
    await route.fulfill({ response, json: { ...said, breaker: { ...said.breaker, state: "partly_open", open: 1 } } });
  });
  await attention.filter({ hasText: "1 of 2 threads cannot reach the store, so on_error decides there. Look at the store" }).waitFor();
  assert.equal(await page.locator("#health").textContent(), "The server is not ready, 1 of 2 threads cannot reach the store.");
  await page.locator("#store").getByText("in part unreachable").waitFor();
});

runAll(scenarios, executablePath);
