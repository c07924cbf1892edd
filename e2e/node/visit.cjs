// Opens addresses in a browser, and notes what must not happen there: errors of scripts, and requests to other hosts.
const { execFileSync } = require("node:child_process");
const { chromium } = require("playwright-core");

const WAIT = 60000;

const launch = (executablePath) => chromium.launch({ executablePath, args: ["--no-sandbox"] });

const CHANGED = "ERR_NETWORK_CHANGED";
const MAX_ATTEMPTS = 5;

// Lets `goto` open an address again if the network of this machine changes meanwhile: Chromium then ends its requests. Tests with containers
// beside this one change it.
function repeatGoto(page) {
  const goto = page.goto.bind(page);
  page.goto = async (address) => {
    for (let attempt = 1; ; attempt++) {
      const failures = [];
      const note = (request) => failures.push(request.failure().errorText);
      page.on("requestfailed", note);
      const error = await goto(address).catch((error) => error);
      page.off("requestfailed", note);
      const isChanged = [...failures, String(error)].some((text) => text.includes(CHANGED));
      if (isChanged && attempt < MAX_ATTEMPTS) continue;
      if (error instanceof Error) throw error;
      return;
    }
  };
}

// Returns what `look` returns, and the problems.
async function visit(browser, address, look, options = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  repeatGoto(page);
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => new URL(request.url()).origin === new URL(address).origin || problems.push(request.url()));
  await page.goto(address);
  const seen = await look(page, context);
  await context.close();
  return { ...seen, problems };
}

// Returns the violations of accessibility rules, in both themes.
async function violations(page) {
  const axe = require("axe-core");
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

// Returns functions that run kubectl, and apply an object with it.
function kubectlOf({ kubectl, kubeconfig }) {
  const call = (args, input) => execFileSync(kubectl, ["--kubeconfig", kubeconfig, ...args], { input, encoding: "utf8" });
  return { call, apply: (object) => call(["apply", "-f", "-"], JSON.stringify(object)) };
}

const podOf = (name, more = {}) => ({ apiVersion: "v1", kind: "Pod", metadata: { name }, spec: { containers: [{ name: "c", image: "busybox" }], ...more } });

// Runs `main` with the options of the command line, and prints what it returns as JSON.
function run(main) {
  main(JSON.parse(process.argv[2])).then(
    (seen) => console.log(JSON.stringify(seen)),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

module.exports = { kubectlOf, launch, podOf, run, violations, visit };
