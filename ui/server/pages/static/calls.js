// Cards of tool calls, and the questions about calls that wait for a person.

import { ask, sessionPath } from "./api.js";
import { diffOf, diffText } from "./diff.js";
import { announce, duration, gather, h, plain, shorten } from "./dom.js";

const MOST_SHOWN = 20_000;
const OUTPUT_MS = 60, NEAR_END_PX = 30;
const ARMED_MS = 400; // a key that was pressed before the question could be read does not answer it
const UNIFIED = /^--- .*\n\+\+\+ .*\n@@ /m;
const OUTCOMES = {
  ok: ["done", "good"], error: ["failed", "bad"], denied: ["denied", "warn"], timeout: ["timed out", "bad"],
  unknown: ["outcome unknown", "warn"], interrupted: ["interrupted", "warn"],
};

/** Return what a call does, in one line. */
function subjectOf(tool, given) {
  if (given === null || typeof given !== "object") return plain(given);
  const named = given.command ?? given.path ?? given.url ?? given.pattern ?? given.query ?? given.description;
  if (typeof named === "string") return plain(named).split("\n").join(" \u23ce ");
  const rest = Object.entries(given).map(([name, value]) => `${name}: ${plain(value)}`).join(", ");
  return plain(rest);
}

/** Return elements with everything that a call was asked to do. */
function argumentsOf(tool, given, changes) {
  const made = [];
  if (changes) made.push(diffText(changes));
  if (given === null || typeof given !== "object") return [...made, block(plain(given), "Arguments")];
  const rest = { ...given };
  if (typeof rest.old === "string" && typeof rest.new === "string") {
    made.push(diffOf(rest.old, rest.new));
    delete rest.old;
    delete rest.new;
  } else if (typeof rest.content === "string" && typeof rest.path === "string") {
    if (!changes) made.push(diffOf("", rest.content));
    delete rest.content;
  }
  const lines = Object.entries(rest).map(([name, value]) => h("div", { class: "argument" },
    h("dt", { text: plain(name) }), h("dd", { text: plain(typeof value === "string" ? value : JSON.stringify(value, null, 1)) })));
  return [lines.length ? h("dl", { class: "arguments" }, lines) : null, ...made];
}

function block(text, label) {
  const start = text.slice(0, MOST_SHOWN);
  const made = [h("pre", { class: "output", tabindex: "0", "aria-label": label, text: start || "(nothing)" })];
  if (start.length < text.length) {
    const rest = text.length - start.length;
    const more = h("button", { type: "button", class: "quiet", text: `Show ${rest.toLocaleString()} more characters`,
      onclick: () => { made[0].textContent = text; more.remove(); } });
    made.push(more);
  }
  return h("div", {}, made);
}

/** The end of what a running call has written so far. */
class RunningOutput {
  constructor() {
    this.text = "";
    this.shown = h("pre", { class: "output", tabindex: "0", "aria-label": "Output so far" });
    this.note = h("p", { class: "soft", hidden: true, text: "Parts are missing here; the result comes when the call ends." });
    this.element = h("div", { class: "call-output" }, this.note, this.shown);
    this.render = gather(() => this.show(), OUTPUT_MS);
  }

  add(text) {
    this.text += text;
    if (this.text.length > MOST_SHOWN) {
      this.text = this.text.slice(-MOST_SHOWN);
      this.isCut = true;
    }
    if (this.shown.textContent) this.render();
    else this.show();
  }

  show() {
    const { scrollHeight, scrollTop, clientHeight } = this.shown;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    this.shown.textContent = plain(this.text);
    this.note.hidden = !this.isCut;
    if (isAtEnd) this.shown.scrollTop = this.shown.scrollHeight;
    this.onrender?.();
  }
}

/** The card of one call. Its contents are made when it is opened. */
export class CallCard {
  constructor({ call_id: id, tool, arguments: given }) {
    this.id = id;
    this.tool = tool;
    this.given = given;
    this.result = null;
    this.state = h("span", { class: "state", text: "working\u2026" });
    this.body = h("div", { class: "body" });
    this.output = null;
    this.isCut = false; // whether it has written something that this page did not get
    this.details = h("details", { class: "call", "data-call": id, ontoggle: () => this.fill() },
      h("summary", {},
        h("span", { class: "tool", text: plain(tool).replaceAll("_", " ") }), " ",
        h("bdi", { class: "subject", text: shorten(subjectOf(tool, given), 160) }), " ", this.state),
      this.body);
    this.element = h("div", {}, this.details);
  }

  /** Show a piece of what the call writes while it runs; `onrender` is called when it is on the page. */
  addOutput(text, onrender) {
    if (this.result !== null) return;
    if (!this.output) {
      this.output = new RunningOutput();
      this.output.onrender = onrender;
      this.element.append(this.output.element);
    }
    this.output.isCut ||= this.isCut;
    this.output.add(text);
  }

  dropOutput() {
    if (!this.output) return;
    this.output.render.cancel();
    const hadFocus = this.output.element.contains(document.activeElement);
    this.output.element.remove();
    this.output = null;
    if (hadFocus) this.details.firstElementChild.focus({ preventScroll: true });
  }

  fill() {
    if (!this.details.open || this.body.childElementCount) return;
    const place = this.result === null ? -1 : this.result.search(UNIFIED);
    const asked = argumentsOf(this.tool, this.given).filter((one) => one && !(place >= 0 && one.className === "diff"));
    this.body.append(...asked);
    if (this.result === null) return;
    // The difference in the result has the lines around the change, too.
    const text = place < 0 ? this.result : this.result.slice(0, place).trimEnd();
    if (text || place < 0) this.body.append(h("h4", { text: "Result" }), block(plain(text), "Result"));
    if (place >= 0) this.body.append(diffText(this.result.slice(place)));
  }

