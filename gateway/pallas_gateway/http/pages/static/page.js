// Sends what is written, shows the answer as it comes, keeps other tabs up to date. Everything works without it, too:
// the page is rendered by the server, and each form leads to a page.

const log = document.getElementById("log");
const live = document.getElementById("live");
const pieces = document.getElementById("pieces");
const status = document.getElementById("status");
const composer = document.getElementById("composer");
const message = document.getElementById("message");
const problem = document.getElementById("problem");
const tabs = new BroadcastChannel("pallas chat");
let stream = null;

// Asks for a part of the page; who is logged out is led to where one logs in.
async function ask(url, options = {}) {
  const answer = await fetch(url, { ...options, headers: { accept: "application/json", ...options.headers } });
  if (answer.status === 401) location.reload();
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => null);
  throw new Error(said?.error?.message ?? `The gateway answers with status ${answer.status}.`);
}

function localTimes(root) {
  for (const time of root.querySelectorAll("time")) {
    const moment = new Date(time.dateTime);
    const style = time.closest("nav") ? { dateStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" };
    time.textContent = moment.toLocaleString([], style);
  }
}

function complain(error) {
  problem.textContent = error === null ? "" : `${error.message ?? error}`;
  problem.hidden = error === null;
}

function isAtEnd() {
  return innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
}

function toEnd() {
  scrollTo(0, document.documentElement.scrollHeight);
}

function setRunning(isRunning) {
  live.hidden = !isRunning;
  live.toggleAttribute("aria-busy", isRunning);
  document.getElementById("stop").hidden = !isRunning;
  document.getElementById("send").disabled = isRunning;
}

// --- the conversation ---

async function refresh() {
  // From the last message but one: a turn that is tried again changes what becomes of the one before.
  const asked = [...log.querySelectorAll("article.you")];
  const last = asked.at(-2) ?? asked.at(-1);
  const from = last ? `&from=${last.id.slice(1)}` : "";
  const said = await (await ask(`chat/messages?thread=${log.dataset.thread}${from}`)).json();
  const follows = isAtEnd();
  while (last && log.lastChild !== last) log.lastChild.remove();
  if (last) last.remove();
  else log.replaceChildren();
  log.insertAdjacentHTML("beforeend", said.messages);
  localTimes(log);
  const retry = document.getElementById("retry");
  if (retry) retry.hidden = !said.canRetry;
  setRunning(said.isRunning);
  if (said.isRunning) follow();
  if (follows) toEnd();
}

async function refreshList() {
  const query = new URLSearchParams({ thread: log?.dataset.thread ?? "", q: document.getElementById("q").value });
  const answer = await ask(`chat/threads?${query}`, { headers: { accept: "text/html" } });
  const list = document.getElementById("threads");
  list.outerHTML = await answer.text();
  localTimes(document.getElementById("threads"));
}

// --- an answer while it is spoken ---

function follow() {
  if (stream) return;
  stream = new EventSource(`chat/turn?thread=${log.dataset.thread}`);
  status.textContent = status.dataset.busy;
  stream.onmessage = (event) => {
    const told = JSON.parse(event.data);
    if (told.end) return void ended(told.refused);
    const follows = isAtEnd();
    show(told.first, told.pieces);
    if (follows) toEnd();
  };
  // It comes again by itself, unless the answer is over (204) or nobody is logged in any more.
  stream.onerror = () => stream?.readyState === EventSource.CLOSED && ended();
}

function show(first, shown) {
  const open = new Set([...pieces.querySelectorAll("details[open]")].map((each) => each.dataset.call));
  while (pieces.children.length > first) pieces.lastElementChild.remove();
  pieces.insertAdjacentHTML("beforeend", shown.join(""));
  for (const each of pieces.querySelectorAll("details")) each.open ||= open.has(each.dataset.call);
}

async function ended(refused = null) {
  stream.close();
  stream = null;
  status.textContent = status.dataset.done;
  if (refused) complain(refused);
  try {
    await refresh();
    pieces.replaceChildren();
    await refreshList();
  } catch (error) {
    complain(refused ?? error);
  }
}

// --- what the person does ---

async function send(form, data) {
  complain(null);
  try {
    const { thread } = await (await ask(form.action, { method: "POST", body: data })).json();
    if (form === composer) {
      composer.reset();
      resize();
    }
    if (!log.dataset.thread) return void location.replace(`chat?thread=${thread}`);
    await refresh();
    toEnd();
    tabs.postMessage(thread);
    refreshList();
  } catch (error) {
    complain(error);
    message.focus();
  }
}

function resize() {
  message.style.height = "auto";
  message.style.height = `${Math.min(message.scrollHeight + 2, innerHeight / 2)}px`;
}

if (composer) {
  composer.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = event.submitter;
    const data = new FormData(composer);
    if (button?.id === "stop") return void ask(button.formAction, { method: "POST", body: data }).catch(complain);
    if (stream || (!message.value.trim() && !document.getElementById("images").files.length)) return;
    send(composer, data);
  });
  message.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    document.getElementById("send").click();
  });
  message.addEventListener("input", resize);
  message.addEventListener("paste", (event) => {
    const input = document.getElementById("images");
    const found = [...event.clipboardData.files].filter((file) => input.accept.includes(file.type));
    if (!found.length) return;
    const all = new DataTransfer();
    for (const file of [...input.files, ...found]) all.items.add(file);
    input.files = all.files;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && stream) document.getElementById("stop").click();
  });
}

document.getElementById("retry")?.addEventListener("submit", (event) => {
  event.preventDefault();
  send(event.target, new FormData(event.target));
});

document.getElementById("delete")?.addEventListener("submit", (event) => {
  if (!confirm("Delete this conversation? It cannot be brought back.")) event.preventDefault();
});

if (log?.dataset.thread) {
  tabs.addEventListener("message", (event) => {
    if (event.data === log.dataset.thread && !stream) refresh().catch(complain);
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !stream) refresh().catch(complain);
  });
  if ("running" in log.dataset) follow();
  if (!location.hash) toEnd();
}
tabs.addEventListener("message", () => refreshList().catch(() => {}));
localTimes(document);
