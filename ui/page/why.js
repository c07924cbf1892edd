// Why an object waits: its steps from the API to its node and back, with the first missing one marked.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { Link } from "./link.js";
import { inChinese } from "./sentences.js";
import { change, useChoice } from "./state.js";
import { currentLanguage, t } from "./texts.js";

const PAUSE = 2000;
const SIGNS = { ok: "✓", missing: "▲", unknown: "·" };

// The object is the end of the path of the call: `pods/NAMESPACE/NAME`, `devices/NAMESPACE/NAME` or `nodes/NAME`.
export function WhyLink({ object }) {
  return html`<${Link} class="why" values=${{ why: object }}>${t("why")}<span class="hidden"> ${object}</span></${Link}>`;
}

// Returns a sentence of the cloud in the language of the page, if its translation is known.
function Sentence({ text }) {
  const shown = currentLanguage() === "zh" ? inChinese(text) : text;
  return html`<span lang=${shown === text ? "en" : "zh"}>${shown}</span>`;
}

function Step({ step, isCurrent }) {
  return html`<li class=${`step ${step.state}`} aria-current=${isCurrent ? "step" : undefined}>
    <span class="sign"><span aria-hidden="true">${SIGNS[step.state]}</span><span class="hidden">${t(`step.${step.state}`)}</span></span>
    <strong>${t(`why.${step.name}`)}</strong>
    <span><${Sentence} text=${step.text} />${step.fix && html`<span class="fix">→ <${Sentence} text=${step.fix} /></span>`}</span>
  </li>`;
}

export function Why() {
  const { why: object } = useChoice();
  const [answer, setAnswer] = useState(null);
  const heading = useRef(null);
  useEffect(() => {
    if (!object) return undefined;
    let timer = null;
    let isOpen = true;
    setAnswer(null);
    const read = async () => {
      const found = await get(`/cloudsim/v1/why/${object.split("/").map(encodeURIComponent).join("/")}`).catch((error) => ({ error }));
      if (!isOpen) return;
      setAnswer(found);
      timer = setTimeout(read, PAUSE);
    };
    read();
    heading.current?.focus();
    return () => {
      isOpen = false;
      clearTimeout(timer);
    };
  }, [object]);
  if (!object) return null;
  const close = () => change({ why: "" }, true);
  const steps = answer?.steps || [];
  return html`<section class="message" aria-labelledby="why" onKeyDown=${(event) => event.key === "Escape" && close()}>
    <div class="bar"><h2 id="why" tabindex="-1" ref=${heading}>${t("why.of", { object })}</h2><button onClick=${close}>${t("close")}</button></div>
    ${answer?.error && html`<p class="bad" role="alert">${answer.error.message}</p>`}
    ${answer && !answer.error && !answer.missing && html`<p class="good">✓ ${t("why.complete")}</p>`}
    <ol class="steps">${steps.map((step) => html`<${Step} key=${step.name} step=${step} isCurrent=${step.name === answer.missing} />`)}</ol>
  </section>`;
}
