// Keeps the view in step with the supervisor: asks for it, changes what changed, says when nobody answers.
// Copies what is to be pasted. The server renders; this file knows no agent and no figure.

const live = document.getElementById("live");
const lost = document.getElementById("lost");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const TIMEOUT = 5000;
const RETRY = 1000;

let etag = "";
let timer = 0;
let lostSince = null;
let ahead = 0; // milliseconds that the server's clock is ahead of this one

const view = () => document.getElementById("view");
const connect = () => document.getElementById("connect");

async function look() {
  clearTimeout(timer);
  if (document.hidden) return;
  let wait = RETRY;
  try {
    const answer = await fetch("page/view", {
      cache: "no-store",
      headers: etag ? { "If-None-Match": etag } : {},
      signal: AbortSignal.timeout(TIMEOUT),
    });
    ahead = Date.parse(answer.headers.get("date")) - Date.now() || 0;
    if (answer.status !== 304) {
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      show(await answer.text());
      await showConnect();
      etag = answer.headers.get("etag") ?? "";
    }
    found();
    wait = Number(view().dataset.poll) || RETRY;
  } catch {
    miss();
  }
  tellAges();
  timer = setTimeout(look, wait);
}

function show(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("view");
  if (!fresh) throw new Error("no view in the answer");
  if (fresh.dataset.build !== view().dataset.build) {
    location.reload(); // another version of Pallas, with another script
    return;
  }
  morph(view(), fresh);
  document.title = fresh.dataset.title;
}

// How to connect changes with the agents' names and URLs alone, and is asked for only then.
async function showConnect() {
  if (connect().dataset.stamp === view().dataset.connect) return;
  const answer = await fetch("page/connect", { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("connect");
  if (!fresh) throw new Error("nothing about connecting in the answer");
  morph(connect(), fresh);
}

function found() {
  if (lostSince) {
    lostSince = null;
    lost.hidden = true;
    lost.textContent = "";
  }
  say("live", "Live");
}

function miss() {
  if (!lostSince) {
    lostSince = new Date();
    lost.hidden = false;
    lost.textContent = `Connection lost since ${lostSince.toLocaleTimeString()}. What you see is from before; trying again.`;
  }
  say("lost", "Not live");
}

function say(state, word) {
  if (live.dataset.state === state) return;
  live.dataset.state = state;
  live.textContent = word;
}

// --- changing what changed: focus, selection and scroll positions stay ---

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset?.key || "" : "");

function morph(node, fresh) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== fresh.data) node.data = fresh.data;
    return;
  }
  if (node.isEqualNode(fresh)) return;
  if (node.localName === "time" && node.dateTime === fresh.dateTime) return; // its text is an age by now
  copyAttributes(node, fresh);
  let next = node.firstChild;
  const keyed = new Map();
  for (const child of node.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  for (const child of [...fresh.childNodes]) {
    const key = keyOf(child);
    const same = key ? keyed.get(key) : next && !keyOf(next) && next.nodeName === child.nodeName ? next : null;
    if (!same) {
      node.insertBefore(child, next);
    } else {
      if (same === next) next = next.nextSibling;
      else node.insertBefore(same, next);
      morph(same, child);
    }
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

function copyAttributes(node, fresh) {
  const changed = "state" in (node.dataset ?? {}) && node.dataset.state !== fresh.dataset.state;
  for (const { name } of [...node.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") node.removeAttribute(name); // what is open stays open
  }
  for (const { name, value } of fresh.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  if (changed && !calm.matches) {
    const colour = getComputedStyle(node).getPropertyValue("--flash");
    node.animate({ backgroundColor: [colour, "transparent"] }, { duration: 1500, easing: "ease-out" });
  }
}

// --- connecting ---

document.addEventListener("click", ({ target }) => {
  const link = target.closest('a[href^="#connect-"]');
  // Not every browser opens what holds the target of a link.
  if (link) document.getElementById(link.hash.slice(1)).closest("details").open = true;
  const button = target.closest("button.copy");
  if (button) copy(button);
});

async function copy(button) {
  const text = button.parentElement.querySelector("pre");
  let word = "Copied";
  try {
    await navigator.clipboard.writeText(text.textContent);
  } catch {
    // There is no clipboard for a page that came by plain HTTP from another machine.
    getSelection().selectAllChildren(text);
    if (!document.execCommand("copy")) word = "Selected: press Ctrl+C";
  }
  button.textContent = word;
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

// --- ages ---

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function age(seconds) {
  const [unit, letter] = UNITS.find(([unit]) => seconds >= unit) ?? [1, "s"];
  return `for ${Math.max(Math.floor(seconds / unit), 0)} ${letter}`;
}

function tellAges() {
  for (const time of view().querySelectorAll("time")) {
    const moment = new Date(time.dateTime);
    const text = age((Date.now() + ahead - moment) / 1000);
    if (time.textContent !== text) time.textContent = text;
    time.title = moment.toLocaleString();
  }
}

tellAges();
setInterval(tellAges, 1000);
document.addEventListener("visibilitychange", look);
look();
