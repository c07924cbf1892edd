// Devices: a card each with desired and reported values, and a field to set the desired one.
import { html, useState } from "./vendor/htm-preact.js";
import { get, send } from "./api.js";
import { duration, short } from "./format.js";
import { Link } from "./link.js";
import { change, useChoice } from "./state.js";
import { keyOf, useStore } from "./store.js";
import { t } from "./texts.js";
import { WhyLink } from "./why.js";

const MAX_CARDS = 60;
const GROUP = "/apis/devices.kubeedge.io/v1beta1";
const [WIDTH, HEIGHT] = [160, 28];
// A longer value is cut.
const MAX_VALUE = 200;

// Returns the properties of a device with their values. Unless its model says so, a property can be set.
export function propertiesOf(device, status, model) {
  const modes = new Map((model?.spec?.properties || []).map(({ name, accessMode }) => [name, accessMode]));
  const twins = new Map((status?.status?.twins || []).map((twin) => [twin.propertyName, twin]));
  return (device.spec?.properties || []).map(({ name, desired }) => {
    const reported = twins.get(name)?.reported;
    const at = Number(reported?.metadata?.timestamp);
    return { name, desired: desired?.value, reported: reported?.value, at: at || undefined, isReadOnly: modes.get(name) === "ReadOnly" };
  });
}

function Sparkline({ points }) {
  const numbers = (points || []).filter((point) => Number.isFinite(point.value));
  if (numbers.length < 2) return null;
  const values = numbers.map((point) => point.value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const [begin, end] = [numbers[0].time, numbers.at(-1).time];
  const place = ({ time, value }) => {
    const x = ((time - begin) / (end - begin || 1)) * (WIDTH - 4) + 2;
    const y = HEIGHT - 3 - ((value - low) / (high - low || 1)) * (HEIGHT - 6);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  };
  return html`<svg class="sparkline" width=${WIDTH} height=${HEIGHT} viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${t("device.range", { low, high })}>
    <polyline points=${numbers.map(place).join(" ")} fill="none" />
  </svg>`;
}

// Sets the desired value. The version of the object makes sure that nothing else is overwritten.
async function setDesired({ namespace, name }, property, value) {
  const path = `${GROUP}/namespaces/${namespace}/devices/${name}`;
  const device = await get(path);
  const properties = device.spec.properties.map((one) => (one.name === property ? { ...one, desired: { ...one.desired, value } } : one));
  const body = { metadata: { resourceVersion: device.metadata.resourceVersion }, spec: { properties } };
  await send("PATCH", `${path}?fieldManager=cloudsim-page`, body, "application/merge-patch+json");
}

function Setter({ device, property }) {
  const [value, setValue] = useState("");
  const [note, setNote] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    try {
      await setDesired(device.metadata, property.name, value);
      setNote({ text: t("device.set", { value: short(value, MAX_VALUE) }) });
      setValue("");
    } catch (error) {
      setNote({ text: error.message, isBad: true });
    }
  };
  const label = t("device.desired.new", { property: property.name });
  return html`<form onSubmit=${submit}>
    <input aria-label=${label} placeholder=${short(property.desired, MAX_VALUE) || ""} value=${value} size="8" required onInput=${(event) => setValue(event.target.value)} />
    <button>${t("device.apply")}</button>
    ${note && html`<span role="status" class=${note.isBad ? "bad" : "good"}>${note.text}</span>`}
  </form>`;
}

function Property({ device, property, history, maySet }) {
  const hasDesired = property.desired !== undefined && property.desired !== "";
  const isReached = hasDesired && property.desired === property.reported;
  return html`<li>
    <h4>${short(property.name, MAX_VALUE)}</h4>
    <dl>
      <div><dt>${t("device.desired")}</dt><dd>${hasDesired ? short(property.desired, MAX_VALUE) : "–"}</dd></div>
      <div><dt>${t("device.reported")}</dt><dd>${short(property.reported, MAX_VALUE) ?? "–"} ${isReached && html`<span class="good">✓</span>`}</dd></div>
      ${property.at && html`<div><dt>${t("device.age")}</dt><dd>${duration(Math.max(0, Date.now() - property.at))}</dd></div>`}
    </dl>
    <${Sparkline} points=${history} />
    ${maySet && !property.isReadOnly && html`<${Setter} device=${device} property=${property} />`}
  </li>`;
}

function Card({ device, store }) {
  const key = keyOf(device.metadata);
  const status = store.statuses.get(key);
  const model = store.models.get(keyOf({ namespace: device.metadata.namespace, name: device.spec?.deviceModelRef?.name }));
  const state = status?.status?.state;
  return html`<li class="card">
    <h3>${key}</h3>
    <p class="dim">${device.spec?.nodeName || t("device.nonode")}${state && ` · ${state}`} · ${t("device.version")} ${device.metadata.resourceVersion}</p>
    <ul class="properties">${propertiesOf(device, status, model).map(
      (property) => html`<${Property} key=${property.name} device=${device} property=${property} history=${store.history.get(`${key} ${property.name}`)} maySet=${store.maySetDevices} />`,
    )}</ul>
    <${WhyLink} object=${`devices/${key}`} />${" "}
    <${Link} values=${{ view: "timeline", name: device.metadata.name, node: "" }}>${t("node.timeline")}<span class="hidden"> ${key}</span></${Link}>
  </li>`;
}

export function Devices() {
  const store = useStore();
  const choice = useChoice();
  const search = (choice.search || "").toLowerCase();
  const found = [...store.devices.values()].filter((device) => keyOf(device.metadata).toLowerCase().includes(search));
  return html`<div class="filters">
      <label>${t("search.devices")} <input type="search" value=${choice.search || ""} onInput=${(event) => change({ search: event.target.value }, true)} /></label>
    </div>
    <h2>${t("view.devices")}</h2>
    ${found.length > 0
      ? html`<ul class="cards wide">${found.slice(0, MAX_CARDS).map((device) => html`<${Card} key=${keyOf(device.metadata)} device=${device} store=${store} />`)}</ul>`
      : html`<p class="dim">${t(store.loaded.has("devices") ? "devices.none" : "loading")}</p>`}
    ${found.length > MAX_CARDS && html`<p class="dim">${t("problems.more", { count: found.length - MAX_CARDS })}</p>`}`;
}
