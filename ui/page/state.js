// What the visitor has chosen. It is in the URL, so that a link shows the same view.
import { useEffect, useState } from "./vendor/htm-preact.js";

// Keeps a choice in this browser, if it allows that; otherwise until the page is closed.
export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // the browser stores nothing
  }
}

export function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

const listeners = new Set();

function read() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

let current = read();

export const state = () => current;

// Changes some values; an empty one is removed. `replace` adds no step to the browser's history.
export function change(values, replace = false) {
  const next = { ...current, ...values };
  for (const key of Object.keys(next)) if (!next[key]) delete next[key];
  current = next;
  const query = new URLSearchParams(next).toString();
  history[replace ? "replaceState" : "pushState"](null, "", query ? `?${query}` : location.pathname);
  for (const listener of listeners) listener();
}

// Returns the address of the page with other values.
export function link(values) {
  const next = { ...current, ...values };
  for (const key of Object.keys(next)) if (!next[key]) delete next[key];
  return `?${new URLSearchParams(next)}`;
}

export function useChoice() {
  const [, draw] = useState(0);
  useEffect(() => {
    const listener = () => draw((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return current;
}

addEventListener("popstate", () => {
  current = read();
  for (const listener of listeners) listener();
});
