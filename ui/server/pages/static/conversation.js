// One session on the page: turns the events of its stream into elements, and keeps its state up to date.

import { ApprovalCard, CallCard, alwaysAllowed } from "./calls.js";
import { EventStream, ask, readFile, sessionPath } from "./api.js";
import { $, announce, bytes, gather, h, plain, shorten } from "./dom.js";
import { LiveText, LiveThinking } from "./live_text.js";
import { markdown } from "./markdown.js";

const MOST_ITEMS = 3000;
const NEAR_END_PX = 90;
const REFRESH_MS = 120;
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const MOST_PICTURE_BYTES = 15_000_000;
const FILE_LINE = /^\[[a-z]+\/[\w.+-]+.*\]$/m;
const CHANGES = new Set(["init", "approval", "plan", "step", "result", "tool_result", "message"]);

export const isRunning = (status) => status === "running";
const seqOf = (id) => (id ? Number(id.slice(id.lastIndexOf("_") + 1)) : -1);

/** The messages that were sent and that no run has taken yet. They outlive a reload of the page. */
class Queue {
  constructor(session) {
    this.key = `sandbur-queue-${session}`;
    this.items = JSON.parse(sessionStorage.getItem(this.key) ?? "[]");
    this.render();
  }

  add(text, after) {
    this.items.push({ text, after: seqOf(after) });
    this.keep();
  }

  /** Forget the message that a run has taken. */
  take(content, seq) {
    const place = this.items.findIndex(({ text, after }) => seq > after && content.startsWith(text));
    if (place < 0) return;
    this.items.splice(place, 1);
    this.keep();
  }

  keep() {
    sessionStorage.setItem(this.key, JSON.stringify(this.items));
    this.render();
  }

  render() {
    $("queue").replaceChildren(...this.items.map(({ text }) => h("li", {},
      h("span", { class: "soft", text: "Waits for its turn: " }), h("bdi", { text: shorten(plain(text), 200) }))));
    $("queue").hidden = !this.items.length;
  }
}

export class Conversation {
  /** `on` has `details(details)`, `gone(why)`, `enter(id)`, `activity()`. */
  constructor(id, on) {
    this.id = id;
    this.on = on;
    this.queue = new Queue(id);
    this.refresh = gather(() => this.load(), REFRESH_MS);
    this.loadFiles = gather(() => this.showFiles(), 300);
    this.details = null;
    this.clear();
    this.load().then(() => {
      if (!this.isClosed) this.stream = new EventStream(id, this.listener());
    });
    this.onscroll = () => this.noteScroll();
    $("scroll").addEventListener("scroll", this.onscroll, { passive: true });
  }

  close() {
    this.isClosed = true;
    this.stream?.close();
    this.refresh.cancel();
    this.loadFiles.cancel();
    $("scroll").removeEventListener("scroll", this.onscroll);
    for (const url of this.urls) URL.revokeObjectURL(url);
  }

  clear() {
    for (const url of this.urls ?? []) URL.revokeObjectURL(url);
    this.urls = [];
    this.calls = new Map();
    this.open = new Set(); // the calls without a result
    this.cards = new Map();
    this.steps = new Map();
    this.withFiles = [];
    this.lastSeq = -1;
    this.step = "";
    this.live = this.thinking = null;
    this.isStuck = true;
    $("log").replaceChildren();
    $("approvals").replaceChildren();
  }

  listener() {
    return {
      event: (data, isStored) => this.take(data, isStored),
      opened: () => this.noteOpened(),
      lost: (wait) => this.noteLost(wait),
      reset: () => this.clear(),
      gone: (why) => this.on.gone(why),
    };
  }

  noteOpened() {
    // Pieces of text and output that were sent meanwhile are lost; the whole message and the result come.
    this.dropLive();
    for (const id of this.open) this.calls.get(id).isCut = true;
    // Calls up to here may have written before. After a lost connection, the next details tell the place.
    this.openedAt = this.isLost ? Infinity : seqOf(this.details?.last_event_id);
    this.isCut = isRunning(this.details?.status);
    if (this.isLost) {
      this.isLost = false;
      this.tell("Connected again.", "good");
      this.refresh();
    }
  }

  noteLost(wait) {
    this.isLost = true;
    this.tell(wait < 1000 ? "The connection was lost. Connecting again\u2026"
      : `The connection was lost. Trying again in ${Math.round(wait / 1000)} s\u2026`, "bad");
  }

  tell(text, kind) {
    const bar = $("connection");
    clearTimeout(this.telling);
    bar.textContent = text;
    bar.className = kind;
    bar.hidden = false;
    if (kind === "good") this.telling = setTimeout(() => { bar.hidden = true; }, 3000);
  }

