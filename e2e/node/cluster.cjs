// Opens the live page of a cloud in cluster mode, and logs in with tokens. The argument is JSON: `address` is that of the page, `tokens` has
// those of the accounts `admin` and `viewer`, `kubectl`, `kubeconfig` and `chromium` are paths.
const { kubectlOf, launch, podOf, run, visit } = require("./visit.cjs");

async function logIn(page, token) {
  await page.getByLabel("Enter a token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
}

async function asAdmin(page, token, apply) {
  await logIn(page, `${token.slice(0, -9)}AAAAAAAAA`);
  await page.getByText("The token is invalid").waitFor();
  await logIn(page, token);
  await page.locator(".card", { hasText: "Ready" }).first().waitFor();
  await page.getByRole("link", { name: "Timeline", exact: true }).click();
  apply(podOf("hello"));
  const row = page.locator("tr", { hasText: "pod default/hello" }).filter({ hasText: "container started" });
  const outcome = await row.first().locator(".outcome").textContent();
  await page.goto(`${new URL("/ui/", page.url())}?why=pods/default/hello`);
  await page.getByText("No step is missing.").waitFor();
  const faults = page.locator(".card .faults").first();
  await faults.getByRole("button", { name: "Cut the link" }).click();
  await page.locator(".card.offline, .card.notready").waitFor();
  await faults.getByRole("button", { name: "Restore" }).click();
  await page.locator(".card.ready").waitFor();
  const has = (text) => text.includes(token.slice(-20));
  const isInBrowser = has(page.url()) || has(await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie])));
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Enter a token").waitFor();
  return { outcome, isInBrowser };
}

// The session ends when the token is revoked, also the messages that are read.
async function asViewer(page, token, revoke) {
  await logIn(page, token);
  await page.locator(".card.ready").waitFor();
  const buttons = await page.locator(".faults button").count();
  const status = await page.evaluate(async () => {
    const ask = async (path, init) => (await fetch(path, { headers: { "x-cloudsim-page": "1" }, ...init })).status;
    return { secrets: await ask("/api/v1/secrets"), messages: await ask("/cloudsim/v1/nodes"), cut: await ask("/cloudsim/v1/faults/all", { method: "PUT", body: '{"link":"cut"}' }) };
  });
  await page.evaluate(async () => {
    const response = await fetch("/cloudsim/v1/messages", { headers: { "x-cloudsim-page": "1" } });
    window.ended = (async () => {
      for await (const _ of response.body);
    })();
  });
  revoke();
  await page.evaluate(() => window.ended);
  await page.getByLabel("Enter a token").waitFor();
  return { buttons, status };
}

run(async ({ address, tokens, chromium, ...options }) => {
  const { apply, call } = kubectlOf(options);
  const browser = await launch(chromium);
  const admin = await visit(browser, address, (page) => asAdmin(page, tokens.admin, apply));
  const viewer = await visit(browser, address, (page) => asViewer(page, tokens.viewer, () => call(["delete", "secret", "bound"])));
  await browser.close();
  return { admin, viewer };
});
