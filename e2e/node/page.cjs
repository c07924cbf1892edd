// Opens the live page in a browser, applies a pod and looks at it, and prints what it has seen as JSON. The argument is JSON: `admin` and
// `viewer` are login links, `kubectl` and `kubeconfig` are paths, `chromium` is the browser.
const { execFileSync } = require("node:child_process");
const axe = require("axe-core");
const { launch, run, visit } = require("./visit.cjs");

const options = JSON.parse(process.argv[2]);
const HOSTILE = `<img src=x onerror="document.title='injected'">`;
const POD = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "hello", annotations: { hostile: HOSTILE } },
  spec: { containers: [{ name: "c", image: "busybox" }] },
};

// It waits for a ConfigMap.
const NEEDY = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "needy" },
  spec: { containers: [{ name: "c", image: "busybox", envFrom: [{ configMapRef: { name: "settings" } }] }] },
};
const SETTINGS = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { A: "b" } };

function kubectl(args, input) {
  return execFileSync(options.kubectl, ["--kubeconfig", options.kubeconfig, ...args], { input, encoding: "utf8" });
}

// Returns the violations of accessibility rules, in both themes.
async function violations(page) {
  const found = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    // the page forbids scripts of others, and evaluation in the page is not one
    await page.evaluate(axe.source);
    const result = await page.evaluate(() => globalThis.axe.run());
    for (const one of result.violations) found.push(`${colorScheme}: ${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`);
  }
  return found;
}

const apply = (object) => kubectl(["apply", "-f", "-"], JSON.stringify(object));

// A pod waits; the page names the missing step until it is done.
async function explain(page) {
  apply(NEEDY);
  await page.locator(".problems li", { hasText: "pod/default/needy" }).getByRole("link", { name: "Why?" }).click();
  const missing = page.locator(".step[aria-current=step]");
  await missing.getByText("ConfigMap settings").waitFor();
  const found = await violations(page);
  apply(SETTINGS);
  await page.getByText("No step is missing.").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  kubectl(["delete", "pod", "needy", "--force", "--grace-period=0"]);
  return found;
}

async function asAdmin(page, context) {
  const overview = page.locator(".card", { hasText: "Ready" });
  await overview.first().waitFor();
  const axeOfOverview = await violations(page);
  const axeOfWhy = await explain(page);
  await page.getByRole("link", { name: "Timeline", exact: true }).click();
  const begun = Date.now();
  apply(POD);
  const row = page.locator("tr", { hasText: "pod default/hello" }).filter({ hasText: "container started" });
  await row.first().waitFor();
  const outcome = await row.first().locator(".outcome").textContent();
  const seconds = (Date.now() - begun) / 1000;
  await row.first().getByRole("button").click();
  await page.locator(".message details summary").click();
  const content = await page.locator(".message details pre").textContent();
  const axeOfTimeline = await violations(page);
  const [title, address] = [await page.title(), page.url()];
  // a log line and the output of a command are texts
  await page.getByRole("link", { name: "Pods", exact: true }).click();
  await page.getByRole("button", { name: "default/hello" }).click();
  await page.getByRole("log", { name: "Log" }).getByText("started").waitFor();
  await page.getByLabel("Command", { exact: true }).fill(`echo '<img src=x>'`);
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("log", { name: "Commands" }).getByText("' <img src=x>").waitFor();
  await page.getByRole("button", { name: "Open sh" }).click();
  await page.getByRole("textbox", { name: "Terminal" }).getByText("/ #").waitFor();
  await page.keyboard.type("echo $((6 * 700))\n");
  await page.getByRole("textbox", { name: "Terminal" }).getByText("4200").waitFor();
  const axeOfPods = await violations(page);
  // a click cuts the link, the node turns grey, and comes back
  await page.getByRole("link", { name: "Overview", exact: true }).click();
  const faults = page.locator(".card .faults").first();
  await faults.getByRole("button", { name: "Cut the link" }).click();
  await page.locator(".card.offline").waitFor();
  const axeOfFault = await violations(page);
  await faults.getByRole("button", { name: "Restore" }).click();
  await page.locator(".card.offline").waitFor({ state: "detached" });
  // two faults at a time; one of them ends by itself, and is drawn without a message
  await faults.getByText("Inject a fault").first().click();
  await faults.getByRole("combobox", { name: "Fault" }).selectOption({ label: "Drop messages" });
  await faults.getByRole("textbox", { name: "For" }).fill("1s");
  await faults.getByRole("button", { name: "Inject a fault" }).click();
  await faults.getByText("drop: 0.1").waitFor();
  await faults.getByRole("combobox", { name: "Fault" }).selectOption({ label: "Delay" });
  await faults.getByRole("textbox", { name: "For" }).fill("");
  await faults.getByRole("button", { name: "Inject a fault" }).click();
  await faults.getByText("delay: 500ms").waitFor();
  await faults.getByText("drop: 0.1").waitFor({ state: "detached" });
  const axeOfForm = await violations(page);
  await faults.getByRole("button", { name: "Restore" }).click();
  await page.getByRole("link", { name: "Timeline", exact: true }).click();
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save as scenario" }).click();
  await (await saving).saveAs(options.scenario);
  const images = await page.locator("img").count();
  const cookies = await context.cookies();
  // the same address shows the same message
  await page.goto(`${address}&lang=zh`);
  await page.getByRole("link", { name: "时间线" }).waitFor();
  await page.locator(".message").waitFor();
  const isReadable = await page.evaluate(() => document.cookie);
  await page.getByRole("button", { name: "退出" }).click();
  await page.getByText("cloudsim ui").waitFor();
  return {
    outcome,
    seconds,
    axe: [...axeOfOverview, ...axeOfWhy, ...axeOfTimeline, ...axeOfPods, ...axeOfFault, ...axeOfForm],
    isText: content.includes("<img src=x onerror="),
    images,
    title,
    isCookieHidden: isReadable === "" && cookies.every((one) => one.httpOnly && one.secure && one.sameSite === "Strict"),
  };
}

async function asViewer(page) {
  await page.locator(".card", { hasText: "WebSocket" }).first().waitFor();
  const buttons = await page.locator(".faults button").count();
  const notice = await page.locator(".notices p", { hasText: "messages" }).first().textContent();
  const status = await page.evaluate(async () => {
    const headers = { "x-cloudsim-page": "1" };
    const ask = async (path, init) => (await fetch(path, { headers, ...init })).status;
    return {
      nodes: await ask("/api/v1/nodes"),
      sessions: await ask("/cloudsim/v1/nodes"),
      why: await ask("/cloudsim/v1/why/nodes/edge-1"),
      withoutHeader: await ask("/api/v1/nodes", { headers: {} }),
      secrets: await ask("/api/v1/namespaces/default/secrets"),
      messages: await ask("/cloudsim/v1/messages"),
      cut: await ask("/cloudsim/v1/faults/all", { method: "PUT", body: '{"link":"cut"}' }),
    };
  });
  return { notice, status, buttons };
}

run(async () => {
  const browser = await launch(options.chromium);
  const admin = await visit(browser, options.admin, asAdmin);
  const viewer = await visit(browser, options.viewer, asViewer);
  const again = await visit(browser, options.admin, async (page) => ({ text: await page.locator("body").textContent() }));
  await browser.close();
  return { admin, viewer, again };
});
