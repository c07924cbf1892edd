// Measures the live page in Chromium: node page.cjs [LINK]. With a login link of a running cloud it measures the first paint there;
// without one, a cloud with fixed data: 1,000 nodes and 10,000 bars. Chromium and playwright-core are those of `make needs`.
const { execFileSync } = require("node:child_process");
const path = require("node:path");
const { start } = require("../e2e/node/fixture.cjs");
const { launch } = require("../e2e/node/visit.cjs");

const SECONDS = 5;
const show = (name, value, unit) => console.log(JSON.stringify({ name, value: Math.round(value * 10) / 10, unit }));

// Returns the private memory of the browser's renderer processes in MB.
function rendererMemory() {
  const rows = execFileSync("ps", ["-eo", "pid,ppid,args"], { encoding: "utf8" }).split("\n").map((line) => line.trim().split(/\s+/));
  const below = new Set([String(process.pid)]);
  for (let round = 0; round < 5; round++) for (const [id, parent] of rows) if (below.has(parent)) below.add(id);
  const renderers = rows.filter(([id, , ...args]) => below.has(id) && args.includes("--type=renderer"));
  return renderers.map(([id]) => {
    const smaps = execFileSync("cat", [`/proc/${id}/smaps_rollup`], { encoding: "utf8" });
    return [...smaps.matchAll(/^Private_\w+: +(\d+) kB/gm)].reduce((sum, [, size]) => sum + Number(size), 0) / 1000;
  });
}

async function firstPaint(browser, address) {
  const times = [];
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.goto(address);
  await page.locator(".numbers dd").first().waitFor();
  const own = new URL("/ui/", address).href;
  for (let number = 0; number < 11; number++) {
    await page.goto("about:blank");
    await page.goto(own);
    await page.locator(".numbers dd").first().waitFor();
    const paint = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
    await page.waitForFunction(paint);
    times.push(await page.evaluate(paint));
  }
  await context.close();
  times.sort((a, b) => a - b);
  show("page.first-paint", times[5], "ms");
}

// Returns the frames per second while the timeline scrolls.
function scroll(seconds) {
  const frame = document.querySelector(".lanes");
  return new Promise((done) => {
    const begin = performance.now();
    let [count, longest, latest] = [0, 0, begin];
    const next = (now) => {
      count++;
      longest = Math.max(longest, now - latest);
      latest = now;
      frame.scrollTop = (frame.scrollTop + 37) % (frame.scrollHeight - frame.clientHeight || 1);
      if (now - begin < seconds * 1000) requestAnimationFrame(next);
      else done({ rate: (count * 1000) / (now - begin), longest });
    };
    requestAnimationFrame(next);
  });
}

async function timeline(browser, cloud) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.goto(`${cloud.url}?view=timeline&span=60000&end=${cloud.end}`);
  await page.getByText("of 10000 are shown").waitFor({ timeout: 60000 });
  await page.waitForTimeout(3000);
  const devtools = await context.newCDPSession(page);
  await devtools.send("HeapProfiler.collectGarbage");
  const { usedSize } = await devtools.send("Runtime.getHeapUsage");
  show("page.heap", usedSize / 1e6, "MB");
  show("page.renderer", Math.max(...rendererMemory()), "MB");
  const still = await page.evaluate(scroll, SECONDS);
  show("page.frames", still.rate, "per second");
  show("page.longest-frame", still.longest, "ms");
  // the same while 500 messages arrive each second
  let number = 0;
  const timer = setInterval(() => cloud.push(Array.from({ length: 25 }, () => cloud.lines(number++, Date.now())[0])), 50);
  const busy = await page.evaluate(scroll, SECONDS);
  clearInterval(timer);
  show("page.frames-at-500", busy.rate, "per second");
  show("page.longest-frame-at-500", busy.longest, "ms");
  await context.close();
}

async function update(browser, cloud) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.goto(`${cloud.url}?view=timeline`);
  await page.locator(".numbers, .lanes").first().waitFor();
  await page.waitForTimeout(3000);
  const times = [];
  for (let number = 0; number < 21; number++) {
    const name = `late-${number}`;
    // when the table has the message and is painted
    const seen = page.evaluate((text) => new Promise((done) => {
      const look = () => {
        if (document.querySelector("tbody")?.textContent.includes(text)) requestAnimationFrame(() => setTimeout(() => done(Date.now())));
        else requestAnimationFrame(look);
      };
      look();
    }), `new-${name}`);
    await page.waitForTimeout(300);
    const sent = Date.now();
    cloud.push(cloud.lines(name, sent));
    times.push((await seen) - sent);
  }
  await context.close();
  times.sort((a, b) => a - b);
  show("page.update", times[10], "ms");
  show("page.update-longest", times[20], "ms");
}

async function main() {
  const [link] = process.argv.slice(2);
  const browser = await launch("/usr/bin/chromium");
  if (link) await firstPaint(browser, link);
  else {
    const folder = path.join(__dirname, "../ui/page");
    const small = await start({ folder, nodes: 3, now: Date.now() });
    await firstPaint(browser, small.url);
    await update(browser, small);
    small.close();
    const now = Date.now();
    const large = await start({ folder, nodes: 1000, bars: 10000, seconds: 50, isPlain: true, now });
    await timeline(browser, { ...large, end: now + 1000 });
    large.close();
  }
  await browser.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
