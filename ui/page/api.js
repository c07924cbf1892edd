// Requests to the API on this server: the Kubernetes API, and /cloudsim/v1/.

// The server accepts the cookie only together with this header, which other sites cannot send.
const HEADERS = { "x-cloudsim-page": "1" };
const MAX_WAIT = 10000;

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function request(path, options = {}) {
  const headers = { ...HEADERS, accept: "application/json", ...options.headers };
  const response = await fetch(path, { ...options, headers });
  if (response.ok) return response;
  let message = response.statusText;
  try {
    message = (await response.json()).message || message;
  } catch {
    // the status says enough
  }
  throw new ApiError(response.status, message);
}

export async function get(path) {
  return (await request(path)).json();
}

const RETRY_PAUSE = 1000;

// Calls `ask` again while the cloud cannot be reached; an error in an answer has a status. `report` gets the errors, and null when it works.
export async function untilAnswered(ask, report) {
  for (;;) {
    try {
      const answer = await ask();
      report(null);
      return answer;
    } catch (error) {
      if (error.status) throw error;
      report(error);
    }
    await sleep(RETRY_PAUSE);
  }
}

export function send(method, path, body, type = "application/json") {
  const headers = { "content-type": type };
  return request(path, { method, headers, body: JSON.stringify(body) });
}

// Calls `take` with batches of objects: each is one line of the response.
async function readLines(path, signal, take) {
  const response = await request(path, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    const objects = lines.filter((line) => line).map((line) => JSON.parse(line));
    if (objects.length) take(objects);
  }
}

// A longer line of a log is cut.
const MAX_LINE = 100000;

// Calls `take` with the lines of a log. After a cut it continues behind the latest line: each line comes with its time. `report` gets
// errors, and null when the log is read again.
export async function followLog(path, signal, take, report) {
  let latest = "";
  const run = async (succeed) => {
    const from = latest && `&sinceTime=${encodeURIComponent(latest)}`;
    const response = await request(`${path}&timestamps=true${from}`, { signal, headers: { accept: "*/*" } });
    succeed();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop().slice(0, MAX_LINE);
      const isNew = (line) => !latest || line.slice(0, line.indexOf(" ")) > latest;
      const fresh = lines.filter(isNew);
      if (!fresh.length) continue;
      const last = fresh.at(-1);
      latest = last.slice(0, last.indexOf(" "));
      take(fresh.map((line) => `${line.slice(line.indexOf(" ") + 1)}\n`).join(""));
    }
  };
  await repeat(run, report, signal);
}

const [STDIN, ERROR, RESIZE] = [0, 3, 4];

// Returns why a command failed, from the Status at the end of its stream, or else nothing.
function causeIn(text) {
  try {
    const { status, message, reason } = JSON.parse(text);
    return status === "Success" ? "" : String(message || reason);
  } catch {
    return text;
  }
}

// Runs a command in a container, over the same stream as kubectl. `take` gets what it prints. `ended` resolves to why it failed, or to
// nothing.
export function openExec(path, { container, command, isTerminal }, take) {
  const query = new URLSearchParams({ container, stdout: "true", ...(isTerminal ? { stdin: "true", tty: "true" } : { stderr: "true" }) });
  for (const word of command) query.append("command", word);
  const socket = new WebSocket(`wss://${location.host}${path}/exec?${query}`, ["v5.channel.k8s.io", "v4.channel.k8s.io"]);
  socket.binaryType = "arraybuffer";
  // one for each output, since a character may be split between messages
  const decoders = [1, 2, 3].map(() => new TextDecoder());
  const waiting = [];
  const send = (channel, text) => {
    const message = Uint8Array.of(channel, ...new TextEncoder().encode(text));
    if (socket.readyState === WebSocket.CONNECTING) waiting.push(message);
    else if (socket.readyState === WebSocket.OPEN) socket.send(message);
  };
  socket.onopen = () => waiting.splice(0).forEach((message) => socket.send(message));
  let result = "";
  const ended = new Promise((done) => {
    socket.onmessage = ({ data }) => {
      const channel = new Uint8Array(data)[0];
      if (channel < 1 || channel > ERROR) return;
      const text = decoders[channel - 1].decode(data.slice(1), { stream: true });
      if (channel < ERROR) return take(text);
      if (!text) return;
      result = causeIn(text);
    };
    socket.onclose = ({ reason, code }) => done(result || (code === 1000 || code === 1005 ? "" : reason || `connection closed (${code})`));
  });
  return {
    ended,
    input: (text) => send(STDIN, text),
    resize: (columns, rows) => send(RESIZE, JSON.stringify({ Width: columns, Height: rows })),
    close: () => socket.close(),
  };
}

const sleep = (time) => new Promise((done) => setTimeout(done, time));

// Repeats `run`, which reports success with its argument, with a growing pause after failures. A refused permission is asked for again rarely.
// It ends with the signal, if there is one.
export async function repeat(run, report, signal) {
  let wait = 500;
  while (!signal?.aborted) {
    try {
      await run(() => {
        wait = 500;
        report(null);
      });
    } catch (error) {
      if (signal?.aborted) return;
      report(error);
      if (error.status === 401) return;
      if (error.status === 403 || error.status === 404) wait = 30000;
    }
    await sleep(wait);
    wait = Math.min(wait * 2, Math.max(wait, MAX_WAIT));
  }
}

// Follows a list of objects. `take(objects, isWhole)` gets all of them first, then events of a watch.
export function followObjects(path, take, report) {
  const run = async (succeed) => {
    let version = "";
    let next = "";
    const all = [];
    do {
      const list = await get(`${path}?limit=500${next && `&continue=${encodeURIComponent(next)}`}`);
      all.push(...list.items);
      next = list.metadata.continue || "";
      version = list.metadata.resourceVersion;
    } while (next);
    take(all, true);
    succeed();
    for (;;) {
      let ended = null;
      await readLines(`${path}?watch=1&allowWatchBookmarks=true&resourceVersion=${version}`, undefined, (events) => {
        for (const event of events) {
          if (event.type === "ERROR") ended = event.object;
          else version = event.object.metadata.resourceVersion;
        }
        take(events.filter((event) => ["ADDED", "MODIFIED", "DELETED"].includes(event.type)), false);
      });
      if (ended) throw new ApiError(410, ended.message);
    }
  };
  return repeat(run, report);
}

// Follows the messages. `take(lines, isNew)`: the first lines of a connection replace what was there.
export function followMessages(take, report) {
  const run = async (succeed) => {
    let isNew = true;
    await readLines("/cloudsim/v1/messages", undefined, (lines) => {
      take(lines, isNew);
      isNew = false;
      succeed();
    });
  };
  return repeat(run, report);
}

// Reads a path again and again.
export function poll(path, pause, take, report) {
  const run = async (succeed) => {
    for (;;) {
      if (!document.hidden) take(await get(path));
      succeed();
      await sleep(pause);
    }
  };
  return repeat(run, report);
}

// Asks whether this user may do something: with a path of this server, or with objects.
export async function isAllowed(attributes) {
  const kind = "SelfSubjectAccessReview";
  const spec = attributes.path ? { nonResourceAttributes: attributes } : { resourceAttributes: attributes };
  const review = { apiVersion: "authorization.k8s.io/v1", kind, spec };
  const answer = await send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review);
  return (await answer.json()).status.allowed === true;
}

export async function whoAmI() {
  const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const answer = await send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review);
  return (await answer.json()).status.userInfo.username;
}
