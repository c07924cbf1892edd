// A terminal in a container, over the same stream as kubectl exec.
import { html, useEffect, useReducer, useRef, useState } from "./vendor/htm-preact.js";
import { openExec } from "./api.js";
import { t } from "./texts.js";
import { keyText, Screen } from "./vt.js";

const ROWS = 20;
const SHELLS = ["sh", "bash", "ash"];

// Returns how many letters fit into the width of an element.
function columnsOf(element) {
  const probe = document.createElement("span");
  probe.textContent = "0".repeat(50);
  element.append(probe);
  const width = probe.getBoundingClientRect().width / 50;
  probe.remove();
  const style = getComputedStyle(element);
  const space = element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return Math.min(Math.max(Math.floor(space / (width || 8)), 20), 250);
}

function Line({ parts }) {
  return html`${parts.map(({ style, text }) => (style ? html`<span class=${style}>${text}</span>` : text))}${"\n"}`;
}

function Session({ path, container, shell, causeOf, close }) {
  const element = useRef(null);
  const screen = useRef(null);
  const socket = useRef(null);
  const [, draw] = useReducer((count) => count + 1, 0);
  const [end, setEnd] = useState("");
  useEffect(() => {
    const columns = columnsOf(element.current);
    screen.current = new Screen(columns, ROWS);
    let request = 0;
    const paint = () => {
      request = 0;
      draw();
    };
    const print = (text) => {
      screen.current.write(text);
      if (screen.current.answer) socket.current.input(screen.current.answer);
      screen.current.answer = "";
      request ||= requestAnimationFrame(paint);
    };
    socket.current = openExec(path, { container, command: [shell], isTerminal: true }, print);
    socket.current.resize(columns, ROWS);
    socket.current.ended.then((cause) => setEnd(cause ? causeOf(cause) : t("terminal.ended")));
    const resized = new ResizeObserver(() => {
      const columns = columnsOf(element.current);
      if (columns === screen.current.columns) return;
      screen.current.resize(columns, ROWS);
      socket.current.resize(columns, ROWS);
      draw();
    });
    resized.observe(element.current);
    element.current.focus();
    return () => {
      cancelAnimationFrame(request);
      resized.disconnect();
      socket.current.close();
    };
  }, []);
  useEffect(() => {
    element.current.scrollTop = element.current.scrollHeight;
  });
  const pressed = (event) => {
    const text = keyText(event, screen.current.areKeysOfApplication);
    if (!text || end) return;
    event.preventDefault();
    event.stopPropagation();
    socket.current.input(text);
  };
  const pasted = (event) => {
    event.preventDefault();
    socket.current.input(event.clipboardData.getData("text").replace(/\r?\n/g, "\r"));
  };
  const now = screen.current;
  return html`<div>
    <pre class="output terminal" tabindex="0" role="textbox" aria-multiline="true" aria-label=${t("terminal")} aria-describedby="terminal-keys" ref=${element} onKeyDown=${pressed} onPaste=${pasted}>
      ${now && [...now.history.map((line) => html`<${Line} parts=${now.parts(line, false)} />`), ...now.lines.map((line, y) => html`<${Line} parts=${now.parts(line, y === now.y && !end)} />`)]}</pre>
    ${end && html`<p class="bad" role="status">${end}</p>`}
    <p class="dim" id="terminal-keys">${t("terminal.keys")} <button onClick=${close}>${t("close")}</button></p>
  </div>`;
}

export function Terminal({ path, container, causeOf }) {
  const [shell, setShell] = useState("");
  return html`<section>
    <h3>${t("terminal")}</h3>
    ${shell
      ? html`<${Session} path=${path} container=${container} shell=${shell} causeOf=${causeOf} close=${() => setShell("")} />`
      : html`<div class="buttons">${SHELLS.map((name) => html`<button onClick=${() => setShell(name)}>${t("terminal.open", { shell: name })}</button> `)}</div>`}
  </section>`;
}
