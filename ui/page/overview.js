// The overview: numbers, problems, and a map of the nodes.
import { html, useRef, useState } from "./vendor/htm-preact.js";
import { Faults } from "./faults.js";
import { byName, bytes, duration, quantity, short } from "./format.js";
import { Link } from "./link.js";
import { change, useChoice } from "./state.js";
import { keyOf, useStore } from "./store.js";
import { t } from "./texts.js";
import { WhyLink } from "./why.js";

const MAX_CARDS = 24;
// so many at first, and so many in all
const [FEW_PROBLEMS, MAX_PROBLEMS] = [8, 200];
// A longer message of a node or pod is cut.
const MAX_DETAIL = 500;
const GROUPS = ["state", "zone", "transport", "none"];
const SIGNS = { ready: "●", notready: "▲", offline: "■" };
const ORDER = { notready: 0, offline: 1, ready: 2 };

function condition(object, type) {
  return object.status?.conditions?.find((one) => one.type === type);
}

// Returns what is known of each node, problems first.
function nodesOf(store) {
  const pods = new Map();
  for (const pod of store.pods.values()) {
    const node = pod.spec?.nodeName;
    if (node) pods.set(node, (pods.get(node) || 0) + 1);
  }
  const devices = new Map();
  for (const device of store.devices.values()) {
    const node = device.spec?.nodeName;
    if (node) devices.set(node, (devices.get(node) || 0) + 1);
  }
  const maySeeSessions = !store.errors.sessions;
  const list = [...store.nodes.values()].map((node) => {
    const { name } = node.metadata;
    const ready = condition(node, "Ready");
    const session = store.sessions.get(name);
    const isReady = ready?.status === "True";
    return {
      name,
      session,
      state: !isReady ? "notready" : maySeeSessions && !session ? "offline" : "ready",
      message: ready?.message || "",
      zone: node.metadata.labels?.["topology.kubernetes.io/zone"] || "–",
      usage: store.usage.get(name),
      pods: pods.get(name) || 0,
      devices: devices.get(name) || 0,
    };
  });
  return list.sort((a, b) => ORDER[a.state] - ORDER[b.state] || byName(a.name, b.name));
}

function reasonOf(pod) {
  const containers = [...(pod.status?.initContainerStatuses || []), ...(pod.status?.containerStatuses || [])];
  const waiting = containers.map((one) => one.state?.waiting).find((one) => one?.reason);
  if (waiting) return [waiting.reason, waiting.message || ""];
  const scheduled = condition(pod, "PodScheduled");
  if (scheduled?.status === "False") return [scheduled.reason || "Pending", scheduled.message || ""];
  return [pod.status?.phase || "Pending", pod.status?.message || ""];
}

function problemsOf(store, nodes) {
  const problems = nodes
    .filter((node) => node.state !== "ready")
    .map((node) => ({
      object: `node/${node.name}`,
      why: `nodes/${node.name}`,
      values: { node: node.name },
      text: node.state === "notready" ? t("problem.node") : t("node.offline"),
      detail: node.state === "offline" ? "" : node.message,
    }));
  for (const pod of store.pods.values()) {
    const phase = pod.status?.phase;
    const isFine = phase === "Succeeded" || (phase === "Running" && condition(pod, "Ready")?.status !== "False");
    if (isFine) continue;
    const [reason, detail] = reasonOf(pod);
    problems.push({
      object: `pod/${keyOf(pod.metadata)}`,
      why: `pods/${keyOf(pod.metadata)}`,
      values: { view: "pods", pod: keyOf(pod.metadata) },
      text: t("problem.pod", { phase: short(reason, MAX_DETAIL) }),
      detail,
    });
  }
  return problems;
}

function Numbers({ store, nodes }) {
  const pods = [...store.pods.values()];
  const ready = nodes.filter((node) => node.state === "ready").length;
  const queued = nodes.reduce((sum, node) => sum + (node.session?.queue || 0), 0);
  const numbers = [
    ["count.nodes", "nodes", `${ready}/${nodes.length}`],
    ["count.pods", "pods", `${pods.filter((pod) => pod.status?.phase === "Running").length}/${pods.length}`],
    ["count.devices", "devices", store.devices.size],
    ["count.queued", "sessions", queued],
    ["count.messages", "messages", store.deliveries.perSecond(Date.now()).toFixed(1)],
  ];
  return html`<dl class="numbers">${numbers.map(([name, source, value]) => html`<div><dt>${t(name)}</dt><dd>${store.loaded.has(source) ? value : "–"}</dd></div>`)}</dl>`;
}

function Problems({ problems, isKnown }) {
  const [count, setCount] = useState(FEW_PROBLEMS);
  const more = problems.length - count;
  return html`<section aria-labelledby="problems">
    <h2 id="problems">${t("problems")}</h2>
    ${!isKnown
      ? html`<p class="dim">${t("problems.unknown")}</p>`
      : problems.length === 0
      ? html`<p class="good">✓ ${t("problems.none")}</p>`
      : html`<ul class="problems">
          ${problems.slice(0, count).map(
            (one) => html`<li key=${one.object}>
              <span aria-hidden="true" class="bad">▲</span>
              <${Link} values=${one.values}>${one.object}</${Link}> ${one.text} <span class="dim">${short(one.detail, MAX_DETAIL)}</span> <${WhyLink} object=${one.why} />
            </li>`,
          )}
        </ul>`}
    ${more > 0 && (count < MAX_PROBLEMS
      ? html`<p><button onClick=${() => setCount(MAX_PROBLEMS)}>${t("problems.more", { count: more })}</button></p>`
      : html`<p class="dim">${t("problems.more", { count: more })}</p>`)}
  </section>`;
}

