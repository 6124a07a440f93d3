// A text that arrives in pieces. What is finished is rendered once, and only the rest is rendered again.

import { announce, h, plain } from "./dom.js";
import { finishedLength, markdown } from "./markdown.js";

const FASTEST_MS = 40, CHARACTERS_PER_MS = 60;
const SENTENCE = /[.!?:\u3002\uff01\uff1f](?=\s|$)|\n/g;

export class LiveText {
  /** `isCut`: the text began before this page listened. */
  constructor(isCut) {
    this.tail = h("div", { class: "tail" });
    this.element = h("article", { class: "message assistant live" },
      h("h3", { class: "unseen", text: "Answer" }),
      isCut && h("p", { class: "soft", text: "\u2026 (the beginning follows when this answer is complete)" }),
      h("div", { class: "prose" }, this.tail));
    this.rest = "";
    this.unsaid = "";
    this.timer = 0;
  }

  add(text) {
    this.rest += text;
    this.unsaid += text;
    if (!this.timer) this.timer = setTimeout(() => this.render(), FASTEST_MS + this.rest.length / CHARACTERS_PER_MS);
  }

  render() {
    this.timer = 0;
    const length = finishedLength(this.rest);
    if (length) {
      this.tail.before(...markdown(this.rest.slice(0, length)));
      this.rest = this.rest.slice(length);
    }
    this.tail.replaceChildren(...markdown(this.rest));
    this.say();
    this.onrender?.();
  }

  /** Announce the sentences that are complete. */
  say() {
    let end = 0;
    for (const found of this.unsaid.matchAll(SENTENCE)) end = found.index + found[0].length;
    if (end) announce(plain(this.unsaid.slice(0, end)));
    this.unsaid = this.unsaid.slice(end);
  }

  /** End the text, and announce the rest of it. */
  end() {
    clearTimeout(this.timer);
    if (this.unsaid.trim()) announce(plain(this.unsaid));
    this.element.remove();
  }
}

export class LiveThinking {
  constructor() {
    this.text = document.createTextNode("");
    this.length = 0;
    this.element = h("details", { class: "thinking" },
      h("summary", {}, "Thinking"), h("div", { class: "thought" }, this.text));
  }

  add(text) {
    this.length += text.length;
    if (this.length < 200_000) this.text.appendData(plain(text));
  }
}