  /** Read what the session is now: its status, its plan, its waiting calls. */
  async load() {
    try {
      const details = await ask("GET", sessionPath(this.id));
      if (this.isClosed) return;
      this.details = details;
      if (this.openedAt === Infinity) this.openedAt = seqOf(details.last_event_id);
      this.showPending(details.pending);
      for (const id of this.open) this.calls.get(id).wait(this.cards.has(id), isRunning(details.status));
      this.on.details(details);
    } catch (problem) {
      if (!this.isClosed && problem.status === 404) this.on.gone("There is no such session.");
    }
  }

  take(event, isStored) {
    if (isStored) {
      if (event.seq <= this.lastSeq) return;
      this.lastSeq = event.seq;
    }
    if (event.agent_id) {
      this.on.activity(event);
      return;
    }
    this[`on_${event.type}`]?.(event);
    if (isStored) this.lastType = event.type === "message" ? event.role : event.type;
    if (isStored && CHANGES.has(event.type)) this.refresh();
  }

  on_init() {
    this.dropLive();
    for (const id of this.open) this.calls.get(id).dropOutput();
    if (this.details && this.lastSeq > seqOf(this.details.last_event_id)) this.on.details({ ...this.details, status: "running" });
  }

  on_text({ delta }) {
    if (!this.live) {
      this.live = new LiveText(this.isCut);
      this.live.onrender = () => this.scroll();
      this.put(this.live.element);
    }
    this.isCut = false;
    this.live.add(delta);
  }

  on_thinking({ delta }) {
    if (!this.thinking) {
      this.thinking = new LiveThinking();
      this.put(this.thinking.element);
    }
    this.thinking.add(delta);
  }

  on_message({ role, content, seq }) {
    this.isCut = false;
    if (role === "user") {
      this.dropLive();
      this.queue.take(content, seq);
      const shown = h("article", { class: "message user" },
        h("h3", { class: "unseen", text: "You" }), h("div", { class: "prose", dir: "auto", text: plain(content) }));
      this.put(shown);
      if (FILE_LINE.test(content)) {
        this.withFiles.push(shown);
        this.loadFiles();
      }
      return;
    }
    const hasLive = this.live !== null;
    this.dropLive();
    this.put(h("article", { class: "message assistant" },
      h("h3", { class: "unseen", text: "Answer" }), h("div", { class: "prose", dir: "auto" }, markdown(content))));
    // What was streamed has been announced; what is old is not.
    if (!hasLive && isRunning(this.details?.status)) announce(plain(content).slice(0, 600));
  }

  on_tool_use(event) {
    if (event.parent_call_id || this.calls.has(event.call_id)) return;
    this.dropLive();
    this.beginStep(event.step_id);
    const card = new CallCard(event);
    this.calls.set(event.call_id, card);
    this.open.add(event.call_id);
    card.isCut = event.seq <= this.openedAt;
    this.put(card.element);
  }

  on_tool_output({ call_id: id, chunk }) { this.calls.get(id)?.addOutput(chunk, () => this.scroll()); }

  on_tool_result(event) {
    if (event.parent_call_id) return;
    if (!this.calls.has(event.call_id)) this.on_tool_use({ ...event, arguments: null });
    this.calls.get(event.call_id).finish(event);
    this.open.delete(event.call_id);
    this.scroll();
  }

  on_plan({ steps }) {
    this.step = "";
    for (const step of steps) this.steps.set(step.step_id, step.description);
    this.put(h("section", { class: "plan card", "aria-label": "Plan" }, h("h3", { text: "Plan" }),
      h("ol", {}, steps.map((step) => h("li", { text: plain(step.description) })))));
  }

  /** Put a line before the first entry of a step of the plan. */
  beginStep(id) {
    if (!id || id === this.step) return;
    this.step = id;
    const about = this.steps.get(id);
    this.line(`Step ${plain(id)}${about ? `: ${plain(about)}` : ""}`, "mark");
  }

  on_flow({ flow, why }) { this.line(`${plain(flow)}: ${plain(why)}`); }
  on_notice({ message }) { this.line(plain(message)); }
  on_error({ message }) { this.line(plain(message), "bad"); }
  on_compacted({ messages }) { this.line(`${messages} older entries were summarized for the model.`); }

  on_result({ status, error }) {
    this.dropLive();
    if (error) this.line(plain(error.message), "bad");
    else if (status === "interrupted" && this.lastType === "assistant") this.line("Interrupted before the end of this answer.", "warn");
    else if (!["done", "needs_approval", "needs_decision", "interrupted"].includes(status)) {
      this.line(`The run ended: ${plain(status).replaceAll("_", " ")}.`, "warn");
    }
  }

