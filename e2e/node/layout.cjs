// Compares the live page with `layout.json`, in all views and widths: where its parts are, and how many points of its picture have which
// colour. Looks for parts that are cut off.
// The argument is JSON: `page` is the folder of the page, `layout` the file, `chromium` the browser; with `update`, the file is written.
const fs = require("node:fs");
const { NOW, start } = require("./fixture.cjs");
const { launch, run, visit } = require("./visit.cjs");

const WIDTHS = [400, 1280, 2560];
const VIEWS = {
  overview: ["?", ".cards, .tiles"],
  timeline: ["?view=timeline", "tbody tr"],
  message: ["?view=timeline&message=m1", ".message .stages"],
  pods: ["?view=pods&pod=default/pod-1", ".message .output"],
  devices: ["?view=devices", ".properties"],
  why: ["?lang=zh&why=pods/default/pod-4", ".step"],
};
// Parts whose places are stored; the first three of each.
const PARTS = ["header", "nav", ".tools", ".numbers div", ".problems li", ".filters", ".faults", ".hub", ".card", ".tile", ".lanes", ".legend li", "th", ".message", ".step", ".output", "main > section"];
// Fonts differ between machines: so many pixels, or this part of the size.
const [PIXELS, PART] = [16, 0.2];
const WAIT = 20000;
// After so many problems, nothing is waited for.
const MAX_PROBLEMS = 2;
const STYLE = "* { font-family: 'DejaVu Sans', sans-serif !important; animation: none !important; transition: none !important; }";

// Runs in the page: places and sizes of its parts, and what is cut off.
function measure(parts) {
  const width = document.documentElement.clientWidth;
  const boxes = {};
  for (const part of parts) {
    const found = [...document.querySelectorAll(part)].slice(0, 3).map((element) => element.getBoundingClientRect());
    if (found.length) boxes[part] = found.map((box) => [box.left, box.width, box.height].map(Math.round));
  }
  const problems = [];
  if (document.documentElement.scrollWidth > width) problems.push(`the page is ${document.documentElement.scrollWidth - width} pixels too wide`);
  // what is in a part that scrolls may be out of view
  const isFree = (element) => element.checkVisibility() && !element.closest(".scroll, pre, canvas, .hidden, .skip, .lanes");
  for (const element of document.querySelectorAll("main *, header *")) {
    if (!isFree(element)) continue;
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1)) problems.push(`${element.tagName}.${element.className} is out of view`);
    const isText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (isText && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline") problems.push(`the text of ${element.tagName}.${element.className} is cut off`);
  }
  const controls = [...document.querySelectorAll("button, select, input, a")].filter((element) => isFree(element) && element.getClientRects().length);
  const places = controls.map((element) => [element, element.getBoundingClientRect()]);
  for (const [element, box] of places) {
    const other = places.find(([one, its]) => one !== element && !one.contains(element) && !element.contains(one) && its.left < box.right - 2 && its.right > box.left + 2 && its.top < box.bottom - 2 && its.bottom > box.top + 2);
    if (other) problems.push(`${element.textContent || element.name} is over ${other[0].textContent || other[0].name}`);
  }
  return { boxes, problems: [...new Set(problems)].slice(0, 5) };
}

// Returns what differs between two measurements.
function differences(expected, found) {
  if (!expected) return ["no layout is stored"];
  const all = [...new Set([...Object.keys(expected), ...Object.keys(found)])].filter((part) => part !== "colours");
  const ofColours = colourDifferences(expected.colours, found.colours);
  return all.flatMap((part) => {
    const [before, now] = [expected[part] || [], found[part] || []];
    if (before.length !== now.length) return [`${part}: ${before.length} parts before, now ${now.length}`];
    const isNear = (a, b) => Math.abs(a - b) <= Math.max(PIXELS, PART * Math.max(a, b));
    return now.every((box, number) => box.every((value, at) => isNear(value, before[number][at]))) ? [] : [`${part}: [left, width, height] was ${JSON.stringify(before)}, is ${JSON.stringify(now)}`];
  }).concat(ofColours);
}

// Colours: twelve hues, and four levels of grey. So many points may differ, or this part of them.
const HUES = 12;
const [POINTS, PART_OF_POINTS] = [1500, 0.3];

// Runs in the page: counts the points of a picture by their colour.
async function count([picture, hues]) {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const points = context.getImageData(0, 0, image.width, image.height).data;
  const counts = Array(hues + 4).fill(0);
  for (let at = 0; at < points.length; at += 4) {
    const [red, green, blue] = points.subarray(at, at + 3);
    const [low, high] = [Math.min(red, green, blue), Math.max(red, green, blue)];
    const range = high - low;
    const hue = high === red ? (green - blue) / range : high === green ? 2 + (blue - red) / range : 4 + (red - green) / range;
    counts[range < 60 ? hues + (high >> 6) : Math.round(((hue + 6) % 6) * (hues / 6)) % hues] += 1;
  }
  return counts;
}

// Returns the colours that differ between two pictures.
function colourDifferences(expected, found) {
  const name = (number) => (number < HUES ? `hue ${(number * 360) / HUES}` : `grey ${number - HUES}`);
  const differs = (now, number) => Math.abs(now - expected[number]) > Math.max(POINTS, PART_OF_POINTS * Math.max(now, expected[number]));
  return found.flatMap((now, number) => (differs(now, number) ? [`${name(number)}: ${expected[number]} points before, now ${now}`] : []));
}

// Measures until nothing differs: the parts appear one after the other.
async function look(page, compare, wait) {
  const end = Date.now() + wait;
  for (;;) {
    const { boxes, problems } = await page.evaluate(measure, PARTS);
    const picture = (await page.screenshot()).toString("base64");
    const colours = await page.evaluate(count, [picture, HUES]);
    const found = [...problems, ...compare({ ...boxes, colours })];
    if (!found.length || Date.now() > end) return found;
    await page.waitForTimeout(100);
  }
}

run(async ({ page: folder, layout, chromium, update }) => {
  const stored = update ? {} : JSON.parse(fs.readFileSync(layout, "utf8"));
  const problems = [];
  const browser = await launch(chromium);
  for (const [nodes, widths] of [[3, WIDTHS], [100, [1280]]]) {
    const cloud = await start({ folder, nodes, bars: nodes * 6 });
    for (const width of widths) {
      const colorScheme = width === 400 ? "dark" : "light";
      const seen = await visit(
        browser,
        cloud.url,
        async (page) => {
          await page.clock.setFixedTime(NOW);
          for (const [view, [query, ready]] of Object.entries(VIEWS)) {
            await page.goto(cloud.url + query);
            await page.addStyleTag({ content: STYLE });
            await page.locator(ready).first().waitFor();
            const name = `${view} ${nodes} nodes ${width}px`;
            if (update) await page.waitForTimeout(1000);
            const found = await look(page, (seen) => {
              if (update) stored[name] = seen;
              return differences(stored[name], seen);
            }, problems.length < MAX_PROBLEMS ? WAIT : 0);
            problems.push(...found.map((text) => `${name} ${colorScheme}: ${text}`));
          }
          return {};
        },
        { viewport: { width, height: 1000 }, colorScheme, timezoneId: "UTC", locale: "en" },
      );
      problems.push(...seen.problems);
    }
    cloud.close();
  }
  await browser.close();
  const lines = Object.entries(stored).map(([name, boxes]) => `${JSON.stringify(name)}: ${JSON.stringify(boxes)}`);
  if (update) fs.writeFileSync(layout, `{\n${lines.join(",\n")}\n}\n`);
  return { problems };
});
