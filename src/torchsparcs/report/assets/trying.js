// One row, tried: the network runs here, and every column has the curve of the answer along it.
const CURVE = [150, 46], POINTS = 40, FIRST = 8; // pixels, steps, columns that are shown at once
const usualRow = () => facts.controls.map((control) => control.start);
state.row = usualRow();
state.answer = null; // the class or output that the curves show; by default the likeliest

function runs({ program }, row) {
  const x = program.fields.map((place) => row[place] ?? undefined);
  const y = outputsOf(program, ACTIVATIONS[program.activation], x);
  return facts.classes.length ? probabilitiesOf(y) : boundedBy(program.ends, y);
}
const answerNames = () => (facts.classes.length ? facts.classes : facts.outputs);
const roomy = (value) => Number(value.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 12 }).replace("-", "−");
const answerWords = (value) => (facts.classes.length ? `${(100 * value).toFixed(1)}\u00a0%` : roomy(value));
const likeliest = (answers) => (facts.classes.length === 2 ? 1 : facts.classes.length ? answers.indexOf(Math.max(...answers)) : 0);
const shownAnswer = (answers) => Math.min(state.answer ?? likeliest(answers), answers.length - 1);
const TOGETHER = 0.25, GRID = 6; // of the scale, from where on two columns are said to act together; values of each that are looked at

const valuesOf = ({ values, low, high }) => values ?? Array.from({ length: POINTS + 1 }, (_, i) => low + ((high - low) * i) / POINTS);
const valueWords = (control, value) => (value === null ? "missing" : control.texts ? control.texts[control.values.indexOf(value)] : roomy(value));

function curveOf(candidate, row, place, answer) {
  return valuesOf(facts.controls[place]).map((value) => {
    const other = [...row];
    other[place] = value;
    return [value, runs(candidate, other)[answer]];
  });
}
const swing = (curve) => Math.max(...curve.map(([, y]) => y)) - Math.min(...curve.map(([, y]) => y));

// Columns by place that act together: where one is, the other's curve has another shape. Of numbers only: shares of classes always bend.
function actTogether(candidate, places, answer) {
  const together = new Map(places.map((place) => [place, []])), usual = usualRow();
  if (facts.classes.length) return together;
  const few = (place) => { const all = valuesOf(facts.controls[place]).filter((value) => value !== null); return all.filter((_, i) => i % Math.ceil(all.length / GRID) === 0 || i === all.length - 1); };
  const at = (changes) => { const row = [...usual]; for (const [place, value] of changes) row[place] = value; return runs(candidate, row)[answer]; };
  const least = TOGETHER * Math.max(...places.map((place) => swing(curveOf(candidate, usual, place, answer))));
  places.forEach((one, i) => places.slice(i + 1).forEach((other) => {
    const [first, ...as] = few(one), [start, ...bs] = few(other), corner = at([[one, first], [other, start]]);
    const isBent = as.some((a) => bs.some((b) => Math.abs(at([[one, a], [other, b]]) - at([[one, a], [other, start]]) - at([[one, first], [other, b]]) + corner) > least));
    if (isBent) { together.get(one).push(other); together.get(other).push(one); }
  }));
  return together;
}

let tried = []; // of the columns that are shown: place, curve drawing, words of the value
function tryView(host) {
  const candidate = chosen(), { program } = candidate;
  byId("try").hidden = !facts.is_table;
  if (!facts.is_table) return;
  for (const id of ["try-answer", "usual"]) byId(id).hidden = !program;
  tried = [];
  if (!program) return host.replaceChildren(make("li", { class: "rest missing" }, "This network is too large to run in the page: take a smaller one, or the code below."));
  const usual = usualRow(), answer = shownAnswer(runs(candidate, state.row));
  state.curves = answer; // it stays while the row changes
  const ranked = [...new Set(program.fields)].map((place) => [place, swing(curveOf(candidate, usual, place, answer))]).sort((a, b) => b[1] - a[1]).map(([place]) => place);
  const places = ranked.filter((place) => program.numbers.length + program.told.length + program.codes.length && place !== undefined);
  const together = actTogether(candidate, places.slice(0, FIRST), answer);
  const items = places.map((place) => tryColumn(place, together.get(place) || []));
  const rest = items.slice(FIRST);
  host.replaceChildren(...items.slice(0, FIRST));
  if (rest.length) host.append(make("li", { class: "rest" }, make("details", {}, [make("summary", {}, `${plural(rest.length, "column")} more`), make("ul", {}, rest)])));
  answerChoice();
  tryUpdate();
}

