"use strict";
// Every text goes through textContent, so ids and titles are shown as they are and never run.
(function () {
  const data = JSON.parse(document.getElementById("lookup-data").textContent);
  const item = (at) => record(data.items, at);
  const request = (at) => record(data.requests, at);
  const OPTIONS = 50; // ids offered below the input
  // The same characters as in `shortlist.errors.CONTROLS`.
  const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/gu;
  const input = document.getElementById("lookup-user");
  const answer = document.getElementById("lookup-answer");
  const options = document.getElementById("lookup-users");
  const byUser = new Map();
  const userColumn = data.requests.columns.indexOf("user");
  data.requests.rows.forEach((row, at) => {
    const user = String(row[userColumn]);
    byUser.set(user, [...(byUser.get(user) || []), at]);
  });

  function record(table, at) {
    return Object.fromEntries(table.columns.map((name, column) => [name, table.rows[at][column]]));
  }

  function visible(text) {
    return text.replace(CONTROLS, (one) => "\\u" + one.charCodeAt(0).toString(16).padStart(4, "0"));
  }

  function element(tag, text, parent, kind) {
    const made = document.createElement(tag);
    made.textContent = visible(text);
    if (kind) made.className = kind;
    parent.appendChild(made);
    return made;
  }

  function table(heads, rows, parent) {
    const box = element("div", "", parent, "scroll");
    const made = element("table", "", box);
    const head = element("tr", "", element("thead", "", made));
    heads.forEach((text) => element("th", text, head));
    const body = element("tbody", "", made);
    rows.forEach((row) => {
      const line = element("tr", "", body, row.kind);
      row.cells.forEach((text) => element("td", text, line));
    });
  }

  function title(at) {
    const { item_id, title, categories } = item(at);
    const kinds = categories.filter((one) => one).join(", ");
    return (title || String(item_id)) + (kinds ? " (" + kinds + ")" : "");
  }

  function fate(request, at) {
    const stage = request.lost_at[at];
    if (stage < 0) return "returned at place " + (request.slate.indexOf(request.relevant[at]) + 1);
    const name = data.stages[stage];
    if (request.removed[at]) return "removed by " + name;
    if (stage === 0 && !request.nominated_by[at].length) return "not nominated";
    return (data.kinds[stage] === "selector" ? "not selected by " : "cut at ") + name;
  }

  function show(request) {
    const hits = request.lost_at.filter((stage) => stage < 0).length;
    element("h3", "User " + request.user, answer);
    element("p", hits + " of " + request.n_relevant + " relevant items are in the slate.", answer);
    element("h4", "Relevant items", answer);
    table(["item", "what happened", "nominated by"], request.relevant.map((item, at) => ({
      kind: request.lost_at[at] < 0 ? "hit" : "",
      cells: [title(item), fate(request, at), request.nominated_by[at].map((one) => data.nominators[one]).join(", ") || "–"],
    })), answer);
    element("h4", "Slate", answer);
    const relevant = new Set(request.relevant);
    table(["place", "item", "relevant"], request.slate.map((item, at) => ({
      kind: relevant.has(item) ? "hit" : "",
      cells: [String(at + 1), title(item), relevant.has(item) ? "yes" : ""],
    })), answer);
    element("h4", "Candidates after each stage", answer);
    table(data.stages, [{ kind: "", cells: request.candidates.map(String) }], answer);
    const shown = request.history.length;
    const some = shown < request.events ? "the latest " + shown + " of " + request.events : "all " + shown;
    element("h4", "History, latest first (" + some + ")", answer);
    const list = element("ol", "", answer);
    request.history.forEach((item) => element("li", title(item), list));
  }

  function offer(user) {
    options.textContent = "";
    const close = [...byUser.keys()].filter((one) => one.startsWith(user)).slice(0, OPTIONS);
    close.forEach((one) => { element("option", "", options).value = one; });
  }

  function look() {
    const user = input.value.trim();
    answer.textContent = "";
    offer(user);
    if (!user) return;
    const found = byUser.get(user);
    const all = data.requests.rows.length === data.total;
    const some = all ? " in this page." : " among those kept in this page; others were left out, see above.";
    if (found) found.forEach((at) => show(request(at)));
    else element("p", "No request of user " + user + some + " It holds ids like " + [...byUser.keys()].slice(0, 3).join(", ") + ".", answer);
  }

  offer("");
  input.addEventListener("input", look);
  if (location.hash.startsWith("#user=")) {
    input.value = decodeURIComponent(location.hash.slice("#user=".length));
    look();
  }
  document.getElementById("lookup-next").addEventListener("click", () => {
    const users = [...byUser.keys()];
    input.value = users[(users.indexOf(input.value.trim()) + 1) % users.length] || "";
    look();
  });
})();
