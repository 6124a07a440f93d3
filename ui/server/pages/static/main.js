// Starts the page: the token, the address, and who does what.

import { ask, keepToken, onRefused, sessionPath } from "./api.js";
import { Composer } from "./composer.js";
import { Conversation, isRunning } from "./conversation.js";
import { $, announce, h, plain } from "./dom.js";
import { Keyboard } from "./keyboard.js";
import { SessionList, kindOf, wordOf } from "./session_list.js";
import { SidePanel } from "./side_panel.js";

const CONTINUED = new Set(["interrupted", "error", "timeout", "rate_limited", "turn_limit", "budget_limit", "failed", "parked"]);
const isWide = matchMedia("(min-width: 64rem)"), hasPanel = matchMedia("(min-width: 84rem)");

const list = new SessionList();
let conversation = null;
const panel = new SidePanel((file, name) => conversation?.save(file, name));
const composer = new Composer({
  session: () => conversation?.id ?? null,
  isRunning: () => isRunning(conversation?.details?.status),
  created: (id) => { go(id); list.load(); },
  sent: (text, after) => { conversation.queue.add(text, after); conversation.refresh(); conversation.toEnd(); },
});

const go = (id) => { location.hash = id === null ? "#/new" : `#/s/${encodeURIComponent(id)}`; };

