// Faults of links: what is injected, buttons to inject and restore, and since when each one lasts. Each button is one call of the API.
import { html, useState } from "./vendor/htm-preact.js";
import { send } from "./api.js";
import { describe, faultOf } from "./spans.js";
import { refreshFaults, useStore } from "./store.js";
import { t } from "./texts.js";

const CONDITIONS = {
  cut: { link: "cut" },
  halfopen: { link: "halfOpen" },
  delay: { delay: "500ms" },
  loss: { drop: 0.1 },
  duplicate: { duplicate: 0.1 },
};

export function Faults({ node }) {
  const { faults, mayInject } = useStore();
  const [error, setError] = useState("");
  const active = faultOf(faults, node);
  const inject = async (method, body) => {
    try {
      await send(method, `/cloudsim/v1/faults/${encodeURIComponent(node)}`, body);
      setError("");
    } catch (failure) {
      setError(failure.message);
    }
    refreshFaults();
  };
  if (!mayInject && !active) return null;
  return html`<div class="faults" role="group" aria-label=${t("faults.of", { node })}>
    ${active && html`<p class="bad">▲ ${t("faults.active", { fault: describe(active) })}</p>`}
    ${mayInject && html`<div class="buttons">
      ${Object.entries(CONDITIONS).map(([name, body]) => html`<button aria-pressed=${JSON.stringify(active) === JSON.stringify(body)}
        onClick=${() => inject("PUT", body)}>${t(`fault.${name}`)}</button>`)}
      <button disabled=${!faults?.nodes?.[node]} onClick=${() => inject("DELETE")}>${t("fault.restore")}</button>
    </div>`}
    ${error && html`<p class="bad" role="alert">${error}</p>`}
  </div>`;
}
