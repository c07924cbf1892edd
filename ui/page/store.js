// What the page knows: objects of the API, sessions, metrics and messages.
import { useEffect, useState } from "./vendor/htm-preact.js";
import { followMessages, followObjects, get, isAllowed, poll, untilAnswered, whoAmI } from "./api.js";
import { Deliveries } from "./deliveries.js";
import { Spans } from "./spans.js";

const DRAW_PAUSE = 100;
const MAX_POINTS = 100;
const MAX_DELETED = 100;
const MAX_CHANGES = 100;

export const store = {
  nodes: new Map(),
  pods: new Map(),
  devices: new Map(),
  // pods that were deleted while the page was open
  deleted: new Map(),
  // what was desired of devices while the page was open, by device
  changes: new Map(),
  // what devices report, and earlier values by device and property
  statuses: new Map(),
  history: new Map(),
  sessions: new Map(),
  usage: new Map(),
  deliveries: new Deliveries(),
  // the answer to GET /cloudsim/v1/faults
  faults: null,
  spans: new Spans(),
  // accessible models, by name
  models: new Map(),
  // sources that have been read
  loaded: new Set(),
  // errors by source; null if it works
  errors: {},
  isLoggedOut: false,
  // the name of the recording that is shown in the place of the live messages
  recording: "",
  user: "",
  mayInject: false,
  maySetDevices: false,
  mayReadLogs: false,
  mayRun: false,
};

const listeners = new Set();
let timer = null;
let latest = 0;

function notify() {
  timer ??= setTimeout(() => {
    timer = null;
    latest = performance.now();
    for (const listener of listeners) listener();
  }, Math.max(0, latest + DRAW_PAUSE - performance.now()));
}

// Draws the component again when something has changed, at most ten times a second.
export function useStore() {
  const [, draw] = useState(0);
  useEffect(() => {
    const listener = () => draw((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return store;
}

export const report = (source) => (error) => {
  if (error?.status === 401) store.isLoggedOut = true;
  // the metrics API is missing if there are no stream tunnels
  store.errors[source] = error && error.name !== "AbortError" ? error : null;
  notify();
};

export const keyOf = ({ namespace, name }) => (namespace ? `${namespace}/${name}` : name);

// Keeps reported values for sparklines.
function keepValues(status) {
  for (const { propertyName, reported } of status.status?.twins || []) {
    const time = Number(reported?.metadata?.timestamp);
    if (!time) continue;
    const key = `${keyOf(status.metadata)} ${propertyName}`;
    const points = store.history.get(key) || [];
    if (points.at(-1)?.time === time) continue;
    points.push({ time, value: Number(reported.value) });
    store.history.set(key, points.slice(-MAX_POINTS));
  }
}

function forgetValues(status) {
  for (const { propertyName } of status.status?.twins || []) store.history.delete(`${keyOf(status.metadata)} ${propertyName}`);
}

function noteDeleted(key, object) {
  store.deleted.delete(key);
  store.deleted.set(key, { object, time: Date.now() });
  if (store.deleted.size > MAX_DELETED) store.deleted.delete(store.deleted.keys().next().value);
}

// Notes a device whose desired values have changed.
function noteChange(key, object) {
  const changes = store.changes.get(key) || [];
  if (JSON.stringify(changes.at(-1)?.object.spec) === JSON.stringify(object.spec)) return;
  // the first is how the device was created
  if (changes.length >= MAX_CHANGES) changes.splice(1, 1);
  changes.push({ object, time: Date.now() });
  store.changes.set(key, changes);
}

function followInto(name, path) {
  const take = (changes, isWhole) => {
    const objects = isWhole ? new Map() : store[name];
    for (const change of changes) {
      const object = isWhole ? change : change.object;
      const key = keyOf(object.metadata);
      if (change.type === "DELETED") {
        objects.delete(key);
        if (name === "pods") noteDeleted(key, object);
        if (name === "statuses") forgetValues(object);
      }
      else objects.set(key, object);
      if (name === "devices" && change.type !== "DELETED") noteChange(key, object);
    }
    store[name] = objects;
    store.loaded.add(name);
    if (name === "statuses") for (const status of objects.values()) keepValues(status);
    notify();
  };
  followObjects(path, take, report(name));
}

function takeFaults(faults) {
  store.faults = faults;
  store.spans.take(faults);
  notify();
}

// Reads the faults again at once, after one was changed.
export async function refreshFaults() {
  await get("/cloudsim/v1/faults").then(takeFaults, report("faults"));
}

// Shows the messages of a recording as lines of JSON, and returns the time of its last message; nothing if the file has none.
export async function openRecording(file) {
  const deliveries = new Deliveries();
  for (const line of (await file.text()).split("\n")) {
    try {
      deliveries.add(JSON.parse(line));
    } catch {
      // lines of a damaged file are skipped
    }
  }
  if (!deliveries.all.length) return undefined;
  deliveries.version += store.deliveries.version;
  Object.assign(store, { deliveries, recording: file.name });
  notify();
  return deliveries.all.at(-1).sent;
}

async function readRights() {
  store.user = await whoAmI();
  store.mayInject = await isAllowed({ verb: "post", path: "/cloudsim/v1/faults/all" });
  store.mayReadLogs = await isAllowed({ verb: "get", resource: "pods", subresource: "log" });
  store.mayRun = await isAllowed({ verb: "create", resource: "pods", subresource: "exec" });
  store.maySetDevices = await isAllowed({ verb: "patch", group: "devices.kubeedge.io", resource: "devices" });
}

export async function start() {
  try {
    await untilAnswered(readRights, report("user"));
  } catch (error) {
    report("user")(error);
    if (error.status === 401) return;
  }
  notify();
  followInto("nodes", "/api/v1/nodes");
  followInto("pods", "/api/v1/pods");
  followInto("devices", "/apis/devices.kubeedge.io/v1beta1/devices");
  followInto("models", "/apis/devices.kubeedge.io/v1beta1/devicemodels");
  followInto("statuses", "/apis/devices.kubeedge.io/v1beta1/devicestatuses");
  const bySession = (answer) => {
    store.loaded.add("sessions");
    store.sessions = new Map(answer.nodes.map((session) => [session.node, session]));
    notify();
  };
  poll("/cloudsim/v1/nodes", 2000, bySession, report("sessions"));
  const byNode = (answer) => {
    store.usage = new Map(answer.items.map((item) => [item.metadata.name, item.usage]));
    notify();
  };
  poll("/apis/metrics.k8s.io/v1beta1/nodes", 5000, byNode, report("usage"));
  poll("/cloudsim/v1/faults", 2000, takeFaults, report("faults"));
  const takeLines = (lines, isNew) => {
    if (store.recording) return;
    if (isNew) store.deliveries.clear();
    store.loaded.add("messages");
    for (const line of lines) store.deliveries.add(line);
    notify();
  };
  followMessages(takeLines, report("messages"));
}
