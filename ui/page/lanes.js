// Draws deliveries on a canvas: a row for each object with four lanes, from the cloud down to the pod or device. One delivery is one bar,
// which descends through the lanes as it proceeds.
import { endOf, outcome, stages } from "./deliveries.js";
import { byName, clock, fitted, MAX_LETTERS, short } from "./format.js";
import { t } from "./texts.js";

export const LANES = ["cloud", "link", "node", "object"];
const LANE_HEIGHT = 7;
export const ROW_HEIGHT = LANES.length * LANE_HEIGHT + 10;
export const AXIS_HEIGHT = 24;
const MIN_WIDTH = 3;
// a line below the bar
const MARK_HEIGHT = 3;

// Returns the objects of deliveries as rows, those of one node together.
export function rowsOf(deliveries) {
  const nodes = new Map();
  for (const delivery of deliveries) {
    let rows = nodes.get(delivery.node);
    if (!rows) nodes.set(delivery.node, (rows = new Map()));
    const row = rows.get(delivery.row);
    if (row) row.deliveries.push(delivery);
    else rows.set(delivery.row, { node: delivery.node, key: delivery.row, deliveries: [delivery] });
  }
  return [...nodes.keys()].sort(byName).flatMap((node) => [...nodes.get(node).values()]);
}

// Returns a row for each target that has a fault in this time, also if nothing was sent.
export function faultRows(spans, { begin, end }, node) {
  const targets = spans.targets(begin, end).filter((target) => !node || target === node || target === "all");
  return targets.map((target) => ({ node: target, key: t("faults"), deliveries: [], isOfFaults: true }));
}

function colours(canvas) {
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(["text", "dim", "line", "stripe", "cloud", "link", "node", "object", "bad", "background"].map((name) => [name, colour(name)]));
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 300000, 600000, 1800000];

function drawAxis(context, view, palette, width) {
  const step = STEPS.find((one) => (one / view.span) * width > 75) || 3600000;
  context.fillStyle = palette.dim;
  context.strokeStyle = palette.line;
  for (let time = Math.ceil(view.begin / step) * step; time < view.begin + view.span; time += step) {
    const x = view.left + ((time - view.begin) / view.span) * width;
    context.fillText(step < 1000 ? clock(time) : clock(time).slice(0, 8), x + 3, 15);
    context.beginPath();
    context.moveTo(x + 0.5, 0);
    context.lineTo(x + 0.5, view.height);
    context.stroke();
  }
}