  /** Say what a call without a result does: it works, it waits for a person, or its run has stopped. */
  wait(isPending, isRunning) {
    if (this.result !== null) return;
    if (isPending) this.isCut = false;
    this.state.className = isPending ? "state warn" : "state";
    this.state.textContent = isPending ? "waits for you" : isRunning ? "working\u2026" : "no result yet";
  }

  finish({ outcome, content, duration_ms: took }) {
    const [word, kind] = OUTCOMES[outcome] ?? [plain(outcome), "warn"];
    this.result = content ?? "";
    this.state.className = `state ${kind}`;
    this.state.textContent = took > 0 ? `${word} \u00b7 ${duration(took)}` : word;
    this.dropOutput();
    this.body.replaceChildren();
    this.fill();
  }
}

/** What was allowed for as long as this page is open: exactly these calls of this session. */
class AlwaysAllowed {
  constructor() { this.keys = new Set(); }
  key(session, call) { return JSON.stringify([session, call.tool, call.arguments, call.agent_id ?? ""]); }
  add(session, call) { this.keys.add(this.key(session, call)); }
  has(session, call) { return call.kind === "approval" && this.keys.has(this.key(session, call)); }
  drop(session, call) { this.keys.delete(this.key(session, call)); }
}

export const alwaysAllowed = new AlwaysAllowed();

/** The question about one waiting call. */
export class ApprovalCard {
  /** `on` has `enter(sessionId)` for the calls of sub-agents, and `decided()` after an answer was accepted. */
  constructor(session, call, on) {
    this.session = session;
    this.call = call;
    this.on = on;
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.buttons = h("div", { class: "buttons" });
    this.words = h("input", { class: "words", type: "text", maxlength: "4000", autocomplete: "off" });
    const isUnknown = call.kind === "outcome_unknown";
    const title = isUnknown ? "What became of this call?" : `Allow ${plain(call.tool).replaceAll("_", " ")}?`;
    this.element = h("section", { class: "approval", tabindex: "-1", "data-pending": call.call_id, "aria-label": title },
      h("h3", { text: title }),
      call.agents?.length && h("p", { class: "soft" }, `Asked by ${call.agents.map(plain).join(" \u203a ")}. `,
        h("button", { type: "button", class: "quiet", text: "Open it", onclick: () => on.enter(call.agent_id) })),
      call.reason && h("p", { class: "reason", text: isUnknown
        ? `It ran when its process ended, so its outcome is unknown. ${plain(call.reason)}` : `Asks: ${plain(call.reason)}` }),
      call.plan_changes && diffText(call.plan_changes),
      argumentsOf(call.tool, call.arguments, call.changes),
      this.buttons, this.problem);
    if (isUnknown) this.offerOutcomes();
    else this.offerApproval();
    setTimeout(() => { this.element.dataset.ready = ""; }, ARMED_MS);
    announce(`${title} ${shorten(subjectOf(call.tool, call.arguments), 200)}`);
  }

  get isReady() { return "ready" in this.element.dataset && !this.isBusy; }

  button(text, key, work, kind = "") {
    return h("button", { type: "button", class: kind, onclick: work, "aria-keyshortcuts": key },
      text, key && h("kbd", { "aria-hidden": "true", text: key }));
  }

  offerApproval() {
    this.buttons.replaceChildren(
      this.button("Approve", "y", () => this.approve(), "go"),
      this.button("Always", "a", () => this.approve(true)),
      this.button("Deny", "n", () => this.deny(), "stop"),
      this.button("Deny with a reason\u2026", "r", () => this.askReason(), "stop"),
    );
    this.buttons.children[1].title = "Exactly this call, in this session, as long as this page is open";
  }

  askReason() {
    this.words.placeholder = "Why not? The agent reads this.";
    this.words.setAttribute("aria-label", "Reason of the denial, optional");
    const send = () => this.deny(this.words.value);
    const back = () => { this.offerApproval(); this.element.focus(); };
    this.words.onkeydown = (event) => {
      if (event.key === "Enter" && !event.isComposing) send();
      if (event.key === "Escape") { event.stopPropagation(); back(); }
    };
    this.buttons.replaceChildren(this.words, this.button("Deny", "", send, "stop"), this.button("Back", "", back));
    this.words.focus();
  }

  offerOutcomes() {
    this.words.placeholder = "What the agent should know";
    this.words.setAttribute("aria-label", "What the agent should know, optional");
    const settle = (outcome) => () => this.decide("settle", { call: this.call.call_id, outcome, result: this.words.value });
    this.buttons.replaceChildren(this.words,
      this.button("Let the agent check", "", settle("check")), this.button("It took effect", "", settle("done")),
      this.button("It failed", "", settle("failed")), this.button("Run it again", "", settle("rerun"), "stop"));
  }

  approve(isAlways = false) {
    if (isAlways) alwaysAllowed.add(this.session, this.call);
    return this.decide("approve", { calls: [this.call.call_id] });
  }

  deny(reason = "") {
    return this.decide("deny", { calls: [this.call.call_id], reason });
  }

  async decide(answer, body) {
    if (this.isBusy) return;
    this.isBusy = true;
    this.problem.hidden = true;
    for (const one of this.buttons.children) one.disabled = true;
    try {
      await ask("POST", sessionPath(this.session, `/${answer}`), body);
      announce({ approve: "Approved", deny: "Denied" }[answer] ?? "Settled");
      this.element.classList.add("decided");
    } catch (problem) {
      alwaysAllowed.drop(this.session, this.call);
      this.problem.textContent = problem.message;
      this.problem.hidden = false;
      for (const one of this.buttons.children) one.disabled = false;
      this.isBusy = false;
    }
    this.on.decided();
  }
}
