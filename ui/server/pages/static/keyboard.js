// Keys: one letter does one thing, outside of text fields. They can be switched off.

import { $, h } from "./dom.js";

const OFF_KEY = "sandbur-single-keys-off";

/** The rows of the list of keys: key, what it does, and the name of the action. The keys of a question mean the same as in the terminal. */
const KEYS = [
  ["y", "Approve the first waiting call", "approve"],
  ["a", "Approve exactly this call always, while this page is open", "always"],
  ["n", "Deny it", "deny"],
  ["r", "Deny it, with a reason", "explain"],
  ["m", "Write a message", "write"],
  ["c", "New session", "create"],
  ["/", "Search sessions", "search"],
  ["j", "Next session in the list", "next"],
  ["k", "Previous session in the list", "previous"],
  ["u", "Back to the session that started this one", "parent"],
  ["p", "Plan, sub-agents and files", "panel"],
  ["x", "Stop the run", "stop"],
  ["e", "Go to the end of the conversation", "end"],
  ["?", "This list", "help"],
];
const FIXED = [
  ["Enter", "Send; with Shift a new line"],
  ["Ctrl Enter", "Send into the run that works now"],
  ["Esc", "Leave a field, close what is open"],
];

const isText = (element) => element?.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");

export class Keyboard {
  /** `actions` has a function for each name in `KEYS`, and `close` for Escape. */
  constructor(actions) {
    this.actions = actions;
    const by = new Map(KEYS.map(([key, , name]) => [key, name]));
    document.addEventListener("keydown", (event) => {
      if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") this.escape();
      else if (!isText(event.target) && by.has(event.key) && !this.isBlocked(event.key)) {
        event.preventDefault();
        if (!event.repeat) actions[by.get(event.key)]();
      }
    });
    const row = (key, about) => [h("dt", {}, key.split(" ").map((one) => h("kbd", { text: one }))), h("dd", { text: about })];
    $("key-list").append(...[...KEYS, ...FIXED].flatMap(([key, about]) => row(key, about)));
    $("single-keys").checked = !this.isOff;
    $("single-keys").addEventListener("change", () => {
      if ($("single-keys").checked) localStorage.removeItem(OFF_KEY);
      else localStorage.setItem(OFF_KEY, "1");
    });
  }

  get isOff() { return localStorage.getItem(OFF_KEY) !== null; }

  isBlocked(key) { return document.querySelector("dialog[open]") !== null || (this.isOff && key !== "?"); }

  escape() {
    if (isText(document.activeElement)) document.activeElement.blur();
    else this.actions.close();
  }
}
