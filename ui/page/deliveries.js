// Turns the lines of a recording into deliveries: one message, its answer, and what came of it. Pure.

const MAX_DELIVERIES = 10000;
// so many messages, of so many bytes, are kept with their content; older ones only with their times
const [MAX_CONTENTS, MAX_BYTES] = [3000, 16e6];
const HEARTBEATS = new Set(["keepalive", "lease", "lease-query", "lease-response", "node-status", "node-status-response"]);
const FINAL = new Set(["Running", "Succeeded", "Failed"]);

const milliseconds = (nanoseconds) => nanoseconds / 1e6;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// A report of a device, or its desired values: device/namespace/name/…
const OF_DEVICE = /^device\/([^/]+)\/([^/]+)\/(?:twin\/(?:cloud|edge)_updated|state\/update)$/;

// Splits the resource of a message: namespace/type/name. Reports of a pod or device are about it.
export function objectOf(resource) {
  const [, place, device] = OF_DEVICE.exec(resource) || [];
  if (device) return { namespace: place, type: "device", name: device };
  const parts = resource.split("/");
  if (parts.length < 3) return { namespace: "", type: parts[0], name: parts.slice(1).join("/") };
  const [namespace, type, ...name] = parts;
  const plain = { podpatch: "pod", podstatus: "pod", nodepatch: "node", nodestatus: "node" }[type] || type;
  return { namespace: namespace === "null" ? "" : namespace, type: plain, name: name.join("/") };
}

function objectIn(content) {
  try {
    return (typeof content === "string" ? JSON.parse(content) : content) || {};
  } catch {
    return {};
  }
}

// Returns the objects of a list. Messages may be damaged.
const listOf = (value) => (Array.isArray(value) ? value.filter((one) => one instanceof Object) : []);

// Returns when an object was changed, to the second, if its node was not connected then. Only pods and devices are sent for their own sake.
function waitedSince({ type }, content, connection) {
  if (!connection || !["pod", "device"].includes(type)) return undefined;
  const { creationTimestamp, managedFields } = content?.metadata || {};
  const times = [creationTimestamp, ...listOf(managedFields).filter((one) => one.subresource !== "status").map((one) => one.time)];
  const changed = Math.max(...times.map(Date.parse).filter(Number.isFinite));
  return Number.isFinite(changed) && changed < milliseconds(connection.time) ? changed : undefined;
}

export class Deliveries {
  constructor() {
    this.clear();
  }

  clear() {
    this.all = [];
    this.version = (this.version || 0) + 1;
    this.lost = 0;
    // the number of deliveries, from the oldest, whose contents are forgotten, and the size of the other contents
    this.forgotten = 0;
    this.bytes = 0;
    this.connections = new Map();
    this.byMessage = new Map();
    this.pods = new Map();
    // the delivery that a property's desired value comes from, by node, device and property
    this.desired = new Map();
    this.latest = new Map();
    this.rate = [];
  }

  add(line) {
    this.version += 1;
    if (line.type === "connection") this.connections.set(line.id, line);
    else if (line.type === "end") this.connections.delete(line.connection);
    else if (line.type === "gap") this.lost += line.frames;
    else if (line.type === "frame" && line.message) this.addFrame(line);
  }

  addFrame(frame) {
    const time = milliseconds(frame.time);
    const { header, route, content } = frame.message;
    const node = this.connections.get(frame.connection)?.node || "";
    const parent = this.byMessage.get(header.parent_msg_id);
    if (parent && parent.from !== frame.from && parent.node === node) {
      parent.acknowledged ??= time;
      parent.answerKind ??= frame.kind;
      return;
    }
    const object = objectOf(route.resource);
    const key = `${object.type} ${keyOf(object)}`;
    // events of one object share a row
    const row = object.type === "event" ? key.replace(/\.[^.]*$/, "") : key;
    const delivery = {
      id: header.msg_id,
      node,
      from: frame.from,
      kind: frame.kind || "unknown",
      operation: route.operation,
      object,
      key,
      row,
      title: `${frame.kind || "unknown"} ${keyOf(object)}`,
      // the node's clock may differ
      written: clamp(header.timestamp || time, time - 60000, time),
      sent: time,
      size: frame.size,
      frame,
      isHeartbeat: HEARTBEATS.has(frame.kind),
      needsAnswer: frame.from === "cloud" && !header.parent_msg_id && route.group === "resource",
    };
    if (frame.from === "cloud" && ["insert", "update"].includes(route.operation)) {
      delivery.written = waitedSince(object, content, this.connections.get(frame.connection)) ?? delivery.written;
    }
    delivery.latest = `${node} ${frame.from} ${key} ${frame.kind}`;
    delivery.previous = this.latest.get(delivery.latest)?.frame;
    this.latest.set(delivery.latest, delivery);
    this.byMessage.set(delivery.id, delivery);
    this.all.push(delivery);
    this.bytes += delivery.size;
    this.follow(delivery, content, header);
    this.forget();
  }

