// Pods: a table, the log of a container as it grows, and commands in a container.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { followLog, openExec } from "./api.js";
import { change, useChoice } from "./state.js";
import { keyOf, useStore } from "./store.js";
import { Terminal } from "./terminal.js";
import { t } from "./texts.js";
import { WhyLink } from "./why.js";

const MAX_ROWS = 200;
// so much of a log is shown
const MAX_TEXT = 200000;
const TAIL = 500;

// Splits a command into words; quotes keep spaces.
export function words(command) {
  const found = command.match(/"[^"]*"|'[^']*'|\S+/g) || [];
  return found.map((word) => word.replace(/^(["'])(.*)\1$/, "$2"));
}

const appended = (text, more) => (text + more).slice(-MAX_TEXT);

function Output({ text, label }) {
  const element = useRef(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (isAtEnd.current) element.current.scrollTop = element.current.scrollHeight;
  }, [text]);
  const scrolled = ({ target }) => {
    isAtEnd.current = target.scrollTop + target.clientHeight > target.scrollHeight - 20;
  };
  return html`<pre class="output" tabindex="0" role="log" aria-label=${label} ref=${element} onScroll=${scrolled}>${text}</pre>`;
}

function Log({ path, container }) {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    setText("");
    setError("");
    const query = new URLSearchParams({ container, follow: "true", tailLines: TAIL });
    const take = (more) => setText((before) => appended(before, more));
    followLog(`${path}/log?${query}`, stop.signal, take, (failure) => setError(failure?.message || ""));
    return () => stop.abort();
  }, [path, container]);
  return html`<section>
    <h3>${t("log")}</h3>
    ${error && html`<p class="bad" role="status">${error}</p>`}
    ${(text || !error) && html`<${Output} text=${text} label=${t("log")} />`}
  </section>`;
}

function Commands({ path, container, causeOf }) {
  const [command, setCommand] = useState("");
  const [text, setText] = useState("");
  const [isRunning, setRunning] = useState(false);
  const stream = useRef(null);
  const stop = () => stream.current?.close();
  useEffect(() => stop, []);
  const write = (more) => setText((before) => appended(before, more));
  const submit = async (event) => {
    event.preventDefault();
    const list = words(command);
    if (!list.length) return;
    write(`$ ${command}\n`);
    setCommand("");
    setRunning(true);
    stream.current = openExec(path, { container, command: list }, write);
    const result = await stream.current.ended;
    if (result) write(`${causeOf(result)}\n`);
    setRunning(false);
  };
  return html`<section>
    <h3>${t("commands")}</h3>
    ${text && html`<${Output} text=${text} label=${t("commands")} />`}
    <form class="filters" onSubmit=${submit}>
      <label>${t("command")} <input value=${command} size="30" spellcheck="false" autocomplete="off" onInput=${(event) => setCommand(event.target.value)} /></label>
      <button disabled=${isRunning}>${t("command.run")}</button>
      ${isRunning && html`<button type="button" onClick=${stop}>${t("command.stop")}</button>`}
    </form>
  </section>`;
}

function Details({ pod, store, choice }) {
  const { namespace, name } = pod.metadata;
  const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
  const containers = [...(pod.spec.initContainers || []), ...pod.spec.containers].map((one) => one.name);
  const container = containers.includes(choice.container) ? choice.container : pod.spec.containers[0].name;
  // a stream of a node that is not connected ends without a reason
  const { nodeName } = pod.spec;
  const isCut = nodeName && store.loaded.has("sessions") && !store.sessions.has(nodeName);
  const causeOf = (text) => (isCut ? `${t("node.disconnected", { node: nodeName })} (${text})` : text);
  return html`<section class="message" aria-labelledby="pod">
    <div class="bar"><h2 id="pod">${keyOf(pod.metadata)}</h2>
      <${WhyLink} object=${`pods/${keyOf(pod.metadata)}`} />
      <button onClick=${() => change({ pod: "", container: "" }, true)}>${t("close")}</button></div>
    <div class="filters"><label>${t("container")}
      <select onChange=${(event) => change({ container: event.target.value }, true)}>
        ${containers.map((one) => html`<option value=${one} selected=${one === container}>${one}</option>`)}
      </select></label></div>
    ${store.mayReadLogs && html`<${Log} key=${`log ${path} ${container}`} path=${path} container=${container} />`}
    ${store.mayRun && html`<${Commands} key=${`run ${path} ${container}`} path=${path} container=${container} causeOf=${causeOf} />`}
    ${store.mayRun && html`<${Terminal} key=${`terminal ${path} ${container}`} path=${path} container=${container} causeOf=${causeOf} />`}
  </section>`;
}

export function Pods() {
  const store = useStore();
  const choice = useChoice();
  const search = (choice.search || "").toLowerCase();
  const all = [...store.pods.values()].filter((pod) => `${keyOf(pod.metadata)} ${pod.spec.nodeName || ""}`.toLowerCase().includes(search));
  const chosen = choice.pod && store.pods.get(choice.pod);
  const canOpen = store.mayReadLogs || store.mayRun;
  const row = (pod) => {
    const key = keyOf(pod.metadata);
    const statuses = pod.status?.containerStatuses || [];
    const open = () => change({ pod: key, container: "" });
    return html`<tr key=${key}>
      <td>${canOpen ? html`<button class="link" onClick=${open}>${key}</button>` : key}</td>
      <td class="plain" data-label=${t("pod.node")}>${pod.spec.nodeName || "–"}</td>
      <td>${pod.status?.phase || "–"}</td>
      <td class="number" data-label=${t("pod.ready")}>${statuses.filter((one) => one.ready).length}/${pod.spec.containers.length}</td>
      <td class="number" data-label=${t("pod.restarts")}>${statuses.reduce((sum, one) => sum + one.restartCount, 0)}</td>
    </tr>`;
  };
  const columns = ["name", "node", "phase", "ready", "restarts"];
  const numbers = ["ready", "restarts"];
  return html`<div class="filters">
      <label>${t("search.pods")} <input type="search" value=${choice.search || ""} onInput=${(event) => change({ search: event.target.value }, true)} /></label>
    </div>
    ${choice.pod && !chosen && store.loaded.has("pods") && html`<p class="bad" role="status">${t("pods.deleted", { pod: choice.pod })}</p>`}
    ${chosen && canOpen && html`<${Details} pod=${chosen} store=${store} choice=${choice} />`}
    <h2 id="pods">${t("view.pods")}</h2>
    ${all.length === 0
      ? html`<p class="dim">${t(store.loaded.has("pods") ? "pods.none" : "loading")}</p>`
      : html`<div class="scroll" tabindex="0" role="group" aria-labelledby="pods"><table>
          <thead><tr>${columns.map((name) => html`<th scope="col" class=${numbers.includes(name) ? "number" : ""}>${t(`pod.${name}`)}</th>`)}</tr></thead>
          <tbody>${all.slice(0, MAX_ROWS).map(row)}</tbody>
        </table></div>`}
    ${all.length > MAX_ROWS && html`<p class="dim">${t("problems.more", { count: all.length - MAX_ROWS })}</p>`}`;
}
