// Faults in words, and the times in which each node had one. The cloud knows them, also those that have ended. Pure.

// Fields of a fault that are no conditions.
const FRAME = new Set(["id", "target", "since", "until"]);

export class Spans {
  constructor() {
    this.all = [];
  }

  // Takes the answer to GET /cloudsim/v1/faults.
  take({ past, faults }) {
    this.all = [...past, ...faults].map((fault) => ({
      node: fault.target,
      text: describe(fault),
      begin: Date.parse(fault.since),
      end: fault.until ? Date.parse(fault.until) : Infinity,
    }));
  }

  // Returns the fault of a node during a delivery, if there was one.
  during(node, begin, end) {
    return this.of(node).find((span) => span.begin <= end && span.end >= begin);
  }

  of(node) {
    return this.all.filter((span) => span.node === node || span.node === "all");
  }

  // Returns the targets that have a fault in this time.
  targets(begin, end) {
    return [...new Set(this.all.filter((span) => span.begin <= end && span.end >= begin).map((span) => span.node))].sort();
  }
}

// Returns the conditions of a fault.
export const conditionsOf = (fault) => Object.fromEntries(Object.entries(fault).filter(([name]) => !FRAME.has(name)));

// Describes a fault as `cloudsim faults list` does: the fields with their values.
export function describe(fault) {
  return Object.entries(conditionsOf(fault))
    .filter(([name]) => name !== "for")
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}
