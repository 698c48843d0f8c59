// drive.js - opens the dashboard in a real browser, does what people do, and says what it saw.
//
//     NODE_PATH=… node drive.js CHROMIUM URL OTHER_URL TOKEN PICTURE
//
// OTHER_URL is a server whose store can be stopped. Prints one JSON object a scenario: {"name": …}
// and, if it failed, "error". Reads a line from stdin when it needs that store to be stopped, having
// said so.
const { contrasts, runAll } = require("./browser.js");
const assert = require("node:assert");
const readline = require("node:readline");

const [, , executablePath, url, otherUrl, token, picture] = process.argv;
const PATIENCE = 60000;
const scenarios = [];
const scenario = (name, run) => scenarios.push({ name, run });

async function ask(method, path, body, server = url) {
  const response = await fetch(server + path, { method, headers: { Authorization: `Bearer ${token}`,
    ...(body && { "Content-Type": "application/json" }) }, body: body && JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
}

const check = async (policy, key) => (await ask("POST", "/v1/check", { policy, key })).body;

async function attack(times = 20) {
  for (let i = 0; i < times; i++) await check("login", "203.0.113.7");
  for (let i = 0; i < 8; i++) await check("search", `192.0.2.${i}`);
}

async function open(browser, options = {}, server = url) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, locale: "en-GB",
    timezoneId: "UTC", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.requests = [];
  page.complaints = [];
  page.on("request", (request) => page.requests.push(request.url()));
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !/40[134] \(/.test(message.text())) page.complaints.push(message.text());
  });
  await page.goto(server + "/");
  return page;
}

async function signIn(page) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Use" }).click();
  await page.locator("#policies tr").first().waitFor();
}

const cells = (page, selector) => page.locator(`${selector} tr`).evaluateAll((rows) =>
  rows.map((row) => [...row.children].map((cell) => cell.textContent)));