function tryColumn(place, others) {
  const control = facts.controls[place], id = `try-${place}`, label = make("label", { for: id }, control.field);
  const value = make("output", { for: id }), drawing = draw("svg", { class: "curve", role: "img" });
  const set = (given) => { state.row[place] = given; tryUpdate(); };
  let input;
  if (control.texts) {
    input = make("select", { id }, control.texts.map((words, i) => make("option", { value: i }, words)));
    input.value = control.values.indexOf(state.row[place]);
    input.addEventListener("change", () => set(control.values[Number(input.value)]));
  } else {
    input = make("input", { id, type: "range", min: control.low, max: control.high, step: control.step });
    input.value = state.row[place] ?? control.start;
    input.addEventListener("input", () => { gap.checked = false; set(Number(input.value)); });
  }
  const gap = make("input", { type: "checkbox" });
  gap.checked = state.row[place] === null;
  gap.addEventListener("change", () => set(gap.checked ? null : Number(input.value)));
  tried.push({ place, drawing, value, input });
  return make("li", {}, [make("div", {}, [label, value, input, ...(control.may_be_missing ? [make("label", { class: "gap" }, [gap, " missing"])] : []),
    ...(others.length ? [make("span", { class: "together" }, `depends on ${others.map((other) => facts.controls[other].field).join(", ")}`)] : [])]), drawing]);
}

// Of several classes or outputs, which one the curves show.
function answerChoice() {
  const names = answerNames();
  const choice = make("select", { id: "try-which", "aria-label": "Answer that the curves show" }, names.map((name, i) => make("option", { value: i }, name)));
  choice.addEventListener("change", () => { state.answer = state.curves = Number(choice.value); tryUpdate(); });
  byId("try-note").replaceChildren("Set the values of a row: the network runs in this page. A curve shows the answer for this row as one column changes and the others stay, all on one scale", make("span", { id: "try-scale" }), "; with other values in the row it may look different. Columns that move the answer of a usual row most come first. Circles are the entries of a list.",
    ...(names.length > 1 ? [" They show ", choice] : []));
}

function tryUpdate() {
  const candidate = chosen();
  if (!candidate.program) return;
  const answers = runs(candidate, state.row), answer = state.curves, names = answerNames();
  if (byId("try-which")) byId("try-which").value = answer;
  const order = [...answers.keys()].sort((a, b) => (facts.classes.length ? answers[b] - answers[a] : a - b)).slice(0, 4);
  byId("try-answer").replaceChildren(...order.map((place, i) => make("p", { class: i ? "" : "first" }, [
    make("span", {}, facts.classes.length ? names[place] : `predicted ${names[place]}`), make("strong", {}, answerWords(answers[place])),
    ...(facts.classes.length ? [draw("svg", { class: "share", "aria-hidden": "true", viewBox: "0 0 100 8", preserveAspectRatio: "none" }, [draw("line", { x1: 0, x2: 100, y1: 7.5, y2: 7.5 }), draw("rect", { width: (100 * answers[place]).toFixed(2), height: 8 })])] : [make("span")])])));
  const curves = tried.map(({ place }) => curveOf(candidate, state.row, place, answer));
  const [low, high] = span([answers[answer], ...curves.flat().map(([, y]) => y)]);
  byId("try-scale").textContent = `, ${answerWords(low)} to ${answerWords(high)}`;
  tried.forEach(({ place, drawing, value, input }, i) => {
    const words = valueWords(facts.controls[place], state.row[place]);
    value.textContent = facts.controls[place].texts ? "" : words;
    if (input.type === "range") input.setAttribute("aria-valuetext", words);
    drawCurve(drawing, facts.controls[place], curves[i], [low, high], state.row[place], answers[answer]);
  });
}

function drawCurve(drawing, control, curve, [low, high], value, answer) {
  const [width, height] = CURVE, toY = linear(low, high === low ? low + 1 : high, height - 7, 7);
  const toX = linear(0, curve.length - 1, 8, width - 8), across = control.texts ? control.values.indexOf(value)
    : ((value ?? control.start) - control.low) / (control.high - control.low) * POINTS;
  const points = curve.map(([, y], i) => [toX(i), toY(y)]), at = draw("circle", { class: "now", cx: toX(across), cy: toY(answer), r: 5 });
  const ends = [curve[0], curve[curve.length - 1]].map(([x, y]) => `${answerWords(y)} at ${valueWords(control, x)}`);
  fill(drawing, { viewBox: `0 0 ${width} ${height}`, "aria-label": `${control.field}: ${control.texts ? curve.map(([x, y]) => `${answerWords(y)} at ${valueWords(control, x)}`).join(", ") : `from ${ends[0]} to ${ends[1]}`}` }, []);
  drawing.replaceChildren(draw("line", { class: "axis", x1: 0, x2: width, y1: height - 1, y2: height - 1 }),
    ...(control.texts ? points.map(([cx, cy]) => draw("circle", { class: "option", cx, cy, r: 3.5 })) : [draw("path", { class: "line blue", d: pathOf(points) })]), at);
}

function formulaWords() {
  const { formula, parameters } = chosen(), [answer] = facts.outputs;
  byId("formula-part").hidden = !formula.length;
  byId("formula").textContent = formula.join("\n");
  const of = facts.classes.length === 2 ? `It is ${answer} where the evidence e is above 0, with probability 1 / (1 + exp(−e)). ` : facts.classes.length ? "The class with most evidence is predicted, with softmax as probabilities. " : "";
  byId("formula-note").textContent = `${of}[column = text] is 1 where it is so, else 0. All ${plural(parameters, "parameter")}, rounded; what is missing counts as its mean.`;
}
