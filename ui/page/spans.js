// Faults in words, and the times in which each node had one, as the page has seen them. Pure.

const MAX_SPANS = 500;

export class Spans {
  constructor() {
    this.all = [];
    this.open = new Map();
  }

  // Takes the faults of nodes as they are now: conditions in words by node.
  update(byNode, now) {
    for (const [node, span] of this.open) {
      if (byNode.get(node) === span.text) continue;
      span.end = now;
      this.open.delete(node);
    }
    for (const [node, text] of byNode) {
      if (this.open.has(node)) continue;
      const span = { node, text, begin: now, end: Infinity };
      this.open.set(node, span);
      this.all.push(span);
    }
    if (this.all.length > MAX_SPANS) this.all.splice(0, this.all.length - MAX_SPANS);
  }

  // Returns the fault of a node during a delivery, if there was one.
  during(node, begin, end) {
    return this.all.find((span) => span.node === node && span.begin <= end && span.end >= begin);
  }

  of(node) {
    return this.all.filter((span) => span.node === node);
  }
}

// Describes conditions as `cloudsim faults list` does: the fields with their values.
export function describe(conditions) {
  return Object.entries(conditions)
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}

// The conditions of a node override those of all nodes.
export function faultOf(faults, node) {
  const found = faults?.nodes?.[node] || faults?.all;
  return found && Object.keys(found).length ? found : null;
}