// What a server has answered to these, each to be let through by a call.
async function hold(page, addresses) {
  const held = [];
  await page.route(addresses, async (route) => {
    const response = await route.fetch();
    held.push(() => route.fulfill({ response }));
  });
  return held;
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

// ---- what people see ------------------------------------------------------------------------------

scenario("without a token it shows nothing and asks for one", async (browser) => {
  const page = await open(browser);
  await page.locator("#problem").waitFor();
  assert.match(await page.locator("#problem").textContent(), /token/i);
  assert.match(await page.locator("#locked").textContent(), /needs a token/);
  assert.equal(await page.getByText("No checks yet").isVisible(), false);
  assert.equal(await page.getByText("No identity is denied").isVisible(), false);
  assert.equal(await page.locator("#checks tr").count(), 0);
  assert.equal(await page.locator("#policies tr").count(), 0);
  await signIn(page);
  await page.locator("#problem").waitFor({ state: "hidden" });
  await page.reload(); // it is kept for as long as the tab is open
  await page.locator("#policies tr").first().waitFor();
});

scenario("rates and refusals change while one looks", async (browser) => {
  const page = await open(browser);
  await signIn(page);
  const rate = async () => {
    await attack();
    const row = (await cells(page, "#checks")).find(([policy]) => policy === "login");
    return row && Number(row[2]) > 0 && Number(row[5].replaceAll(",", "")) > 10;
  };
  await until(rate, "a rate of refusals");
  assert(await page.locator("#checks svg.spark rect.denied").count() > 0);
  const top = await until(async () => (await cells(page, "#top"))[0], "an identity that is denied");
  assert.match(top[0], /^[0-9a-f]{12}$/);
  assert.equal(top[1], "login");
  const tag = (await ask("GET", "/v1/top")).body.top[0].tag;
  assert.equal(await page.locator("#top code").first().getAttribute("title"), tag);
});

scenario("the history has a range and a policy to choose", async (browser) => {
  const page = await open(browser);
  await signIn(page);
  const label = () => page.locator("#history-chart svg").getAttribute("aria-label");
  await until(async () => /last 24h/.test(await label()), "a day");
  const day = await page.locator("#history-chart rect").count();
  assert(day > 20, `${day} bars in a day`);
  await page.getByLabel("7 d", { exact: true }).check();
  await until(async () => /all policies, last 7d/.test(await label()), "a week");
  assert(await page.locator("#history-chart rect").count() > day);
  await page.getByLabel("Policy").first().selectOption("search");
  await until(async () => /search, last 7d/.test(await label()), "one policy");
  await page.getByText("As a table").click();
  const told = (await ask("GET", "/v1/history?since=7d&policy=search")).body.checks[0].points;
  const rows = await cells(page, "#history-rows");
  assert.deepEqual(rows.map((row) => row[0]), ["search"]);
  const shown = Number(rows[0][1].replaceAll(",", ""));
  const sum = told.reduce((total, point) => total + point[1], 0);
  assert(shown > 1000 && Math.abs(shown - sum) < 100, `${shown} and ${sum}`);
});

scenario("an answer that was overtaken brings no range back", async (browser) => {
  const page = await open(browser), held = await hold(page, "**/v1/history*");
  await signIn(page);
  await until(() => held.length === 1, "a day");
  await page.getByLabel("7 d", { exact: true }).check();
  await until(() => held.length === 2, "a week");
  await held[1]();
  const chart = page.locator("#history-chart svg[aria-label*='last 7d']");
  await chart.waitFor();
  const behind = page.waitForRequest("**/v1/overrides");
  await held[0]();
  await behind;
  assert.equal(await chart.count(), 1);
});

scenario("policies have their lines, and the store its state", async (browser) => {
  const page = await open(browser);
  await signIn(page);
  const told = (await ask("GET", "/v1/policies")).body;
  const expected = told.policies.flatMap((p) => p.rules.map((r) => [p.policy, r.rule, String(r.line)]));
  assert.deepEqual((await cells(page, "#policies")).map((row) => [row[0], row[1], row[6]]), expected);
  assert.equal(await page.locator("#policy-file").textContent(), told.file);
  assert.match(await page.locator("#store").textContent(), /Statewell/);
  assert.match(await page.locator("#state").textContent(), /^well/);
});

scenario("an override is added, holds, and is removed", async (browser) => {
  const page = await open(browser);
  const panel = page.locator("#overrides-panel"), told = page.locator("#override-told");
  await signIn(page);
  assert.equal((await check("query", "acme")).allowed, true);
  await panel.getByText("Add one").click();
  await panel.getByLabel("Policy").selectOption("query");
  await panel.getByLabel("tenant").fill("acme");
  await panel.getByLabel("For").fill("2h");
  await panel.getByLabel("Your name").fill("ann");
  await panel.getByLabel("Reason").fill("they <b>flood</b> us");
  await panel.getByRole("button", { name: "Add" }).click();
  await until(async () => /in force/.test(await told.textContent()), "that it is in force");
  const refused = await check("query", "acme");
  assert.deepEqual([refused.allowed, refused.source], [false, "blocked"]);
  assert.equal((await check("query", "other")).allowed, true);
  const [row] = await cells(page, "#overrides");
  assert.match(row[0], /^[0-9a-f]{12}$/);
  assert.deepEqual([row[1], row[2], row[4]], ["query", "block", "ann: they <b>flood</b> us"]);
  await panel.getByLabel("Effect").selectOption("limit");
  await panel.getByRole("spinbutton", { name: "Limit" }).fill("2");
  await panel.getByRole("button", { name: "Add" }).click();
  await until(async () => (await cells(page, "#overrides"))[0]?.[2] === "limit 2", "another limit");
  assert.equal((await check("query", "acme")).limit, 2);
  await panel.getByRole("button", { name: /Remove override/ }).click();
  await until(async () => /removed/.test(await told.textContent()), "that it is removed");
  assert.equal((await check("query", "acme")).limit, 1000);
  assert.equal(await page.locator("#overrides tr").count(), 0);
  const audit = (await ask("GET", "/v1/audit")).body.entries;
  assert.deepEqual(audit.map((entry) => entry.effect), ["block", "limit", "removed"]);
});

scenario("a most denied identity can be blocked by its tag", async (browser) => {
  const page = await open(browser);
  const panel = page.locator("#overrides-panel"), told = page.locator("#override-told");
  await signIn(page);
  await attack();
  const { tag } = (await ask("POST", "/v1/peek", { policy: "login", key: "203.0.113.7", tag: true })).body;
  await page.getByRole("button", { name: `Override for ${tag.slice(0, 12)} in login` }).click();
  assert.equal(await panel.getByLabel("or tag").inputValue(), tag);
  assert.equal(await panel.getByLabel("ip").count() && await panel.getByLabel("ip").isVisible(), false);
  await panel.getByRole("button", { name: "Add" }).click();
  await until(async () => /in force/.test(await told.textContent()), "that it is in force");
  assert.equal((await check("login", "203.0.113.7")).source, "blocked");
  assert.equal((await check("login", "203.0.113.8")).source, "store");
  assert.equal(await page.locator("#overrides code").first().getAttribute("title"), tag);
  await panel.getByRole("button", { name: /Remove override/ }).click();
  await until(async () => /removed/.test(await told.textContent()), "that it is removed");
});

scenario("a policy whose name is a path is as good as others", async (browser) => {
  const page = await open(browser), odd = "/api/login";
  const panel = page.locator("#overrides-panel"), told = page.locator("#override-told");
  await signIn(page);
  await panel.getByText("Add one").click();
  await panel.getByLabel("Policy").selectOption(odd);
  await panel.getByLabel("user").fill("ann");
  await panel.getByRole("button", { name: "Add" }).click();
  await until(async () => /in force/.test(await told.textContent()), "that it is in force");
  assert.equal((await check(odd, "ann")).source, "blocked");
  await panel.getByRole("button", { name: /Remove override/ }).click();
  await until(async () => /removed/.test(await told.textContent()), "that it is removed");
  assert.equal((await check(odd, "ann")).source, "store");
  await page.getByLabel("Policy").first().selectOption(odd);
  const label = () => page.locator("#history-chart svg").getAttribute("aria-label");
  await until(async () => (await label()).startsWith(`${odd}, last 24h`), "its history");
  assert(page.requests.some((asked) => asked.endsWith("&policy=%2Fapi%2Flogin")), page.requests.join("\n"));
});

scenario("an answer that was overtaken brings no override back", async (browser) => {
  const page = await open(browser), told = page.locator("#override-told");
  await ask("PUT", "/v1/overrides", { policy: "query", attributes: { tenant: "late" }, effect: "block", for: "2h" });
  await signIn(page);
  await page.locator("#overrides tr").waitFor();
  const held = await hold(page, "**/v1/overrides");
  await signIn(page);
  await until(() => held.length === 1, "the list as it is");
  await page.getByRole("button", { name: /Remove override/ }).click();
  await until(() => held.length === 2, "the list as it has become");
  assert.equal(await told.textContent(), "");
  await held[1]();
  await until(async () => /removed/.test(await told.textContent()), "that it is removed");
  assert.equal(await page.locator("#overrides tr").count(), 0);
  const behind = page.waitForRequest("**/v1/shadow");
  await held[0]();
  await behind;
  assert.equal(await page.locator("#overrides tr").count(), 0);
});

scenario("what is wrong with an override is said", async (browser) => {
  const page = await open(browser);
  const panel = page.locator("#overrides-panel"), told = page.locator("#override-told");
  await signIn(page);
  await panel.getByText("Add one").click();
  await panel.getByLabel("ip").fill("not an address");
  await panel.getByRole("button", { name: "Add" }).click();
  await until(async () => /ip/.test(await told.textContent()), "what is wrong");
  assert.equal(await told.getAttribute("class"), "bad");
  assert.equal(await page.locator("#overrides tr").count(), 0);
});

scenario("a mode that an operator has set is told", async (browser) => {
  const page = await open(browser), mode = "/v1/policies/query/mode";
  const shown = async () => (await cells(page, "#policies")).find(([policy]) => policy === "query")[4];
  await ask("POST", mode, { mode: "off", for: "2h" });
  await signIn(page);
  assert.match(await shown(), /^enforce \(now off, until .*\d\d:\d\d\)$/);
  await ask("DELETE", mode);
});

scenario("alerts are listed, with those that hold", async (browser) => {
  const page = await open(browser);
  await signIn(page);
  await attack(40);
  await until(async () => (await ask("GET", "/v1/alerts")).body.alerts[0].state === "firing", "an alert");
  await signIn(page);
  const [attacked, store] = await until(async () => {
    const rows = await cells(page, "#alerts");
    return rows[0]?.[1] === "firing" && rows;
  }, "it on the page");
  assert.deepEqual([attacked[0], attacked[2], attacked[3], attacked[5], attacked[6], attacked[8]],
    ["login-attack", "deny rate", "login", "20 %", "5m", "login"]);
  assert(Number.parseFloat(attacked[4]) > 20, attacked[4]);
  assert.deepEqual(store.slice(0, 2), ["store-away", "ok"]);
  await until(async () => /1 alert$/.test(await page.locator("#state").textContent()), "it at the top");
});

scenario("limits in shadow stand beside what is enforced", async (browser) => {
  const page = await open(browser);
  await signIn(page);
  await attack(1);
  await attack(1);
  const row = await until(async () => (await cells(page, "#shadow")).find((found) => Number(found[3].replaceAll(",", "")) > 0), "a comparison");
  assert.deepEqual(row.slice(0, 3), ["search", "default", "1 per 1m"]);
  const told = (await ask("GET", "/v1/shadow")).body.limits[0];
  assert.match(row[4], /^\d+ \(\d+\.\d\d %\)$/);
  assert(told.shadow.denied > 0 && told.enforced.denied === 0, JSON.stringify(told));
});

// ---- how it behaves -------------------------------------------------------------------------------

scenario("what is used and what is held stand apart", async (browser) => {
  const page = await open(browser);
  await signIn(page);
  assert.equal(await page.locator("#budgets-panel").isVisible(), false);
  const of = { policy: "model", attributes: { tenant: "acme" } };
  const made = (await ask("POST", "/v1/reserve", { ...of, costs: { tokens: 30000 }, ttl_ms: 3600000 })).body;
  await ask("POST", "/v1/commit", { reservation: made.reservation, costs: { tokens: 12000 } });
  await ask("POST", "/v1/reserve", { ...of, costs: { tokens: 25000 }, ttl_ms: 3600000 });
  await ask("POST", "/v1/reserve", { ...of, costs: { tokens: 5000 }, ttl_ms: 1 });
  await page.locator("#budgets-panel").waitFor();
  const row = await until(async () => (await cells(page, "#reservations")).find((r) => r[1] === "1" && r[5] === "1"),
    "one that is held and one that has expired");
  assert.deepEqual(row, ["model", "1", "3", "1", "0", "1", "0", "0"]);
  assert.deepEqual(await cells(page, "#held"), [["model", "running", "requests", "1"], ["model", "tokens", "tokens", "25,000"]]);
  await page.getByLabel("Usage of").selectOption("model");
  await page.locator("#usage-form").getByLabel("tenant").fill("acme");
  await page.getByRole("button", { name: "Look up" }).click();
  await page.locator("#usage tr").first().waitFor();
  const usage = await cells(page, "#usage");
  assert.deepEqual(usage.map((r) => r.slice(0, 6)), [["model/running", "requests", "4", "0", "1", "3"],
    ["model/tokens", "tokens", "100,000", "17,000", "25,000", "58,000"]]);
  assert.equal(await page.locator("#usage svg.bar").nth(1).getAttribute("aria-label"), "17,000 used, 25,000 held, 58,000 left");
  assert.match(await page.locator("#usage-told").textContent(), /^1 reservation held/);
  assert.deepEqual(page.complaints, []);
  await page.locator("#usage-form").getByLabel("tenant").fill("");
  await page.getByRole("button", { name: "Look up" }).click();
  await page.locator("#usage-told.bad").waitFor();
  assert.match(await page.locator("#usage-told").textContent(), /tenant/);
});

scenario("it loads nothing from other hosts and breaks no rule of its CSP", async (browser) => {
  const page = await open(browser);
  await signIn(page);
  await page.evaluate(() => document.body.append(Object.assign(document.createElement("script"), { textContent: "window.broken = true" })));
  assert.equal(await page.evaluate(() => window.broken), undefined);
  page.complaints = page.complaints.filter((text) => !/inline script/.test(text));
  assert.deepEqual(page.complaints, []);
  assert.deepEqual(page.requests.filter((asked) => !asked.startsWith(url + "/")), []);
});

scenario("it fits a phone", async (browser) => {
  const page = await open(browser, { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
  await signIn(page);
  await page.locator("#history-chart svg").waitFor();
  const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert(wide <= room, `${wide} px on a screen of ${room}`);
});

scenario("it can be read by light and in the dark", async (browser) => {
  const backs = [];
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(browser, { colorScheme });
    await signIn(page);
    await page.locator("#checks tr").first().waitFor();
    backs.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    assert.deepEqual(await page.evaluate(contrasts), [], colorScheme);
  }
  assert.notEqual(backs[0], backs[1]);
});

scenario("it can be used without seeing it and without a mouse", async (browser) => {
  const page = await open(browser);
  await signIn(page);
  await page.locator("#checks tr").first().waitFor();
  assert.equal(await page.locator("html").getAttribute("lang"), "en");
  const nameless = await page.evaluate(() => {
    const isNamed = (at) => at.labels?.length || at.getAttribute("aria-label") || at.textContent.trim();
    return [...document.querySelectorAll("input, select, button, a, summary")].filter((at) => !isNamed(at)).map((at) => at.outerHTML);
  });
  assert.deepEqual(nameless, []);
  assert.equal(await page.locator("th:not([scope])").count(), 0);
  assert.equal(await page.locator("img:not([alt])").count(), 0);
  assert.equal(await page.locator("section:not([aria-labelledby])").count(), 0);
  await page.reload();
  await page.locator("#checks tr").first().waitFor();
  await page.keyboard.press("Tab");
  assert.match(await page.evaluate(() => document.activeElement.textContent), /Skip/);
  for (let i = 0; i < 12 && (await page.evaluate(() => document.activeElement.name)) !== "since"; i++) await page.keyboard.press("Tab");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => new FormData(document.getElementById("history-form")).get("since")), "7d");
});