// Draws the rows in view and returns the places of the bars, for clicks.
export function draw(canvas, rows, view, chosen) {
  const ratio = devicePixelRatio || 1;
  const context = canvas.getContext("2d");
  if (canvas.width !== Math.round(view.width * ratio) || canvas.height !== Math.round(view.height * ratio)) {
    canvas.width = Math.round(view.width * ratio);
    canvas.height = Math.round(view.height * ratio);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const palette = colours(canvas);
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = palette.background;
  context.fillRect(0, 0, view.width, view.height);
  const width = view.width - view.left;
  const places = [];
  const first = Math.max(0, Math.floor(view.scroll / ROW_HEIGHT));
  const last = Math.min(rows.length, Math.ceil((view.scroll + view.height) / ROW_HEIGHT));
  drawAxis(context, view, palette, width);
  for (let number = first; number < last; number++) {
    const top = AXIS_HEIGHT + number * ROW_HEIGHT - view.scroll;
    if (top < AXIS_HEIGHT - ROW_HEIGHT) continue;
    context.save();
    context.beginPath();
    context.rect(0, AXIS_HEIGHT, view.width, view.height);
    context.clip();
    drawRow(context, rows[number], rows[number - 1]?.node !== rows[number].node || number === first, { top, width, view, palette, chosen, places });
    context.restore();
  }
  return places;
}

const fittedIn = (context, text, width) => fitted(text, width, (part) => context.measureText(part).width);

function drawRow(context, row, isFirstOfNode, { top, width, view, palette, chosen, places }) {
  context.fillStyle = palette.stripe;
  for (let lane = 0; lane < LANES.length; lane += 2) context.fillRect(view.left, top + 4 + lane * LANE_HEIGHT, width, LANE_HEIGHT);
  context.strokeStyle = isFirstOfNode ? palette.dim : palette.line;
  context.beginPath();
  context.moveTo(0, top + 0.5);
  context.lineTo(view.width, top + 0.5);
  context.stroke();
  context.fillStyle = palette.text;
  context.fillText(fittedIn(context, row.key, view.left - 12), 6, top + 15);
  context.fillStyle = palette.dim;
  context.fillText(fittedIn(context, row.node, view.left - 12), 6, top + 30);
  const place = (time) => view.left + ((time - view.begin) / view.span) * width;
  drawSpans(context, row, place, { top, width, view, palette });
  const faults = view.spans.of(row.node);
  let covered = -1;
  for (const delivery of row.deliveries) {
    const end = endOf(delivery);
    if (end < view.begin || delivery.written > view.begin + view.span) continue;
    const [begin, until] = [Math.max(place(delivery.written), view.left), Math.max(place(end), place(delivery.written) + MIN_WIDTH * 2)];
    // bars at the same place cannot be told apart
    if (until <= covered && delivery !== chosen && outcome(delivery) !== "waiting") continue;
    covered = until;
    const isAffected = view.spans.affecting(delivery, faults) !== undefined;
    drawBar(context, delivery, place, { top, view, palette, isAffected, isChosen: delivery === chosen });
    places.push({ delivery, left: begin - 2, right: until + 2, top, bottom: top + ROW_HEIGHT });
  }
}

// Marks the times in which the row's node had a fault. The row of the faults has their texts, below each other.
function drawSpans(context, { node, isOfFaults }, place, { top, width, view, palette }) {
  const spans = isOfFaults ? view.spans.all.filter((span) => span.node === node) : view.spans.of(node);
  spans.forEach((span, number) => {
    const [left, right] = [Math.max(place(span.begin), view.left), Math.min(place(span.end), view.left + width)];
    if (right <= left) return;
    context.globalAlpha = 0.18;
    context.fillStyle = palette.bad;
    context.fillRect(left, top + 1, right - left, ROW_HEIGHT - 1);
    context.globalAlpha = 1;
    context.fillRect(left, top + 1, 2, ROW_HEIGHT - 1);
    if (isOfFaults) drawText(context, `▲ ${span.text}`, [view.left, left, view.left + width], top + 12 + (number % 3) * 12);
  });
}

// Draws the text of a fault from its begin to the right, or before it if there is more space.
function drawText(context, text, [first, begin, last], y) {
  const isBefore = context.measureText(short(text, MAX_LETTERS)).width > last - begin - 10 && begin - first > last - begin;
  context.textAlign = isBefore ? "right" : "left";
  context.fillText(fittedIn(context, text, (isBefore ? begin - first : last - begin) - 10), begin + (isBefore ? -4 : 6), y);
  context.textAlign = "left";
}

function drawBar(context, delivery, place, { top, view, palette, isAffected, isChosen }) {
  let x = 0;
  for (const stage of stages(delivery)) {
    const lane = LANES.indexOf(stage.lane);
    const left = Math.max(place(stage.begin), x);
    const right = Math.max(place(stage.end), left + MIN_WIDTH);
    x = right;
    if (right < view.left) continue;
    const begin = Math.max(left, view.left);
    context.fillStyle = palette[stage.lane];
    context.fillRect(begin, top + 4 + lane * LANE_HEIGHT, right - begin, LANE_HEIGHT - 1);
  }
  if (outcome(delivery) === "waiting") {
    context.fillStyle = palette.bad;
    context.fillRect(Math.max(x, view.left), top + 4 + LANE_HEIGHT, MIN_WIDTH * 2, LANE_HEIGHT - 1);
  }
  if (isAffected) {
    const left = Math.max(place(delivery.written), view.left);
    context.fillStyle = palette.bad;
    context.fillRect(left, top + 4 + LANES.length * LANE_HEIGHT, Math.max(x - left, MIN_WIDTH * 2), MARK_HEIGHT);
  }
  if (isChosen) {
    context.strokeStyle = palette.text;
    context.strokeRect(Math.max(place(delivery.written), view.left) - 2, top + 2, Math.max(x - place(delivery.written), MIN_WIDTH) + 4, ROW_HEIGHT - 4);
  }
}
