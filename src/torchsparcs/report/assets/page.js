// The page: which view depends on what, the controls, the tables that never change.
const FIGURES = [
  ["front-figure", frontView, ["budget"]],
  ["architecture-figure", architectureView, ["candidate", "stop"]],
  ["eigenvalue-figure", eigenvalueView, ["candidate", "stop"]],
  ["loss-figure", lossView, ["candidate"]],
  ["score-figure", scoreView, ["candidate"]],
  ["recruited-figure", recruitedView, ["candidate"]],
  ["pruning-figure", pruningView, ["candidate"]],
  ["answers-figure", answersView, ["candidate"]],
  ["reliability-figure", reliabilityView, ["candidate"]],
];

function show(...changes) {
  hideTip();
  for (const [id, view, depends] of FIGURES) {
    if (!depends.some((each) => changes.includes(each))) continue;
    const host = byId(id), hadFocus = host.contains(document.activeElement);
    view(host);
    if (hadFocus) host.querySelector('select, [tabindex="0"]')?.focus({ preventScroll: true });
  }
  markChosenPoint();
  for (const words of [frontWords, architectureWords, trainingWords, eigenvalueWords, pruningWords, answersWords, reliabilityWords, switcherWords]) words();
}

function select(index) {
  stopGrowing();
  if (state.candidate === index || !facts.candidates[index]) return;
  state.candidate = index;
  state.stop = Infinity;
  show("candidate");
}

function switcherWords() {
  const candidate = chosen();
  byId("chosen").value = state.candidate;
  byId("previous").setAttribute("aria-disabled", state.candidate === 0); // they keep the focus
  byId("next").setAttribute("aria-disabled", state.candidate === facts.candidates.length - 1);
  for (const row of byId("candidates").querySelectorAll("tbody tr")) row.classList.toggle("chosen", Number(row.dataset.index) === state.candidate);
  for (const row of document.querySelectorAll("#columns tbody tr")) markRead(row);
  const rule = candidate.rules.find((each) => each !== "linear");
  const pick = typeof candidate.pick === "string" ? `"${candidate.pick}"` : rule ? `"${rule}"` : candidate.pick;
  const folder = facts.folder === null ? "THE FOLDER OF THE SEARCH" : facts.folder;
  byId("snippet").textContent = [
    "from torchsparcs import load_result", "",
    `result = load_result(${JSON.stringify(folder)})`,
    facts.is_table ? "table = ...  # a data frame with the same columns" : "rows = ...  # as the network takes them",
    `answers = result.predict(${facts.is_table ? "table" : "rows"}, pick=${pick})`,
    `network = result.pick(${pick}).network`,
    ...(facts.is_table ? [`module = result.deployed(${pick})  # an nn.Module`] : []),
  ].join("\n");
}

// --- growing ---
let growing = null;
function stopGrowing() {
  clearInterval(growing);
  growing = null;
  byId("play").textContent = "Grow";
}
function grow() {
  if (growing) return stopGrowing();
  const last = stopsOf(chosen()).length;
  if (state.stop >= last) state.stop = 0; // else from where it was stopped
  show("stop");
  byId("play").textContent = "Pause";
  growing = setInterval(() => {
    state.stop += 1;
    show("stop");
    if (state.stop >= last) stopGrowing();
  }, 110);
}

// --- tables ---
function comparisonTable() {
  const bytes = facts.chip ? [facts.bytes_name] : [];
  const number = (value) => value === null ? "–" : whole(value);
  const head = ["", "parameters", "MACs", ...bytes, facts.measure, "layers"].map((words, i) =>
    make("th", { scope: "col", class: i > 0 && words !== "layers" ? "number" : "" }, words));
  const rows = facts.comparison.map((row, i) => make("tr", i ? {} : { class: "first" }, [
    make("th", { scope: "row" }, row.name),
    ...[whole(row.parameters), number(row.macs), ...bytes.map(() => number(row.bytes)), row.score].map((words) => make("td", { class: "number" }, words)),
    make("td", { class: "layers", title: row.architecture }, make("div", {}, row.architecture)),
  ]));
  byId("comparison").append(make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows));
}