scenario("a picture is taken", async (browser) => {
  const page = await open(browser, { viewport: { width: 1000, height: 760 } });
  await signIn(page);
  await page.getByLabel("7 d", { exact: true }).check();
  await until(async () => {
    await attack(6);
    return await page.locator("#checks svg.spark rect.denied").count() > 4;
  }, "some rates");
  await page.locator("#history-chart rect").first().waitFor();
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.screenshot({ path: picture });
});

scenario("checks without an answer are told at the top", async (browser) => {
  const page = await open(browser);
  await signIn(page);
  assert.equal(await page.locator("#unanswered").isVisible(), false);
  for (let i = 0; i < 3; i++) assert.equal((await check("logn", "203.0.113.7")).code, "no_such_policy");
  await page.locator("#unanswered").waitFor();
  assert.match(await page.locator("#unanswered").textContent(),
    /^3 checks without an answer in the last 5m: there is no policy 'logn': did you mean 'login'\? \(no_such_policy, by http, 3 times\)$/);
});

scenario("a store that cannot be asked is shown", async (browser) => {
  const page = await open(browser, {}, otherUrl);
  await signIn(page);
  console.log(JSON.stringify({ wants: "stopped store" }));
  await new Promise((done) => readline.createInterface({ input: process.stdin }).once("line", done));
  assert.match(await page.locator("#store").textContent(), /Keys(\d+|unknown)Memory/);
  await until(async () => {
    await ask("POST", "/v1/check", { policy: "login", key: "203.0.113.7" }, otherUrl);
    return /unreachable/.test(await page.locator("#store").textContent());
  }, "the state of the store");
  assert.match(await page.locator("#state").textContent(), /store failed/);
});

runAll(scenarios, executablePath);