  line(text, kind = "") { this.put(h("p", { class: `line ${kind}` }, h("span", { text }))); }

  dropLive() {
    this.live?.end();
    this.live = null;
    if (this.thinking && !this.thinking.element.open) this.thinking.element.classList.add("past");
    this.thinking = null;
  }

  put(element) {
    const log = $("log");
    log.append(element);
    if (log.childElementCount > MOST_ITEMS) {
      log.firstElementChild.remove();
      this.left = (this.left ?? 0) + 1;
      $("earlier").textContent = `${this.left} earlier entries are not shown.`;
      $("earlier").hidden = false;
    }
    this.scroll();
  }

  showPending(pending) {
    const ids = new Set(pending.map((call) => call.call_id));
    for (const [id, card] of this.cards) {
      if (ids.has(id)) continue;
      const hadFocus = card.element.contains(document.activeElement);
      card.element.remove();
      this.cards.delete(id);
      if (hadFocus) (this.firstCard?.element ?? $("message")).focus({ preventScroll: true });
    }
    for (const call of pending) {
      if (this.cards.has(call.call_id)) continue;
      const on = { enter: this.on.enter, decided: () => this.refresh() };
      const card = new ApprovalCard(this.id, call, on);
      this.cards.set(call.call_id, card);
      $("approvals").append(card.element);
      if (alwaysAllowed.has(this.id, call)) this.approveAgain(card);
    }
    this.scroll();
  }

  approveAgain(card) {
    card.approve();
    const again = h("button", { type: "button", class: "quiet", text: "Ask again next time",
      onclick: () => { alwaysAllowed.drop(this.id, card.call); again.remove(); } });
    this.put(h("p", { class: "line warn" }, h("span", { text: "Approved as before, because you chose Always. " }), again));
  }

  get firstCard() { return this.cards.values().next().value; }

  /** Show the files of messages at these messages, the newest first. */
  async showFiles() {
    const size = 200, messages = [];
    let first = Math.max(0, (await ask("GET", sessionPath(this.id, "/messages?limit=1"))).total - size);
    for (let page = 0; page < 10; page++, first = Math.max(0, first - size)) {
      const found = await ask("GET", sessionPath(this.id, `/messages?first=${first}&limit=${size}`));
      messages.unshift(...found.messages.filter((one) => one.role === "user" && one.files.length));
      if (first === 0) break;
    }
    if (this.isClosed) return;
    const shown = this.withFiles.slice(-messages.length);
    messages.slice(-shown.length).forEach(({ files }, place) => {
      const message = shown[place];
      if (message.querySelector(".files")) return;
      message.append(h("div", { class: "files" }, files.map((file) => this.fileOf(file))));
    });
  }

  fileOf(file) {
    const name = plain(file.name) || plain(file.media_type);
    const save = h("button", { type: "button", class: "file", text: `${name} \u00b7 ${bytes(file.size)}`,
      title: "Save this file", onclick: () => this.save(file, name) });
    if (!PICTURES.has(file.media_type) || file.size > MOST_PICTURE_BYTES) return save;
    const picture = h("img", { alt: name, decoding: "async" });
    readFile(this.id, file.digest, file.media_type).then((blob) => {
      picture.src = this.urlOf(blob);
      picture.onload = () => this.scroll();
    }, () => {});
    return h("figure", {}, picture, h("figcaption", {}, save));
  }

  urlOf(blob) {
    const url = URL.createObjectURL(blob);
    this.urls.push(url);
    return url;
  }

  async save(file, name) {
    try {
      const blob = await readFile(this.id, file.digest, "application/octet-stream");
      h("a", { href: this.urlOf(blob), download: name.replace(/[\\/]/g, "_") }).click();
    } catch (problem) {
      this.line(problem.message, "bad");
    }
  }

  noteScroll() {
    const box = $("scroll");
    this.isStuck = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX;
    $("to-end").hidden = this.isStuck;
  }

  /** Stay at the end, unless the person has scrolled up. */
  scroll() {
    if (this.scrolling) return;
    this.scrolling = requestAnimationFrame(() => {
      this.scrolling = 0;
      const box = $("scroll");
      if (this.isStuck) box.scrollTop = box.scrollHeight;
      else $("to-end").hidden = false;
    });
  }

  toEnd() {
    this.isStuck = true;
    this.scroll();
    $("to-end").hidden = true;
  }
}
