// Speaks with the server: requests with the token, and streams of events that resume where they were cut.

const TOKEN_KEY = "sandbur-token";
const SILENT_MS = 40_000; // the server sends something every 15 s
const FIRST_WAIT_MS = 400, LONGEST_WAIT_MS = 8_000;
const REQUEST_MS = 60_000;

export class ApiError extends Error {
  constructor(status, type, message, hint = "") {
    super(hint ? `${message} ${hint}` : message);
    this.status = status;
    this.type = type;
  }
}

let refuse = () => {};

/** `listener` is called when the server does not accept the token. */
export function onRefused(listener) { refuse = listener; }

export function keepToken(text) {
  if (text) sessionStorage.setItem(TOKEN_KEY, text);
  else sessionStorage.removeItem(TOKEN_KEY);
}

function headers(more = {}) {
  // Without a token of its own the page uses the cookie that the printed address has set.
  const token = sessionStorage.getItem(TOKEN_KEY);
  return token ? { authorization: `Bearer ${token}`, ...more } : more;
}

async function send(method, path, body, signal) {
  const sent = body === undefined ? headers() : headers({ "content-type": "application/json" });
  let answer;
  try {
    answer = await fetch(path, { method, headers: sent, body: body && JSON.stringify(body), signal });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new ApiError(0, "unreachable", "The server did not answer.");
  }
  if (answer.ok) return answer;
  const found = await answer.json().catch(() => ({}));
  const { type = "http", message = `The server answered ${answer.status}.`, hint = "" } = found.error ?? {};
  if (answer.status === 401) refuse(message);
  throw new ApiError(answer.status, type, message, answer.status === 400 ? hint : "");
}

/** Return the JSON answer of a request; throws `ApiError`. */
export async function ask(method, path, body) {
  const answer = await send(method, path, body, AbortSignal.timeout(REQUEST_MS));
  return answer.json();
}

export const sessionPath = (id, rest = "") => `/v1/sessions/${encodeURIComponent(id)}${rest}`;

/** Return the bytes of a file of a session as a Blob of the type `type`. */
export async function readFile(id, digest, type) {
  const answer = await send("GET", sessionPath(id, `/files/${encodeURIComponent(digest)}`));
  return new Blob([await answer.arrayBuffer()], { type });
}

/** Yield the events of a stream of server-sent events as `{id, kind, data}`, and null for a comment. */
async function* parse(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", event = { id: "", kind: "message", lines: [] };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line) {
        if (event.lines.length) yield { id: event.id, kind: event.kind, data: JSON.parse(event.lines.join("\n")) };
        event = { id: "", kind: "message", lines: [] };
      } else if (line.startsWith(":")) yield null;
      else {
        const place = line.indexOf(":");
        const name = place < 0 ? line : line.slice(0, place);
        const text = place < 0 ? "" : line.slice(place + 1).replace(/^ /, "");
        if (name === "id") event.id = text;
        else if (name === "event") event.kind = text;
        else if (name === "data") event.lines.push(text);
      }
    }
  }
}

/** Follows one session, and connects again until it is closed. */
export class EventStream {
  /** `on` has the functions `event(data, isStored)`, `opened()`, `lost(waitMs)`, `reset()` and `gone(why)`. */
  constructor(id, on) {
    this.id = id;
    this.on = on;
    this.lastId = "";
    this.isClosed = false;
    this.failures = 0;
    this.wake = () => {};
    this.retryNow = () => this.wake();
    addEventListener("online", this.retryNow);
    this.run();
  }

  close() {
    this.isClosed = true;
    this.abort?.abort();
    this.wake();
    removeEventListener("online", this.retryNow);
  }

  async run() {
    while (!this.isClosed) {
      let isOver = false;
      try {
        isOver = await this.follow();
      } catch (problem) {
        if (problem instanceof ApiError && [401, 403, 404].includes(problem.status)) {
          if (!this.isClosed) this.on.gone(problem.message);
          return;
        }
      }
      if (this.isClosed || isOver) return;
      const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.failures++) * (0.8 + 0.4 * Math.random());
      this.on.lost(wait);
      await new Promise((resolve) => { this.wake = resolve; setTimeout(resolve, wait); });
    }
  }

  /** Read one connection to its end; return whether the session has no further events. */
  async follow() {
    this.abort = new AbortController();
    let timer = 0;
    const watch = () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.abort.abort(), SILENT_MS);
    };
    watch();
    try {
      const sent = headers({ accept: "text/event-stream", ...(this.lastId && { "last-event-id": this.lastId }) });
      const answer = await fetch(sessionPath(this.id, "/events"), { headers: sent, signal: this.abort.signal });
      if (!answer.ok) {
        const found = await answer.json().catch(() => ({}));
        if (answer.status === 401) refuse(found.error?.message ?? "");
        throw new ApiError(answer.status, "http", found.error?.message ?? "The stream failed.");
      }
      if (this.isClosed) return true;
      this.on.opened();
      for await (const event of parse(answer.body)) {
        watch();
        this.failures = 0;
        if (this.isClosed) return true;
        if (event !== null && this.take(event)) return true;
      }
      return false;
    } finally {
      clearTimeout(timer);
      this.abort.abort();
    }
  }

  take({ id, kind, data }) {
    if (kind === "reset") this.on.reset();
    else if (kind === "deleted") this.on.gone("This session was deleted.");
    else if (kind === "refused") refuse(data.message);
    else if (kind === "message") {
      if (id) this.lastId = id;
      this.on.event(data, Boolean(id));
    }
    return kind === "deleted" || kind === "refused";
  }
}
