// A cloud with fixed data for tests of the live page's look: the page's files, and an API whose answers depend only on the options.
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const http2 = require("node:http2");
const os = require("node:os");
const path = require("node:path");

const NOW = Date.parse("2025-06-01T12:00:00Z");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const HOSTILE = `<img src=x onerror="document.title='injected'">`;
const at = (seconds) => new Date(NOW + seconds * 1000).toISOString();
const pick = (number, list) => list[number % list.length];

function nodeOf(number) {
  const isReady = number % 7 !== 3;
  const name = number === 2 ? "gateway-with-a-long-name.plant-7.example.com" : `edge-${number}`;
  const condition = { type: "Ready", status: isReady ? "True" : "Unknown", message: isReady ? "" : "edge is offline, since its link was cut" };
  const labels = { "topology.kubernetes.io/zone": pick(number, ["berlin", "paris", "wien"]) };
  return { metadata: { name, labels, resourceVersion: "1" }, status: { conditions: [condition] } };
}

function podOf(number, { metadata }) {
  const name = number === 2 ? "a-pod-whose-name-is-longer-than-a-column-5f7d8c9b6d-x2k4q" : `pod-${number}`;
  const isRunning = number % 9 !== 4;
  const state = isRunning ? { running: {} } : { waiting: { reason: "ImagePullBackOff", message: HOSTILE } };
  const statuses = [{ name: "c", ready: isRunning, restartCount: number % 4, state }];
  const spec = { nodeName: metadata.name, containers: [{ name: "c", image: "busybox" }] };
  return { metadata: { name, namespace: "default", uid: `u-${number}`, creationTimestamp: at(-number % 60) }, spec, status: { phase: isRunning ? "Running" : "Pending", containerStatuses: statuses } };
}

function deviceOf(number, { metadata }) {
  const properties = ["temperature", "a-property-with-a-long-name"].map((name) => ({ name, desired: { value: String(20 + number) } }));
  return { metadata: { name: `sensor-${number}`, namespace: "default", resourceVersion: String(number) }, spec: { nodeName: metadata.name, deviceModelRef: { name: "sensor" }, properties } };
}

function statusOf({ metadata, spec }) {
  const twins = spec.properties.map(({ name }, number) => ({ propertyName: name, reported: { value: String(20 + number), metadata: { timestamp: String(NOW - 5000) } } }));
  return { metadata, status: { state: "online", twins } };
}

const frame = (connection, from, time, kind, [id, parent], route, content) => ({
  type: "frame", connection, from, time: time * 1e6, kind, size: 2800,
  message: { header: { msg_id: id, parent_msg_id: parent, timestamp: time - 4 }, route: { group: "resource", ...route }, content },
});

// The content of a pod's message, in its usual size.
const contentOf = (number) => ({ metadata: { name: `pod-${number}` }, spec: { hostile: HOSTILE, env: Array.from({ length: 40 }, (_, at) => ({ name: `VARIABLE_${at}`, value: `value ${number} ${at}` })) } });

// Returns the lines of `count` bars: pods that were sent to nodes, stored and, unless `isPlain`, started and reported.
function linesOf(nodes, { bars: count, seconds, now, isPlain }) {
  const lines = nodes.map(({ metadata }, id) => ({ type: "connection", id, node: metadata.name, time: (now - 600000) * 1e6 }));
  for (let number = 0; number < count; number++) {
    const connection = number % nodes.length;
    const time = now - seconds * 1000 * (1 - number / count);
    const resource = `default/pod/pod-${number}`;
    lines.push(frame(connection, "cloud", time, "pod", [`m${number}`], { operation: "insert", resource }, contentOf(number)));
    // every tenth is lost
    if (number % 10 === 9 && !isPlain) continue;
    lines.push(frame(connection, "edge", time + 300, "response", [`a${number}`, `m${number}`], { operation: "response", resource }, "OK"));
    if (isPlain) continue;
    lines.push(frame(connection, "edge", time + 1500, "pod-status", [`s${number}`], { operation: "update", resource: `default/podstatus/pod-${number}` }, { status: { phase: "Running" } }));
  }
  return lines;
}

const WHY = {
  object: "pod/pod-4",
  missing: "image",
  steps: [
    { name: "created", state: "ok", text: "4m ago" },
    { name: "delivered", state: "ok", text: "edge-4 has acknowledged revision 12" },
    { name: "image", state: "missing", text: `ErrImagePull of busybox for container c: ${HOSTILE}`, fix: "correct the name of the image or its pull secret, or import the image into the node's container runtime" },
    { name: "ready", state: "unknown", text: "" },
  ],
};

