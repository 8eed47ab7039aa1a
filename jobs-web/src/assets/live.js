// Keeps the marked parts of a page fresh, and adds keys. Every page works without this script.
//
// A part is an element with `data-live` and an id. It is compared with the same part of a fresh copy of the page,
// and only what differs is changed: so focus, open details and typed text stay. A part with selected text or
// ticked rows is left alone.
"use strict";

const EVERY = 2000, PATIENCE = 3 * EVERY;
const $ = (choice, root = document) => root.querySelector(choice);
const all = (choice, root = document) => [...root.querySelectorAll(choice)];
const ticked = (root) => all("tbody input[type=checkbox]:checked", root);

/* Shows what only works with a script. */
const show = (root) => all("[data-script]", root).forEach((element) => { element.hidden = false; });

/* Says each time in the zone of the reader too. */
const zoned = (root) => all("time[title]", root).forEach((time) => {
  const at = new Date(time.dateTime);
  if (!time.title.includes("·")) time.title += ` · ${at.toLocaleString(undefined, { timeZoneName: "short" })}`;
});

/* Makes `from` equal to `to`. Rows are known by `data-key`, so a row that moves is the same row. */
function morph(from, to) {
  if (from.dataset?.sent) return;
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && name !== "open") from.setAttribute(name, value);
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name);
  }
  const keys = new Set([...to.children].map((child) => child.dataset.key));
  const rows = new Map();
  for (const child of [...from.children]) {
    const key = child.dataset.key;
    if (key !== undefined && !keys.has(key)) child.remove();
    else if (key !== undefined) rows.set(key, child);
  }
  let at = from.firstChild;
  for (const node of [...to.childNodes]) {
    const key = node.dataset?.key;
    const mine = key === undefined ? at : rows.get(key);
    rows.delete(key);
    if (mine && mine.nodeName === node.nodeName && mine.dataset?.key === key) {
      if (mine === at) at = at.nextSibling;
      else from.insertBefore(mine, at);
      morph(mine, node);
    } else {
      from.insertBefore(document.importNode(node, true), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

let answered = Date.now(), seen = answered, asking = false, problem = "the server does not answer";

async function refresh() {
  asking = true;
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(10000), headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const why = answer.status === 404 ? `says: ${$("main p", fresh)?.textContent}` : `answers with the status ${answer.status}`;
    if (!answer.ok) throw new Error(`the server ${why}`);
    show(fresh);
    zoned(fresh);
    const focused = document.activeElement, selection = getSelection();
    for (const part of still ? [] : all("[data-live]")) {
      const to = fresh.getElementById(part.id);
      const selected = !selection.isCollapsed && selection.containsNode(part, true);
      if (to && !selected && !ticked(part).length) morph(part, to);
    }
    if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    if (!still) answered = Date.now();
  } catch (error) {
    problem = error.message.startsWith("the server") ? error.message : "the server does not answer";
  }
  asking = false;
  tell();
}

/* Says when the figures are old. */
function tell() {
  const age = Date.now() - answered, stale = $("#stale");
  stale.hidden = Date.now() - Math.max(answered, seen) < PATIENCE;
  if (!stale.hidden) stale.textContent = `These figures are ${Math.round(age / 1000)} seconds old: ${problem}.`;
}

let still = false;

/* The page stands still, or goes on. */
function stop() {
  const button = $("[data-stop]");
  if (!button) return;
  still = !still;
  button.setAttribute("aria-pressed", still);
  if (still) {
    $("#stale").hidden = true;
    return;
  }
  seen = Date.now();
  tick();
}

const tick = () => {
  if (document.hidden || still) return;
  tell();
  if (!asking) refresh();
};

/* A form of an action is sent once, and its buttons show it. The browser has read the form when they are disabled. */
addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
  setTimeout(() => all("button", form).forEach((button) => { button.disabled = true; }));
});

/* A page that the browser has kept has forms that were sent. */
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

/* The link to a page has no outcome of an action in it. */
if ($("#outcome")) {
  const here = new URL(location.href);
  here.searchParams.delete("said");
  history.replaceState(null, "", here);
}

/* Moves to the next or the previous row of a list. */
function step(by) {
  const links = all("main tbody [data-row]");
  const at = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
  links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
}

const KEYS = {
  "/": () => { if ($("#search")) $("#search").select(); else $("[data-search]")?.click(); },
  j: () => step(1),
  k: () => step(-1),
  x: () => $("input[type=checkbox]", document.activeElement.closest("tbody tr") ?? document.createElement("p"))?.click(),
  s: () => stop(),
  "?": () => $("#keys").showModal(),
};

addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=checkbox]), select, textarea, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});
/* Copies a text: the whole of a download, or what an element shows. A page without TLS has no clipboard, and a browser
   may refuse it: then the element is selected. */
async function copy(button) {
  const of = $(button.dataset.copy), whole = button.dataset.whole;
  try {
    const answer = whole && await fetch(whole);
    if (answer && !answer.ok) throw new Error(`the server answers with the status ${answer.status}`);
    await navigator.clipboard.writeText(answer ? await answer.text() : of.textContent);
    button.firstChild.data = "Copied";
  } catch {
    getSelection().selectAllChildren(of);
    button.firstChild.data = "Selected";
  }
  setTimeout(() => { button.firstChild.data = "Copy"; }, 4000);
}

addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
  if (event.target.closest("[data-keys]")) KEYS["?"]();
  if (event.target.closest("[data-stop]")) stop();
});
addEventListener("change", (event) => {
  if (event.target.matches("[data-all]")) {
    all("tbody input[type=checkbox]").forEach((box) => { box.checked = event.target.checked; });
  }
  counted();
});

/* Says how many rows are selected. Without any, there is nothing to change. */
function counted() {
  const boxes = ticked(document).length;
  all("[data-count]").forEach((count) => { count.textContent = boxes ? `${boxes}; the list stands still` : ""; });
  all("#some button").forEach((button) => { button.disabled = !boxes; });
}

show(document);
zoned(document);
counted();
if (location.hash === "#search") $("#search")?.focus();
if ($("[data-live]")) {
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { seen = Date.now(); tick(); } });
  setInterval(tick, EVERY);
}
