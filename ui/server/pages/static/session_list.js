// The list of sessions: the newest first, searched by their texts, page by page.

import { ask } from "./api.js";
import { $, ago, gather, h, plain } from "./dom.js";

const PAGE = 40, EVERY_MS = 10_000;
const WORDS = {
  running: "running", needs_approval: "waits for you", needs_decision: "waits for you", error: "error",
  interrupted: "interrupted", failed: "failed", denied: "denied", parked: "parked",
};

export const wordOf = (status) => WORDS[status] ?? plain(status).replaceAll("_", " ");
const KINDS = { running: "busy", needs_approval: "warn", needs_decision: "warn", error: "bad", failed: "bad", parked: "bad" };
export const kindOf = (status) => KINDS[status] ?? "";

export class SessionList {
  constructor() {
    this.sessions = [];
    this.isRead = false;
    this.next = null;
    this.current = null;
    this.load = gather(() => this.read(), 150);
    $("search").addEventListener("input", () => this.load());
    $("more").addEventListener("click", () => this.readMore());
    setInterval(() => { if (document.visibilityState === "visible" && this.isOpen) this.load(); }, EVERY_MS);
    document.addEventListener("visibilitychange", () => { if (this.isOpen) this.load(); });
  }

  query(cursor) {
    const wanted = new URLSearchParams({ limit: String(PAGE) });
    const text = $("search").value.trim();
    if (text) wanted.set("text", text.slice(0, 200));
    if (cursor) wanted.set("cursor", cursor);
    return `/v1/sessions?${wanted}`;
  }

  async read() {
    const query = this.query();
    try {
      const page = await ask("GET", query);
      if (query !== this.query()) return; // a newer search follows
      const isLonger = this.sessions.length > PAGE && !$("search").value.trim();
      const ids = new Set(page.sessions.map((one) => one.id));
      this.sessions = isLonger ? [...page.sessions, ...this.sessions.filter((one) => !ids.has(one.id))] : page.sessions;
      if (!isLonger) this.next = page.next;
      this.isRead = true;
      this.render();
    } catch (problem) {
      if (problem.status) $("list-note").textContent = problem.message;
    }
  }

  async readMore() {
    const page = await ask("GET", this.query(this.next));
    this.sessions.push(...page.sessions);
    this.next = page.next;
    this.render();
  }

  select(id) {
    this.current = id;
    this.render();
  }

  /** Return the id of the session that is `by` places below the current one. */
  neighbour(by) {
    const place = this.sessions.findIndex((one) => one.id === this.current);
    return this.sessions[place < 0 ? 0 : place + by]?.id;
  }

  render() {
    const focused = document.activeElement?.dataset?.session;
    $("sessions").replaceChildren(...this.sessions.map((one) => this.row(one)));
    if (focused) $("sessions").querySelector(`[data-session="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    $("more").hidden = this.next === null;
    $("list-note").textContent = this.sessions.length || !this.isRead ? "" : $("search").value.trim() ? "Nothing was found." : "There are no sessions yet.";
  }

  row({ id, title, status, updated_at: at }) {
    const kind = kindOf(status);
    return h("li", {}, h("a", { href: `#/s/${encodeURIComponent(id)}`, "data-session": id, "aria-current": id === this.current ? "page" : null },
      h("bdi", { class: "title", text: plain(title) || "Untitled" }),
      h("span", { class: "about" }, h("span", { text: ago(at) }), kind && h("span", { class: `pill ${kind}`, text: wordOf(status) }))));
  }
}
