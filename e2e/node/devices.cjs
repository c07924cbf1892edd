// Sets the desired value of a device on the live page, and follows it to the device and back. The argument is JSON: `address` is a login
// link, `chromium` is the browser.
const { launch, run, violations, visit } = require("./visit.cjs");

async function look(page) {
  await page.getByRole("link", { name: "Devices", exact: true }).click();
  const card = page.locator(".card", { hasText: "default/oven" });
  const property = card.locator("li", { hasText: "target" });
  const value = (name) => property.locator("dl div", { hasText: name }).locator("dd");
  await value("Reported").getByText("20").waitFor();
  await property.getByLabel("New desired value of target").fill("22");
  await property.getByRole("button", { name: "Set" }).click();
  await value("Desired").getByText("22").waitFor();
  await value("Reported").getByText("22").waitFor();
  await property.locator(".sparkline").waitFor();
  const axe = await violations(page);
  await card.getByRole("link", { name: "Show in the timeline" }).click();
  // the value goes to the device, and the device's report comes back
  for (const stages of ["value reached", "answered"]) await page.locator("tr", { hasText: "default/oven" }).filter({ hasText: stages }).first().waitFor();
  return { axe };
}

run(async ({ address, chromium }) => {
  const browser = await launch(chromium);
  const seen = await visit(browser, address, look);
  await browser.close();
  return seen;
});
