// Renders a part of Markdown. It only makes elements and text nodes; pictures become links, and only addresses
// of the web and of mail become links.

import { h, plain } from "./dom.js";
import { ENTITIES } from "./entities.js";

const DEEPEST = 8;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(?:\s+|$)/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const INDENTED = /^(?: {4}|\t)/;
const ENTITY = /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z][a-z0-9]{1,31}));/gi;
const WEB = /^(?:https?:\/\/|mailto:)[^\s<>"]+$/i;

/** Return the elements of a Markdown text. */
export function markdown(text) {
  return blocks(plain(text).split("\n"), 0);
}

/** Return how much of a text ends with a finished block, so that more text does not change its elements. */
export function finishedLength(text) {
  let place = 0, finished = 0, fence = "";
  for (const line of text.split("\n").slice(0, -1)) {
    place += line.length + 1;
    const found = line.match(FENCE);
    if (fence) {
      if (line.trim().startsWith(fence)) fence = "";
    } else if (found) fence = found[1];
    else if (!line.trim() && !/^(?:\s|[-*+]|\d)/.test(text.slice(place, place + 1) || " ")) finished = place;
  }
  return finished;
}

function blocks(lines, depth) {
  const made = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) { at++; continue; }
    const [element, next] = readFence(lines, at) ?? readHeading(lines, at) ?? readIndented(lines, at)
      ?? (depth < DEEPEST ? readQuote(lines, at, depth) ?? readList(lines, at, depth) : null)
      ?? readTable(lines, at) ?? readParagraph(lines, at);
    made.push(element);
    at = next;
  }
  return made;
}

function readFence(lines, at) {
  const found = lines[at].match(FENCE);
  if (!found) return null;
  const [, mark, language] = found;
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(mark) && !lines[end].trim().slice(mark.length).replaceAll(mark[0], ""))) end++;
  return [codeBlock(lines.slice(at + 1, end).join("\n"), language), end + 1];
}

function codeBlock(text, language) {
  const label = language ? `Code, ${language}` : "Code";
  const copy = h("button", { class: "copy", type: "button", text: "Copy", onclick: (event) => copyText(event.target, text) });
  return h("div", { class: "code" }, h("pre", { tabindex: "0", "aria-label": label }, h("code", { text })), copy);
}

async function copyText(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

function readHeading(lines, at) {
  if (RULE.test(lines[at])) return [h("hr"), at + 1];
  const found = lines[at].match(HEADING);
  // The page has h1 and h2 itself.
  return found && [h(`h${Math.min(6, found[1].length + 2)}`, {}, inline(found[2].replace(/\s#+\s*$/, ""))), at + 1];
}

function readIndented(lines, at) {
  if (!INDENTED.test(lines[at])) return null;
  let end = at;
  while (end < lines.length && (INDENTED.test(lines[end]) || !lines[end].trim())) end++;
  const text = lines.slice(at, end).map((line) => line.replace(INDENTED, "")).join("\n").trimEnd();
  return [codeBlock(text, ""), end];
}

function readQuote(lines, at, depth) {
  if (!QUOTE.test(lines[at])) return null;
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [h("blockquote", {}, blocks(inner, depth + 1)), end];
}

function readList(lines, at, depth) {
  const first = lines[at].match(ITEM);
  if (!first) return null;
  const isOrdered = /\d/.test(first[2]), level = first[1].length;
  const items = [];
  let end = at;
  while (end < lines.length) {
    const found = lines[end].match(ITEM);
    if (!found || found[1].length !== level || /\d/.test(found[2]) !== isOrdered || RULE.test(lines[end])) break;
    const width = found[0].length, inner = [lines[end].slice(width)];
    end++;
    while (end < lines.length && belongsToItem(lines, end, level)) {
      const indent = lines[end].match(/^\s*/)[0].length;
      inner.push(lines[end].slice(Math.min(width, indent)));
      end++;
    }
    items.push(inner);
  }
  const isTight = !items.some((inner) => inner.slice(0, -1).some((line) => !line.trim()));
  const made = items.map((inner) => h("li", {}, isTight ? tight(blocks(inner, depth + 1)) : blocks(inner, depth + 1)));
  return [h(isOrdered ? "ol" : "ul", { start: isOrdered && first[2] !== "1." ? parseInt(first[2], 10) : null }, made), end];
}

function belongsToItem(lines, at, level) {
  const line = lines[at];
  if (line.trim()) return line.match(/^\s*/)[0].length > level || !(ITEM.test(line) || lines[at - 1].trim() === "" || startsBlock(line));
  const next = lines[at + 1];
  return next !== undefined && (/^\s*/.exec(next)[0].length > level || next.match(ITEM)?.[1].length === level);
}

const tight = (elements) => elements.flatMap((one) => (one.tagName === "P" ? [...one.childNodes] : [one]));

function readTable(lines, at) {
  if (!lines[at].includes("|") || !DIVIDER.test(lines[at + 1] ?? "") || !lines[at + 1].includes("-")) return null;
  const aligned = cells(lines[at + 1]).map((one) => (one.endsWith(":") ? (one.startsWith(":") ? "middle" : "right") : null));
  let end = at + 2;
  while (end < lines.length && lines[end].trim() && lines[end].includes("|")) end++;
  const row = (line, tag) => h("tr", {}, cells(line).slice(0, aligned.length)
    .map((one, place) => h(tag, { class: aligned[place], scope: tag === "th" ? "col" : null }, inline(one))));
  const body = lines.slice(at + 2, end).map((line) => row(line, "td"));
  const table = h("table", {}, h("thead", {}, row(lines[at], "th")), h("tbody", {}, body));
  return [h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, table), end];
}

const cells = (line) => line.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/)
  .map((one) => one.trim().replaceAll("\\|", "|"));

const startsBlock = (line) => FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || RULE.test(line);

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end]) && !ITEM.test(lines[end])) end++;
  const made = [];
  lines.slice(at, end).forEach((line, place) => {
    if (place) made.push(h("br"));
    made.push(...inline(line.trim()));
  });
  return [h("p", {}, made), end];
}

