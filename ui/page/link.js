// A link within the page: a click changes the view without loading the page again.
import { html } from "./vendor/htm-preact.js";
import { change, link } from "./state.js";

export function Link({ values, children, ...others }) {
  const follow = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    change(values);
  };
  return html`<a href=${link(values)} onClick=${follow} ...${others}>${children}</a>`;
}
