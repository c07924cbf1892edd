// The timeline: deliveries as bars over time, live or paused, and the same as a table.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { endOf, stages } from "./deliveries.js";
import { clock, duration } from "./format.js";
import { AXIS_HEIGHT, draw, faultRows, LANES, ROW_HEIGHT, rowsOf } from "./lanes.js";
import { Message, outcomeText } from "./message.js";
import { request } from "./api.js";
import { change, useChoice } from "./state.js";
import { comment, referencesOf, scenarioOf, toYaml } from "./scenario.js";
import { openRecording, store, useStore } from "./store.js";
import { t } from "./texts.js";

const MAX_ROWS = 100;
const MAX_HEIGHT = 480;
const DEFAULT_SPAN = 30000;
const SPANS = [20, 3600000];
// The last time that a date can have. Beyond it, a sum of times may be no later than they are.
const LAST_TIME = 8.64e15;

// The options are made again only if they have changed: there may be a thousand nodes.
function Select({ name, values, chosen }) {
  const options = useMemo(() => values.map((value) => html`<option value=${value} selected=${value === chosen}>${value}</option>`), [values.join(), chosen]);
  return html`<label>${t(`filter.${name}`)}
    <select onChange=${(event) => change({ [name]: event.target.value }, true)}>
      <option value="">${t("filter.all")}</option>
      ${options}
    </select>
  </label>`;
}

function Filters({ store, choice }) {
  const nodes = new Set([...store.nodes.keys(), ...store.deliveries.all.map((one) => one.node)]);
  return html`<div class="filters">
    <${Select} name="node" values=${[...nodes].filter((name) => name).sort()} chosen=${choice.node} />
    <${Select} name="kind" values=${store.deliveries.kinds()} chosen=${choice.kind} />
    <label>${t("filter.name")} <input type="search" value=${choice.name || ""} onInput=${(event) => change({ name: event.target.value }, true)} /></label>
    <label class="check"><input type="checkbox" checked=${!!choice.heartbeats} onChange=${(event) => change({ heartbeats: event.target.checked ? "1" : "" }, true)} /> ${t("filter.heartbeats")}</label>
  </div>`;
}

// The time in view. Without an end in the URL it is live.
function timeOf(choice) {
  const span = Math.min(Math.max(Number(choice.span) || DEFAULT_SPAN, SPANS[0]), SPANS[1]);
  const end = Math.min(Math.max(Number(choice.end), 0), LAST_TIME) || Date.now();
  return { span, end, begin: end - span, isLive: !choice.end };
}

function setTime({ span, end }, isLive) {
  const bounded = Math.min(Math.max(span, SPANS[0]), SPANS[1]);
  const isNow = isLive || end >= Date.now();
  change({ span: bounded === DEFAULT_SPAN ? "" : String(Math.round(bounded)), end: isNow ? "" : String(Math.round(end)) }, true);
}

const METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

