/** The server refused a request, or ended a stream for good. */
export class ApiError extends Error {
  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** The `type` of the error, such as `not_found`. */
    readonly type: string,
    message: string,
    readonly hint: string = "",
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** The id after which a stream should go on names no event of the session, so all events would follow. */
export class StreamReset extends Error {
  constructor(readonly reason: string) {
    super(`The stream cannot go on after this id: ${reason}.`);
    this.name = "StreamReset";
  }
}

export interface ConnectionOptions {
  /** The address of the server, such as `http://127.0.0.1:7252`. */
  url: string;
  /** Left out in a browser that has the cookie of the server. */
  token?: string;
  /** Bounds a request, but not a stream. */
  timeoutMs?: number;
  fetch?: typeof fetch;
}

export interface StreamOptions {
  /** The id `SESSION_SEQ` of the last stored event that you have. */
  after?: string;
  /** Ends the stream. */
  signal?: AbortSignal;
  /** For how long connections may fail before the stream gives up. */
  patienceMs?: number;
}

type Query = Record<string, string | number | boolean | null | undefined>;

/** A stream that sends nothing for this time is dead: the server sends a comment every 15 s. */
const SILENCE_MS = 45_000;
/** How long a stream that brought events waits before it connects again; the server names the next pauses. */
const FIRST_PAUSE_MS = 100;
/** The answers after which a stream connects again. */
const WAIT_STATUSES = [429, 502, 503, 504];

export class SandburConnection {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;
  readonly #fetch: typeof fetch;

  constructor(options: ConnectionOptions) {
    this.#url = options.url.replace(/\/+$/, "");
    this.#headers = options.token ? { authorization: `Bearer ${options.token}` } : {};
    this.#timeoutMs = options.timeoutMs ?? 60_000;
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  protected async ask(method: string, path: string, query: object = {}, body?: object): Promise<Response> {
    const init: RequestInit = { method, headers: this.#headers, signal: AbortSignal.timeout(this.#timeoutMs) };
    if (body !== undefined) {
      init.headers = { ...this.#headers, "content-type": "application/json" };
      init.body = JSON.stringify(body);
    }
    return check(await this.#fetch(this.#url + path + encodeQuery(query as Query), init));
  }

  protected async askJson<T>(method: string, path: string, query: object = {}, body?: object): Promise<T> {
    return (await this.ask(method, path, query, body)).json() as Promise<T>;
  }

  /** Yield the events of a stream. After a lost connection it goes on after the last stored event. */
  protected async *follow<T>(path: string, options: StreamOptions): AsyncGenerator<T> {
    const stream = new EventStream(options.after ?? "");
    let lostAt = Date.now();
    while (!stream.isOver && !options.signal?.aborted) {
      let pauseMs = stream.retryMs;
      const control = new AbortController();
      const leave = () => control.abort();
      options.signal?.addEventListener("abort", leave);
      try {
        const headers: Record<string, string> = { ...this.#headers, accept: "text/event-stream" };
        if (stream.lastId) headers["last-event-id"] = stream.lastId;
        const init: RequestInit = { headers, signal: control.signal, cache: "no-store" };
        const answer = await check(await within(this.#fetch(this.#url + path, init), this.#timeoutMs));
        for await (const event of stream.read(answer)) {
          yield event as T;
          lostAt = Date.now();
          pauseMs = FIRST_PAUSE_MS;
        }
      } catch (error) {
        if (options.signal?.aborted) return;
        const isFinal = error instanceof StreamReset
          || (error instanceof ApiError && !WAIT_STATUSES.includes(error.status));
        if (isFinal || Date.now() - lostAt > (options.patienceMs ?? 300_000)) throw error;
      } finally {
        options.signal?.removeEventListener("abort", leave);
        control.abort();
      }
      if (!stream.isOver) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

/** The state of a stream across its connections. */
class EventStream {
  retryMs = 2000;
  isOver = false;

  constructor(public lastId: string) {}

  /** Yield the events of one connection. */
  async *read(answer: Response): AsyncGenerator<unknown> {
    let fields: Record<string, string> = {};
    for await (const line of readLines(answer)) {
      if (line) {
        const colon = line.indexOf(":");
        const name = colon < 0 ? line : line.slice(0, colon);
        fields[name] = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        continue;
      }
      const { data, event, id, retry } = fields;
      fields = {};
      if (retry) this.retryMs = Number(retry);
      if (data === undefined) continue;
      const found = JSON.parse(data) as { type: string; reason?: string; message?: string };
      if (event === undefined) {
        this.lastId = id ?? this.lastId;
        yield found;
      } else if (found.type === "reset") {
        throw new StreamReset(found.reason ?? "");
      } else if (found.type === "refused") {
        throw new ApiError(401, "unauthorized", found.message ?? "");
      } else if (found.type === "deleted" || found.type === "drain") {
        this.isOver = found.type === "deleted";
        return;
      }
    }
  }
}

/** Yield the lines of a body without their ends; a line that was cut is dropped. */
async function* readLines(answer: Response): AsyncGenerator<string> {
  if (!answer.body) return;
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), SILENCE_MS);
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) yield line.replace(/\r$/, "");
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Nothing came for ${ms} ms.`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function check(answer: Response): Promise<Response> {
  if (answer.ok) return answer;
  const text = await answer.text();
  let error: { type?: unknown; message?: unknown; hint?: unknown } = {};
  try {
    error = (JSON.parse(text) as { error?: typeof error }).error ?? {};
  } catch {
    // Something between here and the server answered.
  }
  const write = (value: unknown, other: string) => (typeof value === "string" ? value : other);
  const message = write(error.message, `The server answered ${answer.status}.`);
  throw new ApiError(answer.status, write(error.type, "http"), message, write(error.hint, ""));
}

function encodeQuery(query: Query): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}
