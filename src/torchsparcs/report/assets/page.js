// The page: which view depends on what, the controls, the tables that never change.
const FIGURES = [
  ["try-columns", tryView, ["candidate"]], // first: it takes half of the width, or none
  ["front-figure", frontView, ["budget"]],
  ["architecture-figure", architectureView, ["candidate", "stop"]],
  ["eigenvalue-figure", eigenvalueView, ["candidate", "stop"]],
  ["loss-figure", lossView, ["candidate"]],
  ["score-figure", scoreView, ["candidate"]],
  ["recruited-figure", recruitedView, ["candidate"]],
  ["pruning-figure", pruningView, ["candidate", "stop"]],
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
  for (const words of [frontWords, architectureWords, trainingWords, eigenvalueWords, pruningWords, answersWords, reliabilityWords, formulaWords, switcherWords]) words();
}

function select(index) {
  stopGrowing();
  if (state.candidate === index || !facts.candidates[index]) return;
  state.candidate = index;
  state.stop = Infinity;
  const before = byId("front").getBoundingClientRect().top;
  show("candidate");
  if (before < 0.8 * innerHeight) scrollBy(0, byId("front").getBoundingClientRect().top - before); // who looks at it keeps it
  if (location.protocol !== "about:") history.replaceState(null, "", addressOf(index)); // not inside a notebook
}

// The address carries the choice: #network=3, as SearchResult.pick has it.
const addressOf = (index) => `#network=${encodeURIComponent(facts.candidates[index].pick)}`;
function followAddress() {
  const named = new URLSearchParams(location.hash.slice(1)).get("network");
  const index = facts.candidates.findIndex(({ pick }) => String(pick) === named);
  if (index >= 0) select(index);
}

function switcherWords() {
  const candidate = chosen();
  byId("chosen").value = state.candidate;
  byId("previous").setAttribute("aria-disabled", state.candidate === 0); // they keep the focus
  byId("next").setAttribute("aria-disabled", state.candidate === facts.candidates.length - 1);
  for (const row of byId("candidates").querySelectorAll("tbody tr")) row.classList.toggle("chosen", Number(row.dataset.index) === state.candidate);
  for (const row of document.querySelectorAll("#columns tbody tr")) markRead(row);
  byId("shown").textContent = state.candidate === facts.picked ? "" :
    `Shown is not the picked network, which the head of the page is about, but one of ${plural(candidate.parameters, "parameter")}, ${facts.measure} ${candidate.score_with_error}` +
    `${candidate.error_words ? `, typical error ${candidate.error_words}` : ""}${candidate.gains_nothing ? "; a smaller one should be as good" : ""}.`;
  const rule = candidate.rules.find((each) => each !== "linear");
  const pick = typeof candidate.pick === "string" ? `"${candidate.pick}"` : rule ? `"${rule}"` : candidate.pick;
  const option = state.candidate === facts.picked ? "" : ` --pick ${candidate.pick}`;
  byId("commands").hidden = !facts.commands.length;
  byId("commands").textContent = facts.commands.map(([start, end]) => `${start}${end && option}${end}`).join("\n");
  byId("flash").textContent = candidate.flash;
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

// --- tables: they are there, and become alive ---
function aliveTables() {
  for (const row of document.querySelectorAll("#candidates tbody tr")) {
    const index = Number(row.dataset.index), cell = row.firstElementChild;
    cell.replaceChildren(make("button", { type: "button", "aria-label": `Show network ${cell.textContent}` }, cell.textContent));
    row.addEventListener("click", () => select(index));
  }
  byId("candidates-table").open = false;
  addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details")) each.open = true; });
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
    `${plural(found.parameters, "parameter")}, ${found.score_words}${[...found.names, ...(found.gains_nothing ? ["no gain expected"] : [])].map((name) => `, ${name}`).join("")}`)));
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
    const within = budgetPick();
    if (within !== null) select(within);
    show("budget");
  });
  byId("copy").addEventListener("click", () => copy("copy", byId("snippet").textContent));
  byId("link").addEventListener("click", () => copy("link", new URL(addressOf(state.candidate), location.href).href));
  byId("usual").addEventListener("click", () => { state.row = usualRow(); show("candidate"); });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
  for (const away of ["wheel", "touchmove"]) document.addEventListener(away, hideTip, { passive: true });
}

function copy(id, words) {
  const usual = byId(id).textContent;
  const answered = (answer) => {
    byId(id).textContent = answer;
    setTimeout(() => { byId(id).textContent = usual; }, 1500);
  };
  const choose = () => { // where the clipboard is closed to files, by a field that is selected
    const field = byId(id).parentNode.appendChild(make("textarea", { class: "unseen", "aria-label": "What is copied" }, words));
    field.select();
    answered(document.execCommand("copy") ? "Copied" : "Press Ctrl-C");
    field.remove();
    byId(id).focus();
  };
  if (!navigator.clipboard) return choose();
  navigator.clipboard.writeText(words).then(() => answered("Copied"), choose);
}

for (const each of document.querySelectorAll(".live")) each.hidden = false;
aliveTables();
controls();
followAddress();
addEventListener("hashchange", followAddress);
show("candidate", "stop", "budget");
let width = document.documentElement.clientWidth;
addEventListener("resize", () => {
  if (width === document.documentElement.clientWidth) return;
  width = document.documentElement.clientWidth;
  show("candidate", "stop", "budget");
});
document.documentElement.dataset.ready = "yes";
