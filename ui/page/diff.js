// The differences between two documents, as paths and values. Pure.

function flatten(value, path, into) {
  if (value !== null && typeof value === "object" && Object.keys(value).length) {
    for (const [key, inner] of Object.entries(value)) {
      // who wrote which field tells nothing about the change
      if (key === "managedFields") continue;
      flatten(inner, Array.isArray(value) ? `${path}[${key}]` : path ? `${path}.${key}` : key, into);
    }
  } else {
    into.set(path, JSON.stringify(value));
  }
  return into;
}

// Contents of reports are JSON in a text.
export function parsed(content) {
  if (typeof content !== "string") return content;
  try {
    return JSON.parse(content);
  } catch {
    return content;
  }
}

// Returns lines: the path, the value before, and the value now; undefined if there was or is none.
export function differences(before, now) {
  const [old, current] = [flatten(parsed(before), "", new Map()), flatten(parsed(now), "", new Map())];
  const lines = [];
  for (const path of new Set([...old.keys(), ...current.keys()])) {
    if (old.get(path) !== current.get(path)) lines.push({ path, before: old.get(path), now: current.get(path) });
  }
  return lines;
}
