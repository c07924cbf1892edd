// Tests of the pure modules of the live page. The arguments are its folder, and that of the sources of `cloudsim why`.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
const { comment, referencesOf, scenarioOf, toYaml } = await load("scenario");
const { inChinese, isKnown } = await load("sentences");
const { Spans } = await load("spans");
const { Deliveries, outcome, stages } = await load("deliveries");
const { differences } = await load("diff");
const { fitted } = await load("format");

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
// what others have written into the note of kubectl is not applied
const noted = (note) => {
  const own = pod("a", 0);
  own.metadata.annotations = { "kubectl.kubernetes.io/last-applied-configuration": note };
  const { steps } = scenarioOf({ nodes: new Map(), pods: new Map([["default/a", own]]), devices: new Map(), models: new Map(), deleted: new Map(), sessions: new Map(), faults: null }, begin);
  return steps[0].apply.spec;
};
assert.deepEqual(noted('{"kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[]}}'), { containers: [] });
for (const note of ["{", "null", '{"kind":"Secret","metadata":{"name":"a"},"spec":{}}', '{"kind":"Pod","metadata":{"name":"b"},"spec":{}}']) {
  assert.equal(noted(note).containers[0].name, "c", note);
}
// no text of a cluster ends its quotes or its comment
assert.equal(toYaml(["a\u0085---\u2028\u007f"]), '- "a\\u0085---\\u2028\\u007f"');
assert.equal(comment("The Secret a\nsteps: []\u0085b\u2028c"), "# The Secret a steps: [] b c\n");
assert.equal(toYaml({ name: "a: b", list: [{ one: 1, two: [] }, "x"], off: null }), 'name: "a: b"\nlist:\n  - one: 1\n    two: []\n  - "x"\n"off": null');

// what was desired of a device comes in its order, ConfigMaps come from the API, and Secrets are only named
const device = (value) => ({ metadata: { name: "d", namespace: "default", creationTimestamp: at(0) }, spec: { properties: [{ name: "p", desired: { value } }] } });
const set = scenarioOf(
  {
    nodes: new Map(), pods: new Map(), models: new Map(), deleted: new Map(), sessions: new Map(), devices: new Map([["default/d", device("2")]]),
    changes: new Map([["default/d", [{ object: device("1"), time: begin + 3000 }, { object: device("2"), time: begin + 4000 }]]]),
    secrets: [{ namespace: "x", name: "s", keys: ["k"], time: begin + 1000 }],
    maps: [{ metadata: { name: "m", creationTimestamp: at(2), uid: "u" }, data: { a: "b" } }],
  },
  begin + 10000,
);
const written = set.steps.filter(({ apply }) => apply).map(({ apply }) => apply.data?.a ?? apply.stringData?.k ?? apply.spec.properties[0].desired.value);
assert.deepEqual(written, ["1", "not saved", "b", "2"]);
const naming = { volumes: [{ name: "v", configMap: { name: "m" } }, { name: "kube-api-access-x", projected: { sources: [{ configMap: { name: "kube-root-ca.crt" } }] } }], containers: [{ envFrom: [{ secretRef: { name: "s" } }], env: [{ name: "A", valueFrom: { secretKeyRef: { name: "s", key: "k" } } }] }] };
assert.deepEqual(referencesOf([{ metadata: { namespace: "x" }, spec: naming }]), { configMaps: ["x/m"], secrets: { "x/s": ["k"] } });

