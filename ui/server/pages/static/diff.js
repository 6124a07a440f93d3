// Shows differences of texts line by line.

import { h, plain } from "./dom.js";

const MOST_CELLS = 400_000; // of the table for the longest common lines
const CONTEXT = 3, MOST_LINES = 400;

/** Return the rows `[sign, line]` that turn `before` into `after`. Large texts are replaced as a whole. */
export function compare(before, after) {
  const old = before === "" ? [] : before.split("\n"), now = after === "" ? [] : after.split("\n");
  let first = 0, last = 0;
  while (first < old.length && first < now.length && old[first] === now[first]) first++;
  while (last < old.length - first && last < now.length - first
         && old[old.length - 1 - last] === now[now.length - 1 - last]) last++;
  const same = (lines) => lines.map((line) => [" ", line]);
  const changed = compareMiddle(old.slice(first, old.length - last), now.slice(first, now.length - last));
  return [...same(old.slice(0, first)), ...changed, ...same(old.slice(old.length - last))];
}

function compareMiddle(old, now) {
  if (old.length * now.length > MOST_CELLS) {
    return [...old.map((line) => ["-", line]), ...now.map((line) => ["+", line])];
  }
  const width = now.length + 1, longest = new Uint16Array((old.length + 1) * width);
  for (let a = old.length - 1; a >= 0; a--) {
    for (let b = now.length - 1; b >= 0; b--) {
      longest[a * width + b] = old[a] === now[b]
        ? longest[(a + 1) * width + b + 1] + 1
        : Math.max(longest[(a + 1) * width + b], longest[a * width + b + 1]);
    }
  }
  const rows = [];
  let a = 0, b = 0;
  while (a < old.length || b < now.length) {
    if (a < old.length && b < now.length && old[a] === now[b]) { rows.push([" ", old[a++]]); b++; }
    else if (b >= now.length || (a < old.length && longest[(a + 1) * width + b] >= longest[a * width + b + 1])) {
      rows.push(["-", old[a++]]);
    } else rows.push(["+", now[b++]]);
  }
  return rows;
}

/** Leave out lines that are far from every change. */
function keepNear(rows) {
  const isNear = new Uint8Array(rows.length);
  rows.forEach(([sign], place) => {
    if (sign === " ") return;
    isNear.fill(1, Math.max(0, place - CONTEXT), Math.min(rows.length, place + CONTEXT + 1));
  });
  const kept = [];
  rows.forEach((row, place) => {
    if (isNear[place]) kept.push(row);
    else if (kept.length && kept[kept.length - 1][0] !== "@") kept.push(["@", "\u22ef"]);
  });
  return kept;
}

const CLASSES = { "+": "added", "-": "removed", "@": "hunk", " ": "" };
const SPOKEN = { "+": "added: ", "-": "removed: " };

function show(rows) {
  const shown = rows.slice(0, MOST_LINES).map(([sign, line]) => h(
    "span", { class: `line ${CLASSES[sign]}` },
    h("span", { class: "sign", "aria-hidden": "true", text: sign === "@" ? " " : sign }),
    SPOKEN[sign] && h("span", { class: "unseen", text: SPOKEN[sign] }),
    `${plain(line)}\n`,
  ));
  if (rows.length > MOST_LINES) shown.push(h("span", { class: "line hunk", text: `${rows.length - MOST_LINES} more lines` }));
  return h("pre", { class: "diff", tabindex: "0", "aria-label": "Changes" }, shown);
}

/** Return the difference between two texts. */
export function diffOf(before, after) {
  const isEnded = [before, after].every((text) => text === "" || text.endsWith("\n"));
  const trim = (text) => (isEnded ? text.replace(/\n$/, "") : text);
  return show(keepNear(compare(trim(before), trim(after))));
}

/** Return a difference that is a text already. */
export const diffText = (text) => show(text.trimEnd().split("\n").map((line) => (
  /^(?:---|\+\+\+) /.test(line) ? ["@", line] : "+-@".includes(line[0]) ? [line[0], line[0] === "@" ? line : line.slice(1)] : [" ", line.replace(/^ /, "")]
)));
