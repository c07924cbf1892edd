// The frame of the page: navigation, notices, and the chosen view.
import { html, render, useEffect } from "./vendor/htm-preact.js";
import { send, untilAnswered } from "./api.js";
import { Devices } from "./devices.js";
import { Link } from "./link.js";
import { Login } from "./login.js";
import { Overview } from "./overview.js";
import { Pods } from "./pods.js";
import { change, keep, kept, useChoice } from "./state.js";
import { report, start, store, useStore } from "./store.js";
import { LANGUAGES, setLanguage, t } from "./texts.js";
import { Timeline } from "./timeline.js";
import { Why } from "./why.js";

const VIEWS = { overview: Overview, timeline: Timeline, pods: Pods, devices: Devices };
const THEMES = ["auto", "light", "dark"];

const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function showTheme(name) {
  const automatic = prefersDark.matches ? "dark" : "light";
  document.documentElement.dataset.theme = name === "auto" ? automatic : name;
}

function setTheme(name) {
  showTheme(name);
  keep("theme", name);
}

const currentTheme = () => kept("theme") || "auto";

// The choice is kept for the next visit, and in the URL for others who get the link.
function chooseLanguage(code) {
  keep("language", code);
  change({ lang: code }, true);
}

async function logout() {
  // without a session there is nothing to end
  await untilAnswered(() => send("POST", "/ui/logout"), report("user")).catch(() => {});
  location.reload();
}

function Notices() {
  const { errors, isLoggedOut } = useStore();
  if (isLoggedOut) return null;
  const notices = Object.entries(errors).filter(([source, error]) => error && !(source === "usage" && error.status));
  const denied = notices.filter(([, error]) => error.status === 403).map(([source]) => t(`source.${source}`)).sort();
  const broken = notices.filter(([, error]) => error.status !== 403);
  return html`<div role="status" class="notices">
    ${denied.length > 0 && html`<p>${t("notice.denied", { what: denied.join(", ") })}</p>`}
    ${broken.slice(0, 1).map(([, error]) => html`<p class="bad">${t("notice.broken", { error: error.message })}</p>`)}
  </div>`;
}

function Page() {
  const choice = useChoice();
  const { isLoggedOut, user } = useStore();
  const language = setLanguage(choice.lang);
  const view = Object.hasOwn(VIEWS, choice.view) ? choice.view : "overview";
  useEffect(() => {
    document.title = `cloudsim: ${t(`view.${view}`)}`;
  }, [view, choice.lang]);
  const View = VIEWS[view];
  const item = (name) => html`<li>
    <${Link} values=${{ view: name === "overview" ? "" : name, message: "", search: "", pod: "", why: "" }} aria-current=${view === name ? "page" : undefined}>
      ${t(`view.${name}`)}
    </${Link}>
  </li>`;
  return html`<header>
      <a class="skip" href="#main">${t("skip")}</a>
      <h1>cloudsim</h1>
      <nav aria-label=${t("navigation")}><ul>${Object.keys(VIEWS).map(item)}</ul></nav>
      <div class="tools">
        <label class="plain"><span class="hidden">${t("theme")}</span>
          <select onChange=${(event) => setTheme(event.target.value)}>
            ${THEMES.map((name) => html`<option value=${name} selected=${name === currentTheme()}>${t(`theme.${name}`)}</option>`)}
          </select>
        </label>
        <label class="plain"><span class="hidden">${t("language")}</span>
          <select onChange=${(event) => chooseLanguage(event.target.value)}>
            ${LANGUAGES.map(([code, name]) => html`<option value=${code} lang=${code} selected=${code === language}>${name}</option>`)}
          </select>
        </label>
        ${user && !isLoggedOut && html`<span class="user">${user}</span>
          <button onClick=${logout}>${t("logout")}</button>`}
      </div>
    </header>
    <main id="main" tabindex="-1">
      <${Notices} />
      ${isLoggedOut ? html`<${Login} />` : html`<${Why} /><${View} />`}
    </main>`;
}

showTheme(currentTheme());
prefersDark.addEventListener("change", () => showTheme(currentTheme()));
render(html`<${Page} />`, document.getElementById("page"));
start();