// each sentence of the steps has a translation
assert.equal(inChinese("not sent to edge-1; edge-1 is not connected; last heartbeat 3m ago"), "尚未发往 edge-1；edge-1 未连接；上次心跳在3m前");
for (const text of ["no such sentence", "constructor", " of  for container : ".repeat(20000)]) assert.equal(inChinese(text), text);
// parts of sentences, errors of requests, and texts of others
const PARTS = /^(; |: )|^`[^`]*`$|^, $|^were |^(the|what) (pod|device|node)('s)? ?[a-z]*$|^what the |^the names of |^there is no \{\} \{\} in the namespace|^cannot read |^\{\}[:;] \{\}$|^\{\}, /;
const untranslated = [];
for (const name of ["mod", "pod", "node", "device", "needs"]) {
  const source = readFileSync(join(process.argv[3], `${name}.rs`), "utf8").split("#[cfg(test)]\nmod tests {")[0].replace(/^\s*\/\/.*$/gm, "");
  for (const [, literal] of source.matchAll(/"((?:[^"\\]|\\[^])*)"/g)) {
    const template = literal.replace(/\\\n\s*/g, "").replace(/\{[^}]*\}/g, "{}");
    if (template.includes(" ") && !PARTS.test(template) && !isKnown(template)) untranslated.push(`${name}.rs: ${template}`);
  }
}
assert.deepEqual(untranslated, []);

// spans of a node and of all
const spans = new Spans();
spans.take(faults);
assert.deepEqual([spans.of("edge-1").length, spans.of("edge-2").length], [2, 1]);
const delivery = (kind, from, seconds) => ({ node: "edge-2", kind, from, written: begin + seconds * 1000, sent: begin + seconds * 1000 });
assert.deepEqual([4, 6].map((seconds) => spans.affecting(delivery("pod", "cloud", seconds))?.text), ["drop: 0.5", undefined]);
spans.take({ faults: [{ target: "all", since: at(0), drop: 1, direction: "toNode", kinds: ["pod"] }], past: [] });
const areAffected = [delivery("pod", "cloud", 1), delivery("secret", "cloud", 1), delivery("pod", "edge", 1)].map((one) => spans.affecting(one) !== undefined);
assert.deepEqual(areAffected, [true, false, false]);
spans.take(faults);
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

// a report is about its device, and shows when the device has the values that were changed
const desire = (id, target) => {
  const properties = [["target", target], ["light", "on"]].map(([name, value]) => ({ name, desired: { value } }));
  deliveries.add({ ...message(1, "cloud", { msg_id: id }, { operation: "update", resource: "default/device/oven" }, { spec: { properties } }), kind: "device" });
  return deliveries.all.at(-1);
};
const report = (values) => {
  const twin = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { actual: { value } }]));
  const route = { operation: "update", resource: "device/default/oven/twin/edge_updated" };
  deliveries.add({ ...message(1, "edge", { msg_id: JSON.stringify(values), timestamp: begin + 20000 }, route, { twin }), kind: "twin-report" });
};
const first = desire("d1", "20");
report({ target: "20", light: "off" });
assert.equal(outcome(first), "waiting");
report({ light: "on" });
assert.deepEqual([outcome(first), deliveries.all.at(-1).row, deliveries.desired.size], ["reached", "device default/oven", 0]);
const [second, third] = [desire("d2", "21"), desire("d3", "22")];
report({ target: "21" });
report({ target: "22" });
assert.deepEqual([outcome(second), outcome(third), stages(third).map(({ name }) => name)], ["waiting", "reached", ["sent", "reached", "returned"]]);
for (const content of [null, 5, "{", { spec: { properties: [null, {}] }, metadata: { managedFields: null } }, { twin: [null] }]) {
  for (const kind of ["device", "twin-report", "pod", "pod-status"]) deliveries.add({ ...message(1, "cloud", { msg_id: kind }, { operation: "update", resource: "a/device/b" }, content), kind });
}

// a text is fitted with few measurements, however long it is
let measured = 0;
const measure = (text) => ((measured += text.length), text.length);
assert.deepEqual(["a".repeat(30), `${"a".repeat(1e6)}end`, "abcdef"].map((text) => fitted(text, 30, measure)), ["a".repeat(30), `${"a".repeat(15)}…${"a".repeat(11)}end`, "abcdef"]);
assert.ok(measured < 5000, `${measured}`);

// contents are kept within a size
const large = new Deliveries();
for (let number = 0; number < 20; number++) large.add({ ...message(1, "edge", { msg_id: `${number}` }, route, "content"), size: 4e6 });
assert.deepEqual([large.all.length, large.all.filter(({ frame }) => frame.message).length, large.bytes], [20, 4, 16e6]);
assert.deepEqual(differences({ metadata: { managedFields: [1] }, a: 1 }, { metadata: { managedFields: [2] }, a: 2 }), [{ path: "a", before: "1", now: "2" }]);

// a request is repeated while the cloud cannot be reached, and not after an answer
const { untilAnswered } = await load("api");
const answers = [new TypeError("network changed"), "done", Object.assign(new Error("refused"), { status: 403 })];
const reported = [];
const ask = async () => {
  const answer = answers.shift();
  if (answer instanceof Error) throw answer;
  return answer;
};
const note = (error) => reported.push(error?.message ?? null);
assert.equal(await untilAnswered(ask, note), "done");
await assert.rejects(untilAnswered(ask, note), /refused/);
assert.deepEqual(reported, ["network changed", null]);
