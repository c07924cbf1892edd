// What has happened in this cloud as a scenario for `cloudsim run`: objects, faults and values that were set, in their order, and the state
// that they led to. Pure.
import { conditionsOf } from "./spans.js";

const MAX_PAUSE = 30000;
// Fields that the API has set.
const OF_API = ["uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink", "ownerReferences", "finalizers"];
const TOKEN = "kube-api-access-";

const without = (object, names) => Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));

// What `kubectl apply` has noted of the file that it applied.
const APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

// Returns the pod of that note. Others may have changed it.
function appliedPod({ annotations, name, namespace }) {
  try {
    const applied = JSON.parse(annotations?.[APPLIED] ?? "null");
    const isOwn = applied?.kind === "Pod" && applied.metadata?.name === name && (applied.metadata.namespace || namespace) === namespace;
    return isOwn && applied.spec ? applied : null;
  } catch {
    return null;
  }
}

// Returns a Secret with a text in the place of its values.
function placeholder({ namespace, name, keys }) {
  return { apiVersion: "v1", kind: "Secret", metadata: { name, namespace }, stringData: Object.fromEntries(keys.map((key) => [key, "not saved"])) };
}

// Returns the object as its author wrote it, as far as that is known. A pod keeps its node.
function manifest(kind, apiVersion, { metadata, spec, data, binaryData }) {
  const plainMetadata = { ...without(metadata, OF_API), ...(metadata.annotations && { annotations: without(metadata.annotations, [APPLIED]) }) };
  if (kind === "ConfigMap") return { apiVersion, kind, metadata: plainMetadata, ...(data && { data }), ...(binaryData && { binaryData }) };
  const applied = kind === "Pod" && appliedPod(metadata);
  if (applied) return { ...applied, ...(spec.nodeName && { spec: { ...applied.spec, nodeName: spec.nodeName } }) };
  const isOwn = ({ name }) => !name.startsWith(TOKEN);
  const plain = (container) => ({ ...container, volumeMounts: (container.volumeMounts || []).filter(isOwn) });
  const ofPod = kind === "Pod" && {
    volumes: (spec.volumes || []).filter(isOwn),
    containers: spec.containers.map(plain),
    initContainers: (spec.initContainers || []).map(plain),
  };
  return { apiVersion, kind, metadata: plainMetadata, spec: { ...spec, ...ofPod } };
}

// Returns the ConfigMaps and Secrets that pods name, as NAMESPACE/NAME, and by Secret the keys that they name.
export function referencesOf(pods) {
  const [configMaps, secrets] = [new Set(), new Map()];
  for (const { metadata, spec } of pods) {
    const addMap = (name) => name && configMaps.add(`${metadata.namespace}/${name}`);
    const addSecret = (name, keys = []) => {
      const key = `${metadata.namespace}/${name}`;
      if (name) secrets.set(key, [...new Set([...(secrets.get(key) || []), ...keys])]);
    };
    const volumes = (spec.volumes || []).filter(({ name }) => !name.startsWith(TOKEN));
    for (const source of volumes.flatMap((volume) => [volume, ...(volume.projected?.sources || [])])) {
      addMap(source.configMap?.name);
      addSecret(source.secret?.secretName || source.secret?.name, source.secret?.items?.map(({ key }) => key));
    }
    for (const container of [...(spec.initContainers || []), ...spec.containers]) {
      for (const source of [...(container.envFrom || []), ...(container.env || []).map((one) => one.valueFrom || {})]) {
        addMap((source.configMapRef || source.configMapKeyRef)?.name);
        addSecret(source.secretRef?.name);
        addSecret(source.secretKeyRef?.name, [source.secretKeyRef?.key]);
      }
    }
    for (const { name } of spec.imagePullSecrets || []) addSecret(name);
  }
  return { configMaps: [...configMaps].sort(), secrets: Object.fromEntries([...secrets].sort()) };
}

const DEVICES = "devices.kubeedge.io/v1beta1";
const milliseconds = (count) => `${Math.max(1, Math.round(count))}ms`;

function stepOf(fault, now) {
  const begin = Date.parse(fault.since);
  const end = fault.until && Date.parse(fault.until);
  const conditions = { ...conditionsOf(fault), ...(end && end <= now && { for: milliseconds(end - begin) }) };
  return { time: begin, step: { faults: { node: fault.target, conditions } } };
}