function Facts({ node }) {
  const { session, usage } = node;
  const facts = [
    ["node.since", session && duration(Date.now() - Date.parse(session.since))],
    ["node.transport", session?.transport],
    ["node.queue", session?.queue],
    ["node.cpu", usage && `${(quantity(usage.cpu) * 1000).toFixed(0)} m`],
    ["node.memory", usage && bytes(quantity(usage.memory))],
    ["node.pods", node.pods],
    ["node.devices", node.devices],
  ];
  const known = facts.filter(([, value]) => value !== undefined && value !== null);
  return html`<dl>${known.map(([name, value]) => html`<div><dt>${t(name)}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function State({ node }) {
  return html`<span class="state ${node.state}"><span aria-hidden="true">${SIGNS[node.state]}</span> ${t(`node.${node.state}`)}</span>`;
}

function Card({ node }) {
  return html`<li class="card ${node.state}">
    <strong class="name">${node.name}</strong><br />
    <${State} node=${node} />
    ${node.state === "notready" && html`<p class="dim">${short(node.message, MAX_DETAIL)}</p>`}
    <${Facts} node=${node} />
    <${Faults} target=${node.name} />
    ${node.state !== "ready" && html`<${WhyLink} object=${`nodes/${node.name}`} /> `}
    <${Link} values=${{ view: "timeline", node: node.name, name: "" }}>${t("node.timeline")}<span class="hidden"> ${node.name}</span></${Link}>
  </li>`;
}

// Many nodes: a tile each. One tile is in the tab order; arrow keys move between them.
function Tiles({ nodes, chosen }) {
  const list = useRef(null);
  const move = (event) => {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const tiles = [...list.current.querySelectorAll("button")];
    tiles[tiles.indexOf(document.activeElement) + step]?.focus();
  };
  const first = nodes.find((node) => node.name === chosen) || nodes[0];
  return html`<ul class="tiles" ref=${list} onKeyDown=${move}>
    ${nodes.map((node) => {
      const label = `${node.name}: ${t(`node.${node.state}`)}`;
      return html`<li key=${node.name}>
        <button class="tile ${node.state}" title=${label} aria-label=${label} aria-pressed=${node.name === chosen}
          tabindex=${node === first ? 0 : -1} onClick=${() => change({ node: node.name === chosen ? "" : node.name }, true)}>
          <span aria-hidden="true">${SIGNS[node.state]}</span>
        </button>
      </li>`;
    })}
  </ul>`;
}

function groupsOf(nodes, by) {
  const name = {
    state: (node) => t(`node.${node.state}`),
    zone: (node) => node.zone,
    transport: (node) => node.session?.transport || t("node.offline"),
  }[by];
  if (!name) return [["", nodes]];
  const groups = new Map();
  for (const node of nodes) groups.set(name(node), [...(groups.get(name(node)) || []), node]);
  return [...groups];
}

function NodeMap({ nodes, isKnown, isDenied }) {
  const choice = useChoice();
  const search = (choice.search || "").toLowerCase();
  const by = GROUPS.includes(choice.group) ? choice.group : "state";
  const found = nodes.filter((node) => node.name.toLowerCase().includes(search));
  const chosen = found.find((node) => node.name === choice.node);
  const isMany = found.length > MAX_CARDS;
  const group = ([name, members]) => html`<section class="group" key=${name}>
    ${name && html`<h3>${name} <span class="dim">${members.length}</span></h3>`}
    ${isMany ? html`<${Tiles} nodes=${members} chosen=${choice.node} />` : html`<ul class="cards">${members.map((node) => html`<${Card} key=${node.name} node=${node} />`)}</ul>`}
  </section>`;
  return html`<section aria-labelledby="nodes">
    <h2 id="nodes">${t("nodes")}</h2>
    <div class="filters">
      <label>${t("search")} <input type="search" value=${choice.search || ""} onInput=${(event) => change({ search: event.target.value }, true)} /></label>
      <label>${t("group")}
        <select value=${by} onChange=${(event) => change({ group: event.target.value }, true)}>
          ${GROUPS.map((name) => html`<option value=${name} selected=${name === by}>${t(`group.${name}`)}</option>`)}
        </select>
      </label>
    </div>
    <${Faults} target="all" />
    ${isMany && chosen && html`<ul class="cards"><${Card} node=${chosen} /></ul>`}
    ${found.length > 0
      ? html`<div class="map"><p class="hub">☁ ${t("cloud")}</p><div class="groups">${groupsOf(found, by).map(group)}</div></div>`
      : html`<p class="dim">${t(nodes.length ? "nodes.nomatch" : isKnown ? "nodes.none" : isDenied ? "nodes.denied" : "loading")}</p>`}
  </section>`;
}

export function Overview() {
  const store = useStore();
  const nodes = nodesOf(store);
  return html`<${Numbers} store=${store} nodes=${nodes} />
    <${Problems} problems=${problemsOf(store, nodes)} isKnown=${store.loaded.has("nodes") && store.loaded.has("pods")} />
    <${NodeMap} nodes=${nodes} isKnown=${store.loaded.has("nodes")} isDenied=${store.errors.nodes?.status === 403} />`;
}
