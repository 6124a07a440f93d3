// What a session has besides its conversation: the plan, the sub-agents, the files, its numbers.

import { ask, sessionPath } from "./api.js";
import { $, bytes, gather, h, plain } from "./dom.js";
import { kindOf, wordOf } from "./session_list.js";

const MARKS = { pending: "\u25cb", in_progress: "\u25d0", completed: "\u25cf", failed: "\u2715", skipped: "\u2013" };
const MOST_CHANGED = 200;

export class SidePanel {
  /** `saveFile(file, name)` saves an attached file. */
  constructor(saveFile) {
    this.saveFile = saveFile;
    this.id = null;
    this.more = gather(() => this.readMore(), 800);
  }

  open(id) {
    this.id = id;
    for (const name of ["plan", "agents", "files", "facts"]) $(`panel-${name}`).replaceChildren();
    $("plan-line").hidden = true;
  }

  /** Show the details of the session, and read its sub-agents and files. */
  show(details) {
    this.showPlan(details);
    this.showFacts(details);
    this.more();
  }

  showPlan({ goal, plan }) {
    const steps = plan.map(({ description, status, summary }) => h("li", { class: `step ${status}` },
      h("span", { class: "mark", "aria-hidden": "true", text: MARKS[status] ?? "\u25cb" }),
      h("div", {}, h("span", { class: "unseen", text: `${status.replaceAll("_", " ")}: ` }), h("span", { text: plain(description) }),
        summary && h("p", { class: "soft", text: plain(summary) }))));
    $("panel-plan").replaceChildren(...section("Plan", steps.length ? [
      goal && h("p", { class: "soft goal", text: plain(goal) }), h("ol", { class: "steps" }, steps)] : []));
    const ended = plan.filter(({ status }) => !["pending", "in_progress"].includes(status)).length;
    const current = plan.find(({ status }) => status === "in_progress");
    const isOpen = plan.length > 0 && ended < plan.length;
    $("plan-line").hidden = !isOpen;
    if (isOpen) $("plan-line").textContent = `Plan ${ended}/${plan.length}${current ? `: ${plain(current.description)}` : ""}`;
  }

  showFacts({ agent, model, mode, app, user, tags, usage, parent, forked_from: fork }) {
    const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
    const rows = [
      ["Agent", agent], ["Model", model], ["Mode", mode], ["App", app], ["User", user], ["Tags", tags.join(", ")],
      ["Model calls", usage.llm_calls?.toLocaleString()], ["Tokens", tokens ? tokens.toLocaleString() : ""],
      ["Cost", usage.cost_usd ? `$${usage.cost_usd.toFixed(4)}` : ""], ["Session", this.id],
    ].filter(([, value]) => value);
    const list = h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", { text: name }), h("dd", { text: plain(value) })]).flat());
    const origin = [["Started by", parent], ["Forked from", fork]].filter(([, id]) => id)
      .map(([name, id]) => h("p", { class: "soft" }, `${name} `, h("a", { href: `#/s/${encodeURIComponent(id)}`, text: plain(id) })));
    $("panel-facts").replaceChildren(...section("About", [list, ...origin]));
  }

  async readMore() {
    const id = this.id;
    if (id === null) return;
    try {
      const children = await ask("GET", `/v1/sessions?${new URLSearchParams({ parent: id, children: "true", limit: "100" })}`);
      const files = await ask("GET", sessionPath(id, "/files?limit=200"));
      if (id !== this.id) return;
      this.showAgents(children.sessions);
      this.showFiles(files);
    } catch {
      // The next change of the session reads them again.
    }
  }

  showAgents(sessions) {
    const rows = sessions.map(({ id, title, status }) => h("li", {},
      h("a", { href: `#/s/${encodeURIComponent(id)}`, "data-child": id }, h("bdi", { text: plain(title) || "Untitled" })), " ",
      h("span", { class: `pill ${kindOf(status)}`, text: wordOf(status) })));
    $("panel-agents").replaceChildren(...section("Sub-agents", rows.length ? [h("ul", { class: "rows" }, rows)] : []));
  }

  showFiles({ attached, changed }) {
    const paths = [...new Set(changed.map(({ path }) => path))];
    const shown = paths.slice(-MOST_CHANGED).reverse().map((path) => h("li", {}, h("code", { text: plain(path) })));
    const given = attached.map((file) => {
      const name = plain(file.name) || plain(file.media_type);
      return h("li", {}, h("button", { type: "button", class: "file", text: `${name} \u00b7 ${bytes(file.size)}`,
        onclick: () => this.saveFile(file, name) }));
    });
    $("panel-files").replaceChildren(
      ...section("Changed files", shown.length ? [h("ul", { class: "rows" }, shown)] : []),
      ...section("Attached files", given.length ? [h("ul", { class: "rows" }, given)] : []));
  }
}

const section = (title, content) => (content.length ? [h("h2", { text: title }), ...content.filter(Boolean)] : []);
