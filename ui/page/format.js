// Numbers, times and sizes as people read them. Pure.

// Compares names with numbers in them: edge-2 is before edge-10.
export const byName = new Intl.Collator(undefined, { numeric: true }).compare;

// Cuts a long text.
export const short = (text, length) => (text?.length > length ? `${text.slice(0, length)}…` : text);

// No fitted text has more letters.
export const MAX_LETTERS = 300;

// Cuts a text that is too wide in its middle: kind and end of a name stay. `measure` returns the width of a text.
export function fitted(text, width, measure) {
  const cut = (length) => `${text.slice(0, Math.ceil(length / 2))}…${text.slice(text.length - Math.floor(length / 2))}`;
  if (text.length <= MAX_LETTERS && measure(text) <= width) return text;
  if (width < 20) return "";
  // the most letters that fit: between them and those that do not
  let [few, many] = [2, Math.min(text.length, MAX_LETTERS)];
  while (many - few > 1) {
    const length = (few + many) >> 1;
    if (measure(cut(length)) <= width) few = length;
    else many = length;
  }
  return cut(few);
}

export function duration(milliseconds) {
  if (milliseconds < 1) return "<1 ms";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 60000) return `${(milliseconds / 1000).toFixed(1)} s`;
  const minutes = Math.floor(milliseconds / 60000);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d`;
}

export function clock(milliseconds) {
  const time = new Date(milliseconds);
  const two = (number, digits = 2) => String(number).padStart(digits, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${two(time.getMilliseconds(), 3)}`;
}

const UNITS = { n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };

// Reads a Kubernetes quantity.
export function quantity(text) {
  const [, number, unit] = /^([0-9.]+)([a-zA-Z]*)$/.exec(text || "") || [];
  return number === undefined ? undefined : Number(number) * (UNITS[unit] ?? 1);
}

export function bytes(count) {
  if (count < 1024) return `${Math.round(count)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = count / 1024;
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at++;
  }
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[at]}`;
}