// Returns a certificate of its own. Over HTTP/1.1, watches would take all connections that a browser opens.
function certificate() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
  const [key, cert] = ["key", "cert"].map((name) => path.join(folder, name));
  const options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost"];
  execFileSync("openssl", ["req", "-x509", ...options, "-keyout", key, "-out", cert], { stdio: "ignore" });
  const pair = { key: fs.readFileSync(key), cert: fs.readFileSync(cert) };
  fs.rmSync(folder, { recursive: true });
  return pair;
}

// Starts the cloud. `folder` is that of the page. Returns its address, a function that sends more lines, and one that ends it.
async function start({ folder, nodes: count = 3, bars = 12, seconds = 25, now = NOW, isPlain = false }) {
  const nodes = Array.from({ length: count }, (_, number) => nodeOf(number + 1));
  const pods = nodes.map((node, number) => podOf(number + 1, node));
  const devices = nodes.slice(0, 80).map((node, number) => deviceOf(number + 1, node));
  const devicesApi = "/apis/devices.kubeedge.io/v1beta1";
  const lists = {
    "/api/v1/nodes": nodes,
    "/api/v1/pods": pods,
    [`${devicesApi}/devices`]: devices,
    [`${devicesApi}/devicestatuses`]: devices.map(statusOf),
    [`${devicesApi}/devicemodels`]: [{ metadata: { name: "sensor", namespace: "default" }, spec: { properties: [{ name: "temperature", accessMode: "ReadWrite" }] } }],
    "/apis/metrics.k8s.io/v1beta1/nodes": nodes.map(({ metadata }, number) => ({ metadata, usage: { cpu: `${(number * 37) % 900}m`, memory: `${64 + (number % 900)}Mi` } })),
  };
  const sessions = nodes.filter((_, number) => number % 11 !== 6).map(({ metadata }, number) => ({ node: metadata.name, since: at(-90 * number - 9), transport: pick(number, ["WebSocket", "QUIC"]), queue: number % 3 }));
  const faults = { seed: 7, past: [{ id: 1, target: nodes[0].metadata.name, since: at(-20), until: at(-12), drop: 0.5 }], faults: [{ id: 2, target: "all", since: at(-6), delay: "900ms", direction: "toNode" }] };
  const values = { "/cloudsim/v1/nodes": { nodes: sessions }, "/cloudsim/v1/faults": faults };
  const readers = new Set();
  const answer = (request, response) => {
    const url = new URL(request.url, "http://localhost");
    const send = (value) => {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(value));
    };
    if (url.pathname.startsWith("/ui/")) {
      const name = url.pathname.slice(4) || "index.html";
      response.setHeader("content-type", TYPES[path.extname(name)]);
      return response.end(fs.readFileSync(path.join(folder, name)));
    }
    if (url.pathname.endsWith("selfsubjectreviews")) return send({ status: { userInfo: { username: "system:serviceaccount:default:operator" } } });
    if (url.pathname.endsWith("selfsubjectaccessreviews")) return send({ status: { allowed: true } });
    // a watch without events
    if (url.searchParams.has("watch")) return response.write("\n");
    if (lists[url.pathname]) return send({ metadata: { resourceVersion: "1" }, items: lists[url.pathname] });
    if (url.pathname === "/cloudsim/v1/messages") {
      for (const line of linesOf(nodes, { bars, seconds, now, isPlain })) response.write(`${JSON.stringify(line)}\n`);
      readers.add(response);
      return response.on("close", () => readers.delete(response));
    }
    if (url.pathname.startsWith("/cloudsim/v1/why/")) return send(WHY);
    if (values[url.pathname]) return send(values[url.pathname]);
    if (url.pathname.endsWith("/log")) {
      for (let number = 0; number < 30; number++) response.write(`${at(number - 60)} line ${number} ${HOSTILE}\n`);
      return undefined;
    }
    response.statusCode = 404;
    return send({ message: "not found" });
  };
  const server = http2.createSecureServer(certificate(), answer);
  const connections = new Set();
  server.on("session", (session) => {
    connections.add(session);
    session.on("close", () => connections.delete(session));
    session.on("error", () => {});
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `https://127.0.0.1:${server.address().port}/ui/`,
    push: (lines) => readers.forEach((reader) => reader.write(lines.map((line) => `${JSON.stringify(line)}\n`).join(""))),
    lines: (number, time) => [frame(0, "cloud", time, "pod", [`n${number}`], { operation: "insert", resource: `default/pod/new-${number}` }, contentOf(number))],
    close: () => {
      connections.forEach((session) => session.destroy());
      server.close();
    },
  };
}

module.exports = { NOW, start };