// Returns the scenario as a document. `secrets` have their name, the keys that are known, and the time of their creation if that is known.
export function scenarioOf({ nodes, pods, devices, models, maps = [], secrets = [], changes = new Map(), deleted, sessions, faults }, now) {
  const applied = (kind, apiVersion) => (object) => ({
    time: Date.parse(object.metadata.creationTimestamp),
    step: { apply: manifest(kind, apiVersion, object) },
  });
  const target = ({ metadata }) => ({ kind: "Pod", namespace: metadata.namespace, name: metadata.name });
  const gone = [...deleted.values()].filter(({ object }) => !pods.has(`${object.metadata.namespace}/${object.metadata.name}`));
  const begin = Math.min(now, ...[...pods.values()].map(({ metadata }) => Date.parse(metadata.creationTimestamp)));
  const events = [
    ...secrets.map((secret) => ({ time: secret.time ?? begin, step: { apply: placeholder(secret) } })),
    ...[...models.values()].map(applied("DeviceModel", DEVICES)),
    ...maps.map(applied("ConfigMap", "v1")),
    // a device as it was first, and then each change of its desired values
    ...[...devices].flatMap(([key, device]) => {
      const [first, ...later] = changes.get(key) || [{ object: device }];
      return [applied("Device", DEVICES)(first.object), ...later.map(({ object, time }) => ({ ...applied("Device", DEVICES)(object), time }))];
    }),
    ...[...pods.values()].map(applied("Pod", "v1")),
    ...gone.map(({ object }) => applied("Pod", "v1")(object)),
    ...gone.map(({ object, time }) => ({ time, step: { delete: target(object) } })),
    ...[...(faults?.past || []), ...(faults?.faults || [])].map((fault) => stepOf(fault, now)),
  ].sort((a, b) => a.time - b.time);
  const steps = [];
  events.forEach(({ time, step }, number) => {
    const pause = number ? Math.min(time - events[number - 1].time, MAX_PAUSE) : 0;
    if (pause > 0) steps.push({ pause: milliseconds(pause) });
    steps.push(step);
  });
  // what is over must be over in the replay as well
  const last = Math.max(0, ...events.map(({ time }) => time), ...(faults?.past || []).map((fault) => Date.parse(fault.until)));
  if (events.length && last > events.at(-1).time) steps.push({ pause: milliseconds(Math.min(last - events.at(-1).time, MAX_PAUSE)) });
  for (const name of nodes.keys()) steps.push({ expect: { node: name, connected: sessions.has(name), within: "60s" } });
  for (const pod of pods.values()) steps.push({ expect: { object: target(pod), has: { "status.phase": pod.status?.phase || null }, within: "60s" } });
  for (const { object } of gone) steps.push({ expect: { object: target(object), gone: true, within: "60s" } });
  return {
    name: "saved from the live page",
    ...(faults && { seed: faults.seed }),
    nodes: [...nodes.keys()].map((name) => ({ name })),
    steps,
  };
}

// Characters that end a line in YAML, or have no place in it, besides those that JSON escapes.
const UNSAFE = /[\x7f-\x9f\u2028\u2029\ufeff]/g;
const quoted = (value) => JSON.stringify(value).replace(UNSAFE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

// Returns a line with a comment. It cannot end before the text does.
export const comment = (text) => `# ${text.replace(/[\s\x00-\x1f\x7f-\x9f]+/g, " ")}\n`;

const PLAIN = /^[a-z][A-Za-z]{2,}$/;
const WORDS = ["true", "false", "null", "yes", "off"];
const keyText = (key) => (PLAIN.test(key) && !WORDS.includes(key) ? key : quoted(key));

// Writes a document as YAML. Texts are quoted as in JSON, which YAML contains.
export function toYaml(value, indent = "") {
  const isList = Array.isArray(value);
  const entries = value !== null && typeof value === "object" ? Object.entries(value) : [];
  if (!entries.length) return quoted(value);
  const lines = entries.map(([key, inner]) => {
    const text = toYaml(inner, `${indent}  `);
    const isBlock = text.includes("\n") || text.startsWith(" ");
    if (isList) return `${indent}- ${text.trimStart()}`;
    return isBlock ? `${indent}${keyText(key)}:\n${text}` : `${indent}${keyText(key)}: ${text}`;
  });
  return lines.join("\n");
}