// One step of the inline text. No alternative can match in two ways, so the time is linear in the line, except
// for a mark without an end, which is limited by the lengths.
const TOKEN = new RegExp([
  "(?<escaped>\\\\[!-/:-@\\[-`{-~])",
  "(?<entity>&(?:#\\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)",
  "(?<ticks>`+)",
  "(?<link>!?\\[(?<label>[^\\[\\]]{0,500})\\]\\((?<target>[^\\s()]{1,2000}(?:\\([^\\s()]{0,200}\\)[^\\s()]{0,200})?)(?:\\s+\"[^\"]{0,200}\")?\\))",
  "(?<url>\\bhttps?://[^\\s<>\"`]{1,2000})",
  "(?<strong>\\*\\*(?=\\S)(?<bold>[^*]{1,2000}?(?:\\*(?!\\*)[^*]{1,500}?){0,4})\\*\\*)",
  "(?<em>(?<![\\w*])\\*(?=[^\\s*])(?<italic>[^*]{1,1000}?)(?<=\\S)\\*(?!\\*)|(?<!\\w)_(?=[^\\s_])(?<under>[^_]{1,1000}?)(?<=\\S)_(?!\\w))",
  "(?<strike>~~(?=\\S)(?<struck>[^~]{1,1000})~~)",
].join("|"), "g");

function inline(text, depth = 0) {
  if (depth > 4) return [text];
  const made = [], token = new RegExp(TOKEN);
  let at = 0;
  const put = (...nodes) => made.push(...nodes);
  for (let found = token.exec(text); found; found = token.exec(text)) {
    const g = found.groups;
    if (found.index > at) put(text.slice(at, found.index));
    let end = found.index + found[0].length;
    if (g.escaped) put(g.escaped[1]);
    else if (g.entity) put(decode(g.entity));
    else if (g.ticks) {
      const close = closingTicks(text, end, g.ticks);
      if (close < 0) put(g.ticks);
      else {
        put(h("code", { text: text.slice(end, close).replace(/^ (.+) $/, "$1") }));
        end = close + g.ticks.length;
      }
    } else if (g.link) put(link(decode(g.target), g.label ? inline(g.label, depth + 2) : [decode(g.target)], g.link));
    else if (g.url) {
      const url = g.url.replace(/[.,;:!?)\]}'*_]+$/, (tail) => (tail[0] === ")" && g.url.includes("(") ? ")" : ""));
      end = found.index + url.length;
      put(link(decode(url), [decode(url)], url));
    } else if (g.strong) put(h("strong", {}, inline(g.bold, depth + 1)));
    else if (g.em) put(h("em", {}, inline(g.italic ?? g.under, depth + 1)));
    else put(h("s", {}, inline(g.struck, depth + 1)));
    at = token.lastIndex = end;
  }
  if (at < text.length) put(text.slice(at));
  return made;
}

/** Return a text with the characters that its entities name; an unknown name stays. */
function decode(text) {
  return plain(text.replace(ENTITY, (written, decimal, hex, name) => {
    if (name) return ENTITIES.get(name) ?? written;
    const code = parseInt(decimal ?? hex, decimal ? 10 : 16);
    const isCharacter = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    return isCharacter ? String.fromCodePoint(code) : "\ufffd";
  }));
}

function closingTicks(text, from, ticks) {
  for (let place = text.indexOf(ticks, from); place >= 0; place = text.indexOf(ticks, place)) {
    let end = place;
    while (text[end] === "`") end++;
    if (end - place === ticks.length) return place;
    place = end;
  }
  return -1;
}

/** Return a link, or the text as it was written if its target is no address of the web or of mail. */
function link(target, label, written) {
  if (!WEB.test(target)) return written;
  return h("a", { href: target, rel: "noopener noreferrer nofollow", target: "_blank", title: target }, label);
}