// Reads the ConfigMaps that pods name, and which of their Secrets exist. The notes say what a scenario does not contain.
async function referencedBy(pods) {
  const { configMaps, secrets } = referencesOf([...pods]);
  const notes = [];
  const read = async (kind, key, accept) => {
    const [namespace, name] = key.split("/");
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/${kind}/${encodeURIComponent(name)}`;
    return (await request(path, { headers: { accept } })).json();
  };
  const readMap = (key) => read("configmaps", key, "application/json").catch((error) => void notes.push(`The ConfigMap ${key} is not saved: ${error.message}`));
  const readSecret = async ([key, keys]) => {
    const found = await read("secrets", key, METADATA).catch((error) => error);
    if (found.status === 404) return undefined;
    notes.push(`The values of the Secret ${key} are not saved. Write them into its step.`);
    const [namespace, name] = key.split("/");
    return { namespace, name, keys, time: Date.parse(found.metadata?.creationTimestamp) || undefined };
  };
  const [maps, all] = await Promise.all([Promise.all(configMaps.map(readMap)), Promise.all(Object.entries(secrets).map(readSecret))]);
  return { maps: maps.filter(Boolean), secrets: all.filter(Boolean), notes };
}

// Lets the browser save what has happened as a scenario.
async function save() {
  const { maps, secrets, notes } = await referencedBy(store.pods.values());
  const scenario = toYaml(scenarioOf({ ...store, maps, secrets }, Date.now()));
  const text = `${notes.map(comment).join("")}${scenario}\n`;
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  anchor.download = "scenario.yaml";
  anchor.click();
  URL.revokeObjectURL(anchor.href);
}

// Reads a recording of `cloudsim record` that was decompressed. The file stays in this browser.
function Recording({ name }) {
  const [error, setError] = useState("");
  const open = async ({ target }) => {
    const end = target.files[0] && (await openRecording(target.files[0]));
    setError(end ? "" : t("recording.invalid"));
    if (end) change({ end: String(Math.round(end + 1000)), span: "" });
  };
  const close = () => {
    change({ end: "", span: "", message: "" }, true);
    location.reload();
  };
  return html`<details><summary>${name ? t("recording.shown", { name }) : t("recording.open")}</summary><div class="filters">
    ${name ? html`<button onClick=${close}>${t("recording.close")}</button>` : html`<label>${t("recording.file")} <input type="file" onChange=${open} /></label>`}
    ${error && html`<p class="bad" role="alert">${error}</p>`}
  </div></details>`;
}

function Controls({ choice }) {
  const time = timeOf(choice);
  const step = (part) => setTime({ ...time, end: time.end + part * time.span });
  const zoom = (factor) => setTime({ span: time.span * factor, end: time.isLive ? time.end : time.end - (time.span * (1 - factor)) / 2 }, time.isLive);
  const toggle = () => setTime(time.isLive ? { ...time, end: Date.now() - 1 } : time, !time.isLive);
  return html`<div class="filters">
    <button onClick=${toggle}>${time.isLive ? `❚❚ ${t("pause")}` : `▶ ${t("live")}`}</button>
    <button onClick=${() => step(-0.5)}>← ${t("earlier")}</button>
    <button disabled=${time.isLive} onClick=${() => step(0.5)}>${t("later")} →</button>
    <button onClick=${() => zoom(0.5)}>+ ${t("zoom.in")}</button>
    <button onClick=${() => zoom(2)}>− ${t("zoom.out")}</button>
    <button onClick=${save}>${t("scenario.save")}</button>
    <span class="dim">${clock(time.begin).slice(0, 8)} – ${clock(time.end).slice(0, 8)} (${duration(time.span)})</span>
  </div>`;
}

function Lanes({ rows, spans, choice, chosen }) {
  const [canvas, frame, places] = [useRef(null), useRef(null), useRef([])];
  const latest = useRef({});
  latest.current = { rows, spans, choice, chosen };
  const height = Math.min(AXIS_HEIGHT + Math.max(rows.length, 2) * ROW_HEIGHT + 4, MAX_HEIGHT);
  useEffect(() => {
    let request = 0;
    let drawn = [];
    const paint = () => {
      const { rows, spans, choice, chosen } = latest.current;
      const { clientWidth: width, clientHeight: height, scrollTop: scroll } = frame.current;
      const left = width < 600 ? 110 : 230;
      const { begin, span } = timeOf(choice);
      // nothing is drawn again that has not changed
      const drawing = [rows, chosen, width, height, scroll, begin, span, devicePixelRatio, document.documentElement.dataset.theme];
      if (drawing.some((value, number) => value !== drawn[number])) {
        places.current = draw(canvas.current, rows, { width, height, scroll, left, begin, span, spans }, chosen);
        drawn = drawing;
      }
      request = requestAnimationFrame(paint);
    };
    request = requestAnimationFrame(paint);
    return () => cancelAnimationFrame(request);
  }, []);
  const choose = (event) => {
    const { left, top } = canvas.current.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    const hit = places.current.findLast((place) => x >= place.left && x <= place.right && y >= place.top && y <= place.bottom);
    change({ message: hit ? hit.delivery.id : "" }, true);
  };
  const zoom = (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const time = timeOf(choice);
    setTime({ ...time, span: time.span * (event.deltaY > 0 ? 1.25 : 0.8) }, time.isLive);
  };
  return html`<div class="lanes" ref=${frame} style=${{ height: `${height}px` }} onWheel=${zoom} tabindex="0" role="group" aria-label=${t("lanes.label")}>
    <canvas ref=${canvas} onClick=${choose} aria-hidden="true"></canvas>
    <div style=${{ height: `${Math.max(0, AXIS_HEIGHT + rows.length * ROW_HEIGHT - height + 8)}px` }}></div>
  </div>`;
}

function Legend() {
  return html`<ul class="legend">${LANES.map((lane) => html`<li><span class="lane ${lane}"></span>${t(`lane.${lane}`)}</li>`)}
    <li><span class="lane affected"></span>${t("faults.affected")}</li></ul>`;
}

function Row({ delivery, fault }) {
  const begin = delivery.written;
  const list = stages(delivery);
  return html`<tr key=${delivery.id}>
    <td>${clock(delivery.sent)}</td>
    <td class="plain" data-label=${t("column.node")}>${delivery.node}</td>
    <td data-label=${t("column.from")}>${t(delivery.from === "cloud" ? "lane.cloud" : "lane.node")}</td>
    <td><button class="link" onClick=${() => change({ message: delivery.id }, true)}>${delivery.title}</button></td>
    <td class="outcome">${outcomeText(delivery)}${fault && html` <span class="bad" title=${fault.text}>▲ ${t("faults.during")}</span>`}</td>
    <td class="number" data-label=${t("column.took")}>${duration(endOf(delivery) - begin)}</td>
    <td class="steps">${list.map((stage) => html`<span><span class="lane ${stage.lane}"></span>${t(`stage.${stage.name}`)} ${duration(stage.end - stage.begin)}</span>`)}</td>
  </tr>`;
}

function Table({ deliveries, lost, spans }) {
  const shown = deliveries.slice(-MAX_ROWS).reverse();
  const columns = ["time", "node", "from", "object", "outcome", "took", "stages"];
  return html`<section aria-labelledby="deliveries">
    <h2 id="deliveries">${t("deliveries")}</h2>
    ${lost > 0 && html`<p class="bad">${t("deliveries.lost", { count: lost })}</p>`}
    ${shown.length === 0
      ? html`<p class="dim">${t("deliveries.none")}</p>`
      : html`<div class="scroll" tabindex="0" role="group" aria-labelledby="deliveries"><table>
          <thead><tr>${columns.map((name) => html`<th scope="col" class=${name === "took" ? "number" : ""}>${t(`column.${name}`)}</th>`)}</tr></thead>
          <tbody>${shown.map((delivery) => html`<${Row} key=${delivery.id} delivery=${delivery} fault=${spans.affecting(delivery)} />`)}</tbody>
        </table></div>`}
    ${deliveries.length > shown.length && html`<p class="dim">${t("deliveries.shown", { count: shown.length, all: deliveries.length })}</p>`}
  </section>`;
}

export function Timeline() {
  const store = useStore();
  const choice = useChoice();
  const [, tick] = useState(0);
  const time = timeOf(choice);
  useEffect(() => {
    if (!time.isLive) return undefined;
    const timer = setInterval(() => tick((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, [time.isLive]);
  const selected = store.deliveries.select(choice);
  const inView = selected.filter((one) => endOf(one) >= time.begin && one.written <= time.end + 1000);
  const chosen = choice.message && store.deliveries.byMessage.get(choice.message);
  return html`<${Filters} store=${store} choice=${choice} />
    <${Controls} choice=${choice} />
    <${Recording} name=${store.recording} />
    <${Legend} />
    <${Lanes} rows=${[...faultRows(store.spans, time, choice.node), ...rowsOf(inView)]} spans=${store.spans} choice=${choice} chosen=${chosen} />
    ${choice.message && html`<${Message} delivery=${chosen} />`}
    <${Table} deliveries=${inView} lost=${store.deliveries.lost} spans=${store.spans} />`;
}
