// One message: its stages with durations, what it changed, and its content.
import { html, useEffect, useRef } from "./vendor/htm-preact.js";
import { outcome, stages } from "./deliveries.js";
import { differences, parsed } from "./diff.js";
import { bytes, clock, duration } from "./format.js";
import { change } from "./state.js";
import { t } from "./texts.js";

const MAX_LINES = 300;

export function outcomeText(delivery) {
  const word = outcome(delivery);
  // a phase of a pod is Kubernetes' word
  return delivery.phase || t(`outcome.${word}`);
}

function Difference({ delivery }) {
  if (!delivery.previous?.message) return html`<p class="dim">${t("message.first")}</p>`;
  const lines = differences(delivery.previous.message.content, delivery.frame.message.content);
  if (!lines.length) return html`<p class="dim">${t("message.same")}</p>`;
  return html`<pre class="diff" tabindex="0">${lines.slice(0, MAX_LINES).map(
    ({ path, before, now }) => html`${before !== undefined && html`<del>- ${path}: ${before}${"\n"}</del>`}${now !== undefined && html`<ins>+ ${path}: ${now}${"\n"}</ins>`}`,
  )}</pre>`;
}

export function Message({ delivery }) {
  const heading = useRef(null);
  useEffect(() => heading.current?.focus(), [delivery]);
  const close = () => change({ message: "" }, true);
  const content = delivery?.frame.message;
  return html`<section class="message" aria-labelledby="message" onKeyDown=${(event) => event.key === "Escape" && close()}>
    <div class="bar">
      <h2 id="message" tabindex="-1" ref=${heading}>${delivery ? delivery.title : t("message.title")}</h2>
      <button onClick=${close}>${t("close")}</button>
    </div>
    ${!content && html`<p class="dim">${t(delivery ? "message.forgotten" : "message.missing")}</p>`}
    ${delivery && html`<ol class="stages">
      <li><span class="lane ${delivery.from === "cloud" ? "cloud" : "node"}"></span>${t("message.written")} ${clock(delivery.written)}</li>
      ${stages(delivery).map((stage) => html`<li><span class="lane ${stage.lane}"></span>${t(`stage.${stage.name}`)} ${clock(stage.end)} <span class="dim">+${duration(stage.end - stage.begin)}</span></li>`)}
    </ol>
    <dl class="facts">
      <div><dt>${t("column.outcome")}</dt><dd>${outcomeText(delivery)}</dd></div>
      <div><dt>${t("column.node")}</dt><dd>${delivery.node}</dd></div>
      <div><dt>${t("message.operation")}</dt><dd>${delivery.operation}</dd></div>
      <div><dt>${t("message.size")}</dt><dd>${bytes(delivery.size)}</dd></div>
    </dl>`}
    ${content && html`<h3>${t("message.diff")}</h3>
      <${Difference} delivery=${delivery} />
      <details><summary>${t("message.content")}</summary>
        <pre tabindex="0">${JSON.stringify({ ...content, content: parsed(content.content) }, null, 2)}</pre>
      </details>`}
  </section>`;
}
