"use strict";
// Every text goes through textContent, so ids and titles are shown as they are and never run.
(function () {
  const data = JSON.parse(document.getElementById("lookup-data").textContent);
  const input = document.getElementById("lookup-user");
  const answer = document.getElementById("lookup-answer");
  const byUser = new Map();
  data.requests.forEach((request, at) => {
    const user = String(request.user);
    byUser.set(user, [...(byUser.get(user) || []), at]);
  });

  function element(tag, text, parent, kind) {
    const made = document.createElement(tag);
    made.textContent = text;
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
    const item = data.items[at];
    const kinds = item.categories.filter((one) => one).join(", ");
    return (item.title || String(item.item_id)) + (kinds ? " (" + kinds + ")" : "");
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

  function look() {
    const user = input.value.trim();
    answer.textContent = "";
    if (!user) return;
    const found = byUser.get(user);
    if (found) found.forEach((at) => show(data.requests[at]));
    else element("p", "No request of user " + user + " in this page. It holds ids like " + [...byUser.keys()].slice(0, 3).join(", ") + ".", answer);
  }

  const options = document.getElementById("lookup-users");
  byUser.forEach((_, user) => { element("option", "", options).value = user; });
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
