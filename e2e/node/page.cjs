// Opens the live page in a browser, applies a pod and looks at it, and prints what it has seen as JSON. The argument is JSON: `admin` and
// `viewer` are login links, `kubectl` and `kubeconfig` are paths, `chromium` is the browser.
const { kubectlOf, launch, podOf, run, violations, visit } = require("./visit.cjs");

const HOSTILE = `<img src=x onerror="document.title='injected'">`;
const POD = { ...podOf("hello"), metadata: { name: "hello", annotations: { hostile: HOSTILE } } };
// It waits for a ConfigMap.
const NEEDY = podOf("needy", { containers: [{ name: "c", image: "busybox", envFrom: [{ configMapRef: { name: "settings" } }] }] });
const SETTINGS = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { A: "b" } };

// A pod waits; the page names the missing step until it is done.
async function explain(page, apply) {
  apply(NEEDY);
  await page.locator(".problems li", { hasText: "pod/default/needy" }).getByRole("link", { name: "Why?" }).click();
  const missing = page.locator(".step[aria-current=step]");
  await missing.getByText("ConfigMap settings").waitFor();
  const found = await violations(page);
  apply(SETTINGS);
  await page.getByText("No step is missing.").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  return found;
}

// A log line and the output of a command are texts.
async function useStreams(page) {
  await page.getByRole("link", { name: "Pods", exact: true }).click();
  await page.getByRole("button", { name: "default/hello" }).click();
  await page.getByRole("log", { name: "Log" }).getByText("started").waitFor();
  await page.getByLabel("Command", { exact: true }).fill(`echo '<img src=x>'`);
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("log", { name: "Commands" }).getByText("' <img src=x>").waitFor();
  // a command that does not end by itself
  await page.getByLabel("Command", { exact: true }).fill("sleep infinity");
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Run", disabled: false }).waitFor();
  await page.getByRole("button", { name: "Open sh" }).click();
  await page.getByRole("textbox", { name: "Terminal" }).getByText("/ #").waitFor();
  await page.keyboard.type("echo $((6 * 700))\n");
  await page.getByRole("textbox", { name: "Terminal" }).getByText("4200").waitFor();
  return violations(page);
}

async function asAdmin(page, context, apply) {
  await page.locator(".card", { hasText: "Ready" }).first().waitFor();
  const axe = [...(await violations(page)), ...(await explain(page, apply))];
  await page.getByRole("link", { name: "Timeline", exact: true }).click();
  apply(POD);
  const row = page.locator("tr", { hasText: "pod default/hello" }).filter({ hasText: "container started" });
  await row.first().waitFor();
  const outcome = await row.first().locator(".outcome").textContent();
  await row.first().getByRole("button").click();
  await page.locator(".message details summary").click();
  const content = await page.locator(".message details pre").textContent();
  axe.push(...(await violations(page)));
  const [title, address] = [await page.title(), page.url()];
  axe.push(...(await useStreams(page)));
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
    axe,
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

run(async (options) => {
  const { apply } = kubectlOf(options);
  const browser = await launch(options.chromium);
  const admin = await visit(browser, options.admin, (page, context) => asAdmin(page, context, apply));
  const viewer = await visit(browser, options.viewer, asViewer);
  const again = await visit(browser, options.admin, async (page) => ({ text: await page.locator("body").textContent() }));
  await browser.close();
  return { admin, viewer, again };
});