  // Notes how far a pod or device has come that was sent before.
  follow(delivery, content, header) {
    if (delivery.object.type === "device") this.followDevice(delivery, content, header);
    else this.followPod(delivery, content, header);
  }

  followPod(delivery, content, header) {
    const place = `${delivery.node} ${keyOf(delivery.object)}`;
    if (delivery.kind === "pod" && delivery.operation === "insert") {
      this.pods.set(place, delivery);
      return;
    }
    const pod = delivery.kind === "pod-status" && this.pods.get(place);
    if (!pod || FINAL.has(pod.phase)) return;
    const { phase } = objectIn(content).status || {};
    pod.phase = phase;
    if (!FINAL.has(phase)) return;
    finish(pod, delivery, header);
  }

  // A device has its desired values when it has reported each of those that its message has changed.
  followDevice(delivery, content, header) {
    const place = ({ node, object }, property) => `${node} ${keyOf(object)} ${property}`;
    if (delivery.kind === "device" && delivery.operation !== "delete") {
      const before = desiredOf(objectIn(delivery.previous?.message?.content));
      const changed = Object.entries(desiredOf(objectIn(content))).filter(([property, value]) => before[property] !== value);
      delivery.desired = new Map(changed.map(([property, value]) => [place(delivery, property), value]));
      for (const key of delivery.desired.keys()) this.desired.set(key, delivery);
    }
    if (delivery.kind !== "twin-report") return;
    for (const [property, twin] of Object.entries(objectIn(content).twin || {})) {
      const key = place(delivery, property);
      const sender = this.desired.get(key);
      if (!sender || sender.desired.get(key) !== twin?.actual?.value) continue;
      this.desired.delete(key);
      sender.desired.delete(key);
      if (!sender.desired.size) finish(sender, delivery, header);
    }
  }

  forget() {
    while (this.all.length - this.forgotten > (this.bytes > MAX_BYTES ? 1 : MAX_CONTENTS)) {
      const old = this.all[this.forgotten++];
      this.bytes -= old.size;
      old.previous = null;
      old.frame = { ...old.frame, message: null };
    }
    if (this.all.length <= MAX_DELIVERIES) return;
    const removed = this.all.splice(0, MAX_DELIVERIES / 10);
    this.forgotten -= removed.length;
    for (const delivery of removed) {
      this.byMessage.delete(delivery.id);
      if (this.latest.get(delivery.latest) === delivery) this.latest.delete(delivery.latest);
      const place = `${delivery.node} ${keyOf(delivery.object)}`;
      if (this.pods.get(place) === delivery) this.pods.delete(place);
      for (const key of delivery.desired?.keys() || []) if (this.desired.get(key) === delivery) this.desired.delete(key);
    }
  }

  // Returns those that a visitor has chosen, oldest first.
  select({ node, kind, name, heartbeats }) {
    const text = (name || "").toLowerCase();
    return this.all.filter(
      (one) =>
        (!node || one.node === node) &&
        (!kind || one.kind === kind) &&
        (!text || one.key.toLowerCase().includes(text)) &&
        (heartbeats || !one.isHeartbeat),
    );
  }

  kinds() {
    return [...new Set(this.all.map((one) => one.kind))].sort();
  }

  // The number of messages per second in the last ten seconds.
  perSecond(now) {
    let count = 0;
    for (let at = this.all.length - 1; at >= 0 && this.all[at].sent > now - 10000; at--) count++;
    return count / 10;
  }
}

// Returns the desired values of a device's properties.
const desiredOf = (device) => Object.fromEntries(listOf(device.spec?.properties).filter(({ desired }) => desired?.value).map(({ name, desired }) => [name, desired.value]));

// Ends a delivery with a report, written when its header says.
function finish(delivery, { sent }, header) {
  delivery.returned = sent;
  delivery.started = clamp(header.timestamp, delivery.acknowledged ?? delivery.sent, sent);
}

function keyOf({ namespace, name }) {
  return namespace ? `${namespace}/${name}` : name;
}

// Returns the stages of a delivery that have happened: the lane, the name, begin and end.
export function stages(delivery) {
  const { from, written, sent, acknowledged, started, returned } = delivery;
  const list = [];
  const lanes = from === "cloud" ? ["cloud", "link"] : ["node", "link"];
  list.push({ lane: lanes[0], name: "sent", begin: written, end: sent });
  if (acknowledged) list.push({ lane: lanes[1], name: from === "cloud" ? "acknowledged" : "answered", begin: sent, end: acknowledged });
  if (started) list.push({ lane: "object", name: delivery.phase ? "started" : "reached", begin: acknowledged ?? sent, end: started });
  if (returned) list.push({ lane: "node", name: "returned", begin: started, end: returned });
  return list;
}

// The state of a delivery in one word.
export function outcome(delivery) {
  if (delivery.phase) return delivery.phase;
  if (delivery.returned) return "reached";
  if (delivery.acknowledged) return delivery.from === "cloud" ? "acknowledged" : "answered";
  return delivery.needsAnswer ? "waiting" : "delivered";
}

export const endOf = (delivery) => delivery.returned ?? delivery.acknowledged ?? delivery.sent;
