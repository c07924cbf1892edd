// Opens addresses in a browser, and notes what must not happen there: errors of scripts, and requests to other hosts.
const { chromium } = require("playwright-core");

const WAIT = 60000;

const launch = (executablePath) => chromium.launch({ executablePath, args: ["--no-sandbox"] });

// Returns what `look` returns, and the problems.
async function visit(browser, address, look, options = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => new URL(request.url()).origin === new URL(address).origin || problems.push(request.url()));
  await page.goto(address);
  const seen = await look(page, context);
  await context.close();
  return { ...seen, problems };
}

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

module.exports = { launch, run, visit };
