// Faults in words, the times in which each node had one, and the messages that it may have affected. The cloud knows the faults, also those
// that have ended. Pure.
import { endOf } from "./deliveries.js";

// Fields of a fault that are no conditions.
const FRAME = new Set(["id", "target", "since", "until"]);

// Reports whether a fault is one of a delivery's message, or of its answer, which goes the other way.
function selects({ direction, kinds }, { from, kind, answerKind, needsAnswer }) {
  const goes = (way) => !direction || direction === way;
  const isOf = (one) => !kinds.length || kinds.includes(one);
  const [way, back] = from === "cloud" ? ["toNode", "toCloud"] : ["toCloud", "toNode"];
  return (goes(way) && isOf(kind)) || ((needsAnswer || answerKind) && goes(back) && isOf(answerKind));
}

export class Spans {
  constructor() {
    this.all = [];
  }

  // Takes the answer to GET /cloudsim/v1/faults.
  take({ past, faults }) {
    this.all = [...past, ...faults].map((fault) => ({
      node: fault.target,
      text: describe(fault),
      direction: fault.direction,
      kinds: fault.kinds || [],
      begin: Date.parse(fault.since),
      end: fault.until ? Date.parse(fault.until) : Infinity,
    }));
  }

  // Returns a fault that may have affected a delivery, if there was one. `spans` are those of its node.
  affecting(delivery, spans = this.of(delivery.node)) {
    // what has not arrived is affected until it does
    const end = delivery.needsAnswer && !delivery.acknowledged ? Infinity : endOf(delivery);
    return spans.find((span) => span.begin <= end && span.end >= delivery.written && selects(span, delivery));
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