/** Show what the address names: a session, or the start of a new one. */
function route() {
  const found = location.hash.match(/^#\/s\/(.+)$/);
  let id = null;
  try {
    id = found ? decodeURIComponent(found[1]) : null;
  } catch {
    // Such an address names no session.
  }
  if (conversation?.id === id && id !== null) return;
  conversation?.close();
  conversation = null;
  $("connection").hidden = $("earlier").hidden = $("to-end").hidden = true;
  $("log").replaceChildren();
  $("approvals").replaceChildren();
  $("queue").hidden = true;
  panel.open(id);
  closeDrawers();
  document.body.classList.toggle("is-new", id === null);
  if (id === null) showNew();
  else {
    $("title").textContent = "\u2026";
    conversation = new Conversation(id, { details: showDetails, gone: showGone, enter: go, activity: () => panel.more() });
  }
  list.select(id);
  composer.open();
  if (isWide.matches) $("message").focus({ preventScroll: true });
}

function showNew() {
  $("title").textContent = "New session";
  document.title = "New session \u00b7 Sandbur";
  $("status").replaceChildren();
  for (const name of ["stop", "steer", "resume", "parent"]) $(name).hidden = true;
  $("send").textContent = "Start";
  $("composer").inert = false;
}

function showDetails(details) {
  const { title, status, parent, pending } = details;
  const runs = isRunning(status);
  conversation.details = details;
  $("title").textContent = plain(title) || "Untitled";
  document.title = `${pending.length ? `(${pending.length}) ` : ""}${plain(title) || "Untitled"} \u00b7 Sandbur`;
  const word = h("span", { class: `pill ${kindOf(status)}`, text: wordOf(status) });
  if ($("status").textContent !== word.textContent) $("status").replaceChildren(word);
  $("stop").hidden = $("steer").hidden = !runs;
  $("send").textContent = runs ? "Queue" : "Send";
  $("resume").hidden = !CONTINUED.has(status) || pending.length > 0;
  $("parent").hidden = parent === null;
  if (parent !== null) $("parent").href = `#/s/${encodeURIComponent(parent)}`;
  panel.show(details);
  const row = list.sessions.find((one) => one.id === details.id);
  if (row === undefined || row.status !== status || row.title !== title) list.load();
}

function showGone(why) {
  $("title").textContent = "Not here";
  $("status").replaceChildren();
  $("log").replaceChildren(h("p", { class: "line bad" }, h("span", { text: why })));
  $("composer").inert = true;
  list.load();
}

/** Send a request about the open session, and show what went wrong. The server answers before it is carried out. */
async function change(action, begins) {
  try {
    await ask("POST", sessionPath(conversation.id, `/${action}`));
    announce(begins);
  } catch (problem) {
    composer.problem(problem.message);
  }
  conversation?.refresh();
}

function toggle(name, isOpen = !document.body.classList.contains(`shows-${name}`)) {
  document.body.classList.toggle(`shows-${name}`, isOpen);
  const button = $(name === "list" ? "open-list" : "open-panel");
  button.setAttribute("aria-expanded", String(isOpen));
  hideDrawers();
  if (isOpen) $(name === "list" ? "sidebar" : "panel").querySelector("input, a, button")?.focus();
}

/** What is not seen takes no focus. */
function hideDrawers() {
  const shows = (name) => document.body.classList.contains(`shows-${name}`);
  $("sidebar").inert = !isWide.matches && !shows("list");
  $("panel").inert = !hasPanel.matches && !shows("panel");
  const covers = (!isWide.matches && shows("list")) || (!isWide.matches && shows("panel"));
  $("main").inert = covers;
  list.isOpen = $("login").open === false;
}

function closeDrawers() {
  for (const [name, button] of [["list", "open-list"], ["panel", "open-panel"]]) {
    if (document.body.classList.contains(`shows-${name}`)) {
      toggle(name, false);
      $(button).focus();
    }
  }
  hideDrawers();
}

function showLogin(message = "") {
  conversation?.close();
  conversation = null;
  list.isOpen = false;
  $("login-problem").textContent = message;
  $("login-problem").hidden = !message;
  if (!$("login").open) $("login").showModal();
}

async function start() {
  try {
    const { agents } = await ask("GET", "/v1/agents");
    $("agent").replaceChildren(...agents.map(({ name }) => h("option", { value: name, text: plain(name) })));
    $("agent-choice").hidden = agents.length < 2;
  } catch (problem) {
    if (problem.status !== 401) showLogin(problem.message);
    return;
  }
  if ($("login").open) $("login").close();
  list.isOpen = true;
  list.load();
  hideDrawers();
  route();
}

onRefused((message) => showLogin(sessionStorage.getItem("sandbur-token") ? message : ""));
$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken($("token").value.trim());
  $("token").value = "";
  start();
});
$("login").addEventListener("cancel", (event) => event.preventDefault());
$("log-out").addEventListener("click", () => { keepToken(""); $("sessions").replaceChildren(); $("log").replaceChildren(); showLogin(); });
$("new").addEventListener("click", () => go(null));
$("stop").addEventListener("click", () => change("cancel", "Stopping"));
$("resume").addEventListener("click", () => change("continue", "Goes on"));
$("to-end").addEventListener("click", () => conversation?.toEnd());
$("open-list").addEventListener("click", () => toggle("list"));
$("open-panel").addEventListener("click", () => toggle("panel"));
$("plan-line").addEventListener("click", () => toggle("panel", true));
$("shade").addEventListener("click", closeDrawers);
$("close-help").addEventListener("click", () => $("help").close());
$("open-help").addEventListener("click", () => $("help").showModal());
addEventListener("hashchange", route);
for (const media of [isWide, hasPanel]) media.addEventListener("change", hideDrawers);
document.addEventListener("visibilitychange", () => {
  // A phone that slept may have lost its connection without notice.
  if (document.visibilityState === "visible") { conversation?.stream?.retryNow(); conversation?.refresh(); }
});

const firstReady = () => { const card = conversation?.firstCard; return card?.isReady && card.call.kind === "approval" ? card : null; };
const keyboard = new Keyboard({
  approve: () => firstReady()?.approve(),
  deny: () => firstReady()?.deny(),
  explain: () => firstReady()?.askReason(),
  always: () => firstReady()?.approve(true),
  write: () => $("message").focus(),
  create: () => go(null),
  search: () => { if (!isWide.matches) toggle("list", true); $("search").focus(); },
  next: () => { const id = list.neighbour(1); if (id) go(id); },
  previous: () => { const id = list.neighbour(-1); if (id) go(id); },
  parent: () => { if (!$("parent").hidden) location.hash = $("parent").hash; },
  panel: () => { if (!hasPanel.matches) toggle("panel"); else $("panel").querySelector("a, button")?.focus(); },
  stop: () => { if (!$("stop").hidden) change("cancel", "Stopping"); },
  end: () => conversation?.toEnd(),
  help: () => $("help").showModal(),
  close: closeDrawers,
});
document.body.dataset.keys = keyboard.isOff ? "off" : "on";
start();
