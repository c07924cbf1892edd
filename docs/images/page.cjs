// Takes README's picture of the live page: node page.cjs LINK FILE. LINK is the login link of a new cloud with three nodes; chromium and
// playwright-core are those of `make needs`.
const { chromium } = require("playwright-core");

const [link, file] = process.argv.slice(2);
const HEADERS = { "x-cloudsim-page": "1", "content-type": "application/json" };

async function main() {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1000, height: 560 } });
  const page = await context.newPage();
  await page.goto(link);
  const post = (path, body) => page.evaluate(([path, headers, body]) => fetch(path, { method: "POST", headers, body }), [path, HEADERS, JSON.stringify(body)]);
  const fault = (node, conditions) => post(`/cloudsim/v1/faults/${node}`, conditions);
  const pod = (name, nodeName) => post("/api/v1/namespaces/default/pods", { metadata: { name }, spec: { nodeName, containers: [{ name: "c", image: "busybox" }] } });
  await page.goto(`${new URL("/ui/", link)}?view=timeline&span=20000&kind=pod`);
  await page.locator(".lanes").waitFor();
  await fault("edge-3", { delay: "900ms", for: "12s" });
  await fault("edge-2", { link: "cut", for: "6s" });
  for (const [name, node] of [["camera", "edge-1"], ["gateway", "edge-2"], ["meter", "edge-3"]]) await pod(name, node);
  await page.waitForTimeout(4000);
  await pod("filter", "edge-3");
  await page.waitForTimeout(10000);
  const { y, height } = await page.locator(".lanes").boundingBox();
  await page.screenshot({ path: file, clip: { x: 0, y: 0, width: 1000, height: y + height + 16 } });
  await browser.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
