// Injects faults on the live page, and saves what has happened as a scenario. The argument is JSON: `address` is a login link, `scenario` is
// the file to save, `kubectl` and `kubeconfig` are paths, `chromium` is the browser.
const { kubectlOf, launch, podOf, run, violations, visit } = require("./visit.cjs");

const open = (page, view) => page.getByRole("link", { name: view, exact: true }).click();

// A click cuts the link, and the node turns grey. What is applied meanwhile arrives when the link is back.
async function cut(page, faults, apply) {
  await faults.getByRole("button", { name: "Cut the link" }).click();
  await page.locator(".card.offline").waitFor();
  const axe = await violations(page);
  apply({ apiVersion: "v1", kind: "Secret", metadata: { name: "password" }, stringData: { key: "hidden" } });
  const env = [{ name: "PASSWORD", valueFrom: { secretKeyRef: { name: "password", key: "key" } } }];
  apply(podOf("late", { nodeName: "edge-1", containers: [{ name: "c", image: "busybox", env }] }));
  await page.locator(".problems li", { hasText: "pod/default/late" }).waitFor();
  await faults.getByRole("button", { name: "Restore" }).click();
  await page.locator(".card.offline").waitFor({ state: "detached" });
  await open(page, "Timeline");
  const row = page.locator("tr", { hasText: "pod default/late" }).filter({ hasText: "container started" });
  const outcome = await row.first().locator(".outcome").textContent();
  await open(page, "Overview");
  return { axe, outcome };
}

// Injects a fault with the form.
async function inject(faults, label, values) {
  await faults.getByRole("combobox", { name: "Fault" }).selectOption({ label });
  for (const [name, value] of Object.entries(values)) await faults.getByRole("textbox", { name, exact: true }).fill(value);
  await faults.getByRole("button", { name: "Inject a fault" }).click();
}

async function look(page, scenario, apply) {
  await page.locator(".card.ready").waitFor();
  const faults = page.locator(".card .faults").first();
  const { axe, outcome } = await cut(page, faults, apply);
  // two faults at a time; one of them ends by itself
  await faults.getByText("Inject a fault").first().click();
  await inject(faults, "Drop messages", { For: "5s" });
  await faults.getByText("drop: 0.1").waitFor();
  await inject(faults, "Delay", { For: "" });
  await faults.getByText("delay: 500ms").waitFor();
  await faults.getByText("drop: 0.1").waitFor({ state: "detached" });
  // only deletions succeed on a full disk
  await inject(faults, "Full disk (simulated nodes)", {});
  await faults.getByText("diskFull: true").waitFor();
  axe.push(...(await violations(page)));
  apply(podOf("unstored", { nodeName: "edge-1" }));
  await open(page, "Timeline");
  await page.locator("tr", { hasText: "pod default/unstored" }).filter({ hasText: "waiting" }).first().waitFor();
  await open(page, "Overview");
  await faults.getByRole("button", { name: "Restore" }).click();
  await page.getByText("No problems found.").waitFor();
  await open(page, "Timeline");
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save as scenario" }).click();
  await (await saving).saveAs(scenario);
  return { axe, outcome };
}

run(async (options) => {
  const { apply } = kubectlOf(options);
  const browser = await launch(options.chromium);
  const seen = await visit(browser, options.address, (page) => look(page, options.scenario, apply));
  await browser.close();
  return seen;
});
