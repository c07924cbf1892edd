// Tests of the pure modules of the live page. The argument is its folder.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// Node.js reads a file with the ending .js as a module only below such a package
const folder = mkdtempSync(join(tmpdir(), "page-"));
cpSync(process.argv[2], folder, { recursive: true });
writeFileSync(join(folder, "package.json"), '{"type": "module"}');
process.on("exit", () => rmSync(folder, { recursive: true }));
const load = (name) => import(`${pathToFileURL(folder)}/${name}.js`);
const { keyText, Screen } = await load("vt");
const { scenarioOf, toYaml } = await load("scenario");
const { Spans } = await load("spans");
const { Deliveries, outcome } = await load("deliveries");
const { differences } = await load("diff");

const textOf = (screen) => screen.lines.map((line) => line.map(({ char }) => char).join("").trimEnd()).join("|").replace(/\|+$/, "");

// what a program prints on a screen of ten columns and three rows, and what it then shows
for (const [input, expected] of [
  ["abc\r\nde", "abc|de"],
  ["1\r\n2\r\n3\r\n4", "2|3|4"],
  ["0123456789ab", "0123456789|ab"],
  ["abc\b\bX", "aXc"],
  ["abc\x1b[2J\x1b[2;2Hx", "| x"],
  ["abc\x1b[2D\x1b[K", "a"],
  ["abc\x1b[3D\x1b[P", "bc"],
  ["abc\x1b[3D\x1b[2@", "  abc"],
  ["1\r\n2\r\n3\x1b[1;1H\x1b[L", "|1|2"],
  ["1\r\n2\r\n3\x1b[1;1H\x1b[M", "2|3"],
  ["1\r\n2\r\n3\x1b[1;2r\x1b[2;1H\n", "2||3"],
  ["1\x1b[?1049hfull\x1b[?1049l2", "12"],
  ["\x1b]0;title\x07a\x1b(Bb\x1b[38;5;9mc", "abc"],
  ["😀ä", "😀ä"],
]) {
  // also if it comes letter by letter
  for (const pieces of [[input], input.match(/[^]/gu)]) {
    const screen = new Screen(10, 3);
    for (const piece of pieces) screen.write(piece);
    assert.equal(textOf(screen), expected, JSON.stringify(input));
  }
}
const random = (seed) => () => ((seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648);
const next = random(7);
const screen = new Screen(10, 5);
for (let round = 0; round < 5000; round++) {
  const letter = "ABCDHJKLMPSTXmrsu@hl78"[Math.floor(next() * 22)];
  if (next() < 0.1) screen.resize(1 + Math.floor(next() * 40), 1 + Math.floor(next() * 20));
  screen.write(`\x1b[${next() < 0.2 ? "?" : ""}${Math.floor(next() * 50)};${Math.floor(next() * 50)}${letter}x\n\x1b${letter}`);
  assert.equal(screen.lines.length, screen.rows);
  assert.ok(screen.lines.every((line) => line.length === screen.columns) && screen.lines[screen.y]);
}
screen.write("\x1b[1;1H\x1b[6n");
assert.equal(screen.answer.slice(-6), "\x1b[1;1R");
assert.deepEqual(
  [{ key: "c", ctrlKey: true }, { key: "ArrowUp" }, { key: "Enter" }, { key: "x", altKey: true }, { key: "Tab", shiftKey: true }, { key: "Shift" }].map((event) => keyText(event)),
  ["\x03", "\x1b[A", "\r", "\x1bx", "", ""],
);

// a scenario has everything in its order
const begin = Date.parse("2025-06-01T12:00:00Z");
const at = (seconds) => new Date(begin + seconds * 1000).toISOString();
const pod = (name, seconds) => ({ metadata: { name, namespace: "default", uid: "u", creationTimestamp: at(seconds) }, spec: { containers: [{ name: "c" }] }, status: { phase: "Running" } });
const faults = { seed: 3, faults: [{ id: 2, target: "edge-1", since: at(9), link: "cut" }], past: [{ id: 1, target: "all", since: at(2), until: at(5), drop: 0.5 }] };
const document = scenarioOf(
  { nodes: new Map([["edge-1", {}]]), pods: new Map([["default/a", pod("a", 0)]]), devices: new Map(), models: new Map(), deleted: new Map([["default/b", { object: pod("b", 1), time: begin + 8000 }]]), sessions: new Map(), faults },
  begin + 10000,
);
const steps = document.steps.map((step) => Object.keys(step)[0]);
assert.deepEqual(steps, ["apply", "pause", "apply", "pause", "faults", "pause", "delete", "pause", "faults", "expect", "expect", "expect"]);
assert.deepEqual(document.steps[4].faults, { node: "all", conditions: { drop: 0.5, for: "3000ms" } });
assert.equal(document.steps[9].expect.connected, false);
assert.equal(document.steps[0].apply.metadata.uid, undefined);
assert.equal(toYaml({ name: "a: b", list: [{ one: 1, two: [] }, "x"], off: null }), 'name: "a: b"\nlist:\n  - one: 1\n    two: []\n  - "x"\n"off": null');

// spans of a node and of all
const spans = new Spans();
spans.take(faults);
assert.deepEqual([spans.of("edge-1").length, spans.of("edge-2").length], [2, 1]);
assert.equal(spans.during("edge-2", begin + 6000, begin + 7000), undefined);
assert.deepEqual(spans.targets(begin, begin + 4000), ["all"]);

// an acknowledgement counts only from the node of the message, and the time before a connection counts
const deliveries = new Deliveries();
const message = (connection, from, header, route, content) => ({ type: "frame", connection, time: (begin + 20000) * 1e6, from, size: 1, kind: "pod", message: { header, route: { group: "resource", ...route }, content } });
for (const id of [1, 2]) deliveries.add({ type: "connection", id, time: (begin + 15000) * 1e6, node: `edge-${id}` });
const route = { operation: "insert", resource: "default/pod/a" };
deliveries.add(message(1, "cloud", { msg_id: "m", timestamp: begin + 20000 }, route, pod("a", 3)));
deliveries.add(message(2, "edge", { msg_id: "x", parent_msg_id: "m" }, { operation: "response", resource: "default/pod/a" }, "OK"));
assert.equal(outcome(deliveries.all[0]), "waiting");
assert.equal(deliveries.all[0].written, begin + 3000);
deliveries.add(message(1, "edge", { msg_id: "y", parent_msg_id: "m" }, { operation: "response", resource: "default/pod/a" }, "OK"));
assert.equal(outcome(deliveries.all[0]), "acknowledged");
assert.deepEqual(differences({ metadata: { managedFields: [1] }, a: 1 }, { metadata: { managedFields: [2] }, a: 2 }), [{ path: "a", before: "1", now: "2" }]);
