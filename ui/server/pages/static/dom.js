// Builds elements. Every text becomes a text node, so no text can become markup.

const SPECIAL = { class: "className", text: "textContent" };

/** Return an element. `given` has attributes, and functions for events: `{onclick: ...}`. */
export function h(tag, given = {}, ...content) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in SPECIAL) made[SPECIAL[name]] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...content.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return made;
}

export const $ = (id) => document.getElementById(id);

// Characters without a glyph and those that reverse the reading order could hide what a text says.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Return a text in which control characters are visible. */
export function plain(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value ?? "");
  return text.replace(/\r\n?/g, "\n").replace(HIDDEN, "\ufffd");
}

/** Return the first characters of a text, with three dots if it is longer. */
export function shorten(text, most) {
  const characters = [...text.slice(0, most * 2 + 2)];
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}\u2026` : text;
}

const MINUTE_S = 60, HOUR_S = 3600, DAY_S = 86400;

/** Return how long ago a time was, in few characters. */
export function ago(time) {
  const seconds = Math.max(0, (Date.now() - new Date(time).getTime()) / 1000);
  if (seconds < MINUTE_S) return "now";
  if (seconds < HOUR_S) return `${Math.floor(seconds / MINUTE_S)} min`;
  if (seconds < DAY_S) return `${Math.floor(seconds / HOUR_S)} h`;
  if (seconds < 30 * DAY_S) return `${Math.floor(seconds / DAY_S)} d`;
  return new Date(time).toLocaleDateString();
}

export function duration(ms) {
  if (ms < 1000) return `${ms} ms`;
  if (ms < MINUTE_S * 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

export function bytes(count) {
  if (count < 1000) return `${count} B`;
  return count < 1e6 ? `${(count / 1000).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

/** Return a function that runs `work` once, `wait` ms after the first of several calls. */
export function gather(work, wait) {
  let timer = 0;
  const later = () => {
    if (!timer) timer = setTimeout(() => { timer = 0; work(); }, wait);
  };
  later.cancel = () => { clearTimeout(timer); timer = 0; };
  return later;
}

let waiting = "", announcing = 0;

/** Let a screen reader say a text. Pieces that come quickly are said together. */
export function announce(text) {
  waiting = `${waiting} ${text}`.trim().slice(-2000);
  if (announcing) return;
  announcing = setTimeout(() => {
    announcing = 0;
    $("announcer").textContent = waiting;
    waiting = "";
  }, 700);
}
