// Faults: those that are injected now, and a form to inject others. Each button is one call of the API.
import { html, useState } from "./vendor/htm-preact.js";
import { send } from "./api.js";
import { duration } from "./format.js";
import { describe } from "./spans.js";
import { refreshFaults, useStore } from "./store.js";
import { t } from "./texts.js";

// Each fault with its field, and the value that the form proposes. A text is an input of the form, anything else is the value itself.
const FAULTS = {
  cut: { field: "link", value: ["cut"] },
  halfopen: { field: "link", value: ["halfOpen"] },
  delay: { field: "delay", value: "500ms" },
  drop: { field: "drop", value: "0.1", isMessages: true },
  duplicate: { field: "duplicate", value: "0.1", isMessages: true },
  reorder: { field: "reorder", value: "0.1", isMessages: true },
  corrupt: { field: "corrupt", value: "0.1", isMessages: true },
  stale: { field: "stale", value: "0.1", isMessages: true },
  skew: { field: "clockSkew", value: "5m" },
  disk: { field: "diskDelay", value: "2s" },
  full: { field: "diskFull", value: [true] },
  expired: { field: "certificate", value: ["expired"], isOfAll: true },
};
const SELECTIVE = new Set(["delay", "drop", "duplicate", "reorder", "corrupt", "stale"]);
const DIRECTIONS = ["toNode", "toCloud"];

const path = (target) => `/cloudsim/v1/faults/${encodeURIComponent(target)}`;

function Form({ target, kinds, inject }) {
  const [chosen, setChosen] = useState("delay");
  const fault = FAULTS[chosen];
  const submit = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const text = form.get("value");
    const conditions = { [fault.field]: Array.isArray(fault.value) ? fault.value[0] : fault.isMessages ? Number(text) : text };
    if (form.get("direction")) conditions.direction = form.get("direction");
    if (form.get("kind")) conditions.kinds = [form.get("kind")];
    if (form.get("for")) conditions.for = form.get("for");
    inject("POST", path(target), conditions);
  };
  const select = (name, values, label) => html`<label>${t(`fault.${name}`)} <select name=${name}><option value="">${t("filter.all")}</option>
    ${values.map((value) => html`<option value=${value}>${label(value)}</option>`)}</select></label>`;
  const names = Object.keys(FAULTS).filter((name) => target === "all" || !FAULTS[name].isOfAll);
  return html`<details><summary>${t("fault.inject")}</summary>
    <form class="filters" onSubmit=${submit}>
      <label>${t("fault.fault")} <select onChange=${(event) => setChosen(event.target.value)}>
        ${names.map((name) => html`<option value=${name} selected=${name === chosen}>${t(`fault.${name}`)}</option>`)}</select></label>
      ${!Array.isArray(fault.value) && html`<label>${t("fault.value")} <input key=${chosen} name="value" size="5" required defaultValue=${fault.value} /></label>`}
      ${SELECTIVE.has(chosen) && select("direction", DIRECTIONS, (value) => t(`fault.${value}`))}
      ${SELECTIVE.has(chosen) && select("kind", kinds, (value) => value)}
      <label>${t("fault.for")} <input name="for" size="5" placeholder="30s" /></label>
      <button>${t("fault.inject")}</button>
    </form>
  </details>`;
}

// A fault of all nodes is removed where those are.
function Active({ fault, target, mayInject, inject }) {
  const left = fault.until && Math.max(0, Date.parse(fault.until) - Date.now());
  return html`<li><span class="bad">▲ ${describe(fault)}</span>${left !== undefined && html` <span class="dim">${t("fault.left", { time: duration(left) })}</span>`}
    ${fault.target !== target && html` <span class="dim">(${t("fault.ofall")})</span>`}
    ${mayInject && fault.target === target && html` <button aria-label=${`${t("fault.remove")}: ${describe(fault)}`} onClick=${() => inject("DELETE", `${path(fault.target)}/${fault.id}`)}>✕</button>`}</li>`;
}

// The faults of a node, or of `all`. The faults of a node replace those of all.
export function Faults({ target }) {
  const { deliveries, faults, mayInject } = useStore();
  const [error, setError] = useState("");
  const all = faults?.faults || [];
  const own = all.filter((fault) => fault.target === target);
  const active = own.length ? own : all.filter((fault) => fault.target === "all");
  const inject = async (method, path, body) => {
    try {
      await send(method, path, body);
      setError("");
    } catch (failure) {
      setError(failure.message);
    }
    refreshFaults();
  };
  if (!mayInject && !active.length) return null;
  return html`<div class="faults" role="group" aria-label=${t("faults.of", { node: target })}>
    ${target === "all" && html`<strong>${t("faults.all")}</strong>`}
    ${active.length > 0 && html`<ul>${active.map((fault) => html`<${Active} key=${fault.id} fault=${fault} target=${target} mayInject=${mayInject} inject=${inject} />`)}</ul>`}
    ${mayInject && html`<div class="buttons">
        <button onClick=${() => inject("POST", path(target), { link: "cut" })}>${t("fault.cut")}</button>
        <button disabled=${!own.length} onClick=${() => inject("DELETE", path(target))}>${t("fault.restore")}</button>
      </div>
      <${Form} target=${target} kinds=${deliveries.kinds()} inject=${inject} />`}
    ${error && html`<p class="bad" role="alert">${error}</p>`}
  </div>`;
}
