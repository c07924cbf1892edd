// What visitors without a session see: how to get a login link, and a form for a token.
import { html, useState } from "./vendor/htm-preact.js";
import { request } from "./api.js";
import { t } from "./texts.js";

export function Login() {
  const [error, setError] = useState("");
  const logIn = async (event) => {
    event.preventDefault();
    const token = new FormData(event.target).get("token").trim();
    try {
      const answer = await request("/cloudsim/v1/login", { method: "POST", body: "{}", headers: { authorization: `Bearer ${token}` } });
      // the server may be reached under another name than it knows
      const link = new URL((await answer.json()).url);
      location.assign(link.pathname + link.search);
    } catch (failure) {
      setError(failure.status === 401 ? t("login.refused") : failure.message);
    }
  };
  return html`<section class="login">
    <h2>${t("login.title")}</h2>
    <p>${t("login.text")}</p>
    <form class="filters" onSubmit=${logIn}>
      <label>${t("login.token")} <input name="token" type="password" autocomplete="off" maxlength="16384" required /></label>
      <button>${t("login.title")}</button>
    </form>
    <p role="alert" class="bad">${error}</p>
    <p>${t("login.command")}</p><pre>cloudsim ui</pre>
  </section>`;
}