function costsTable() {
  if (!facts.costs.length) return byId("costs-table").remove();
  const names = ["cost", "parameters", facts.measure, "columns that cost"];
  const head = names.map((words, i) => make("th", { scope: "col", class: i < 3 ? "number" : "" }, words));
  const rows = facts.costs.map((row) => make("tr", {}, [
    ...[short(row.cost), whole(row.parameters), row.score].map((words) => make("td", { class: "number" }, words)),
    make("td", {}, row.columns || "none"),
  ]));
  byId("costs").append(make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows));
}

function aboutLists() {
  for (const { title, facts: list } of facts.about) {
    const pairs = list.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
    byId("about").append(make("div", {}, [make("h3", {}, title), make("dl", {}, pairs)]));
  }
  if (!facts.columns) return byId("columns-table").remove();
  const { rows, more } = facts.columns;
  byId("columns-summary").textContent = `Columns, and which of them the candidate reads (${whole(rows.length + more)})`;
  const isRelevance = rows.some((row) => row[5] !== null);
  const lines = rows.map(([name, content, from, to, smallest, relevance]) =>
    make("tr", { "data-from": from, "data-to": to }, [make("th", { scope: "row" }, name), make("td", {}, content),
      make("td", {}, smallest === null ? "none" : plural(smallest, "parameter")),
      ...(isRelevance ? [make("td", {}, relevance === null ? "" : relevance.toFixed(2))] : []), make("td")]));
  if (more) lines.push(make("tr", {}, make("td", { colspan: 4 + isRelevance }, `and ${whole(more)} more`)));
  const names = ["column", "content", "smallest network that reads it", ...(isRelevance ? ["relevance by input eigenvalues"] : []), "read"];
  byId("columns").append(make("thead", {}, make("tr", {}, names.map((words) => make("th", { scope: "col" }, words)))), make("tbody", {}, lines));
}

function markRead(row) {
  if (row.dataset.from === undefined) return;
  const layer = chosen().picture.layers[0];
  const [from, to] = [Number(row.dataset.from), Number(row.dataset.to)];
  const reads = layer.per > 1 ? (layer.alive === layer.width ? to > from : null) : layer.index.some((i) => i >= from && i < to);
  row.lastChild.textContent = reads === null ? "" : reads ? "yes" : "no";
}

function controls() {
  byId("chosen").append(...facts.candidates.map((found, index) => make("option", { value: index },
    `${plural(found.parameters, "parameter")}, ${found.score_words}${found.rules.length ? `, ${found.rules.join(", ")}` : ""}`)));
  byId("chosen").addEventListener("change", (event) => select(Number(event.target.value)));
  byId("previous").addEventListener("click", () => select(state.candidate - 1));
  byId("next").addEventListener("click", () => select(state.candidate + 1));
  byId("play").addEventListener("click", grow);
  byId("stop").addEventListener("input", (event) => {
    stopGrowing();
    state.stop = Number(event.target.value);
    show("stop");
  });
  byId("budget-unit").textContent = facts.size;
  byId("budget").value = state.budget || "";
  byId("budget").addEventListener("input", (event) => {
    const asked = Number(event.target.value);
    state.budget = asked > 0 ? asked : null;
    show("budget");
  });
  byId("copy").addEventListener("click", copySnippet);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
  for (const away of ["wheel", "touchmove"]) document.addEventListener(away, hideTip, { passive: true });
}

function copySnippet() {
  const said = (words) => {
    byId("copy").textContent = words;
    setTimeout(() => { byId("copy").textContent = "Copy"; }, 1500);
  };
  const choose = () => { // where the clipboard is closed to files, at least select it
    getSelection().selectAllChildren(byId("snippet"));
    said(document.execCommand("copy") ? "Copied" : "Press Ctrl-C");
  };
  if (!navigator.clipboard) return choose();
  navigator.clipboard.writeText(byId("snippet").textContent).then(() => said("Copied"), choose);
}

candidateTable();
comparisonTable();
costsTable();
aboutLists();
controls();
show("candidate", "stop", "budget");
let width = document.documentElement.clientWidth;
addEventListener("resize", () => {
  if (width === document.documentElement.clientWidth) return;
  width = document.documentElement.clientWidth;
  show("candidate", "stop", "budget");
});
document.documentElement.dataset.ready = "yes";
