// The field for messages: text, files, sending now, sending into the run.

import { ask, sessionPath } from "./api.js";
import { $, bytes, h, plain } from "./dom.js";

const MOST_FILES_BYTES = 25_000_000;
const KINDS = ["image", "audio", "video"];

async function toBlock(file) {
  const url = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} could not be read.`));
    reader.readAsDataURL(file);
  });
  const kind = file.type.split("/")[0];
  return { type: KINDS.includes(kind) ? kind : "document", name: file.name.slice(0, 200), source: { data: url.slice(url.indexOf(",") + 1) } };
}

function makeId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
}

export class Composer {
  /** `on` has `created(id)`, `sent(text, afterId)`, `session()` and `isRunning()`. */
  constructor(on) {
    this.on = on;
    this.files = [];
    this.keptFiles = new Map(); // key of a draft -> its files
    this.field = $("message");
    $("composer").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    $("steer").addEventListener("click", () => this.send(true));
    $("attach").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", () => { this.add($("file").files); $("file").value = ""; });
    this.field.addEventListener("keydown", (event) => this.onKey(event));
    this.field.addEventListener("input", () => this.keepDraft());
    this.field.addEventListener("paste", (event) => {
      if (event.clipboardData.files.length) { event.preventDefault(); this.add(event.clipboardData.files); }
    });
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => { event.preventDefault(); this.add(event.dataTransfer.files); });
  }

  get draftKey() { return `sandbur-draft-${this.on.session() ?? ""}`; }

  /** Show what was written for the session that is open now. */
  open() {
    this.field.value = sessionStorage.getItem(this.draftKey) ?? "";
    this.files = this.keptFiles.get(this.draftKey) ?? [];
    this.keptFiles.delete(this.draftKey);
    this.problem("");
    this.render();
  }

  keepDraft() {
    if (this.field.value) sessionStorage.setItem(this.draftKey, this.field.value);
    else sessionStorage.removeItem(this.draftKey);
    this.grow();
  }

  grow() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, innerHeight * 0.4)}px`;
  }

  onKey(event) {
    if (event.key !== "Enter" || event.isComposing || event.shiftKey) return;
    // On a touch screen there is no Shift; there Enter makes a new line.
    if (matchMedia("(pointer: coarse)").matches && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.send((event.ctrlKey || event.metaKey) && this.on.isRunning());
  }

  add(files) {
    this.files.push(...files);
    const size = this.files.reduce((sum, file) => sum + file.size, 0);
    if (size > MOST_FILES_BYTES) {
      this.files.length -= files.length;
      this.problem(`Files of one message may have ${bytes(MOST_FILES_BYTES)} together.`);
    }
    this.render();
  }

  render() {
    $("attached").replaceChildren(...this.files.map((file) => h("li", {},
      h("span", { text: `${plain(file.name)} \u00b7 ${bytes(file.size)}` }),
      h("button", { type: "button", class: "quiet", "aria-label": `Remove ${plain(file.name)}`, text: "\u00d7",
        onclick: () => { this.files = this.files.filter((one) => one !== file); this.render(); this.field.focus(); } }))));
    this.grow();
  }

  problem(text) {
    $("composer-problem").textContent = text;
    $("composer-problem").hidden = !text;
  }

  /** Send what was written. `isSteering`: to the run that works now. */
  async send(isSteering = false) {
    const text = this.field.value, files = this.files;
    if (this.isBusy || (!text.trim() && !files.length)) return;
    if (isSteering && files.length) {
      this.problem("Files cannot be sent into a run. Send them as the next message.");
      return;
    }
    const key = this.draftKey;
    this.setBusy(true);
    this.problem("");
    // Emptied before the server answers: what is typed meanwhile is the next message.
    this.replace("", []);
    try {
      const content = files.length ? await this.toBlocks(text, files) : text;
      await this.deliver(content, text, isSteering);
    } catch (problem) {
      this.restore(key, text, files);
      this.problem(problem.status === 0
        ? "The server did not answer. Look whether your message arrived before you send it again." : problem.message);
    } finally {
      this.setBusy(false);
    }
  }

  replace(text, files) {
    this.field.value = text;
    this.files = files;
    this.keepDraft();
    this.render();
  }

  /** Put a message that was not sent before what was typed meanwhile, in the draft that it came from. */
  restore(key, text, files) {
    const join = (later) => (text && later ? `${text}\n${later}` : text || later);
    if (this.draftKey === key) this.replace(join(this.field.value), [...files, ...this.files]);
    else this.keep(key, join(sessionStorage.getItem(key) ?? ""), files);
  }

  /** Keep a draft for when the page opens its session. */
  keep(key, text, files) {
    if (text) sessionStorage.setItem(key, text);
    this.keptFiles.set(key, files);
  }

  /** Let what is in the field be the draft of session `id`, which the page opens next. */
  moveDraft(id) {
    this.keep(`sandbur-draft-${id}`, this.field.value, this.files);
    this.replace("", []);
  }

  async toBlocks(text, files) {
    const blocks = await Promise.all(files.map(toBlock));
    return text.trim() ? [{ type: "text", text }, ...blocks] : blocks;
  }

  async deliver(content, text, isSteering) {
    const session = this.on.session();
    if (session === null) {
      this.newId ??= makeId(); // the same after a failure, so that no second session begins
      await ask("POST", "/v1/sessions", { session_id: this.newId, agent: $("agent").value, message: content });
      const id = this.newId;
      this.newId = undefined;
      // What was typed meanwhile goes on in the new session, if the page still shows its start.
      if (this.on.session() === null) this.moveDraft(id);
      this.on.created(id);
    } else if (isSteering) {
      const { last_event_id: after } = await ask("POST", sessionPath(session, "/steer"), { text });
      this.tellSent(session, text, after);
    } else {
      const { last_event_id: after } = await ask("POST", sessionPath(session, "/messages"), { content });
      this.tellSent(session, text, after);
    }
  }

  /** The page may show another session by now. */
  tellSent(session, text, after) {
    if (this.on.session() === session) this.on.sent(text, after);
  }

  setBusy(isBusy) {
    this.isBusy = isBusy;
    $("send").disabled = isBusy;
    $("composer").setAttribute("aria-busy", String(isBusy));
  }
}
