// Lines over training and over sizes, histograms of eigenvalues.
function lineChart(host, { height = 210, label, x, y, series, rules = [], marks = [] }) {
  const place = canvas(host, height, label);
  const { box, toX, toY } = axes(place, x, y);
  const frame = draw("clipPath", { id: `${host.id}-frame` }, draw("rect", { x: box.left - 4, y: box.top - 4, width: box.right - box.left + 8, height: box.bottom - box.top + 4 }));
  const inside = draw("g", { "clip-path": `url(#${host.id}-frame)` });
  place.svg.append(frame, inside);
  for (const { at } of rules) {
    place.svg.append(draw("line", { class: "rule", x1: box.left, x2: box.right, y1: toY(at), y2: toY(at) }));
  }
  const named = [...series.filter(({ name }) => name), ...rules.map(({ words }) => ({ name: words, style: "rule" }))];
  if (named.length) {
    host.append(make("ul", { class: "legend" }, named.map(({ name, style }) =>
      sample(draw("path", { class: `line ${style}`, d: "M0 7H18" }), name))));
  }
  for (const { points, style, dots, apart } of series) {
    const drawn = points.filter(([, value]) => value !== null).map(([px, py]) => [toX(px), toY(py)]);
    if (drawn.length > 1 && !apart) inside.append(draw("path", { class: `line ${style}`, d: pathOf(drawn) }));
    if (dots || apart || drawn.length === 1) for (const [cx, cy] of drawn) inside.append(draw("circle", { class: "dots", cx, cy, r: 3 }));
  }
  for (const { at, words } of marks) {
    place.svg.append(withTip(draw("circle", { class: "bar", cx: toX(at[0]), cy: toY(at[1]), r: 5.5 }), words));
  }
}

const span = (values) => [Math.min(...values), Math.max(...values)];
const known = (values) => values.filter((value) => value !== null);

const overTraining = ({ epochs }) => ({ from: epochs[0], to: epochs[epochs.length - 1], name: "epoch", counts: true });

function lossView(host) {
  const growth = growthOf(chosen());
  const losses = growth ? known([...growth.loss, ...growth.validation_loss]) : [];
  if (chosen().member < 0) return host.replaceChildren(); // the note says what it is
  if (!losses.length) return missing(host, "No history of the training is in this run.");
  const [low, high] = span(losses), log = low > 0 && high / low > 5;
  const curve = (values) => values.map((value, i) => [growth.epochs[i], value]);
  const names = growth.validation_loss.length ? ["training", "validation"] : ["", ""];
  lineChart(host, { label: `Loss over ${plural(growth.epochs.length, "epoch")}, from ${short(growth.loss[0])} to ${short(growth.loss[growth.loss.length - 1])}`,
    x: overTraining(growth),
    y: { log, from: log ? low / 1.2 : low - (high - low) * 0.08, to: log ? high * 1.2 : high, name: "loss in training" },
    series: [{ points: curve(growth.loss), style: "blue", name: names[0] }, { points: curve(growth.validation_loss), style: "orange", name: names[1] }] });
}

function scoreView(host) {
  const growth = growthOf(chosen()), scores = growth ? known(growth.score) : [];
  if (!scores.length) return host.replaceChildren(); // a sentence below says where they are
  const [low, high] = span(scores);
  lineChart(host, { label: `${facts.training_measure} on validation data over training`,
    x: overTraining(growth),
    y: scoreAxis(low, high, facts.training_measure),
    series: [{ points: growth.score.map((value, i) => [growth.epochs[i], value]), style: "blue" }] });
}

function recruitedView(host) {
  const growth = growthOf(chosen());
  if (!growth || !growth.recruited.length || !growth.recruited[0].length) return host.replaceChildren();
  const layers = growth.recruited[0].map((_, layer) => growth.recruited.map((counts) => counts[layer]));
  const most = Math.max(1, ...layers.flat());
  const styles = ["blue", "orange", "green"], last = layers.length - 1; // of many layers only the ends are told apart
  const styleOf = (i) => (last < 3 ? { style: styles[i], name: `hidden ${i + 1}` }
    : i === 0 || i === last ? { style: styles[i && 1], name: `hidden ${i + 1}` } : { style: "faint", name: i === 1 ? `hidden 2 to ${last}` : "" });
  lineChart(host, { label: `Recruited ${facts.unit}s over training; at the end ${layers.map((counts, i) => `${counts[counts.length - 1]} in hidden layer ${i + 1}`).join(", ")}`,
    x: overTraining(growth),
    y: { from: 0, to: most * 1.12, counts: true, name: `recruited ${facts.unit}s` },
    series: layers.map((counts, i) => ({ points: counts.map((count, e) => [growth.epochs[e], count]), ...styleOf(i) })) });
}

function trainingWords() {
  const growth = growthOf(chosen());
  const how = chosen().penalty_weight === null ? "" : `, trained with penalty weight ${short(chosen().penalty_weight)}`;
  byId("training-note").textContent = chosen().kept_linear ? "The linear model, fitted as it is: nothing grew."
    : chosen().member < 0 ? "Nothing grew: this is a plain network. Beside training by eigenvalues a search fits ordinary MLPs from random weights, to the targets or to what a teacher says, and keeps what is best at its size."
    : !growth ? ""
    : (facts.is_refitted ? "This candidate, fine-tuned from where the earlier search left it." : `The network this candidate was cut from${how}.`) +
      (known(growth.score).length ? "" : " Scores are taken after training, on rows that were kept aside: they are on the front.");
}

// 1 to 3, 5: of ascending numbers.
function ranges(numbers) {
  const runs = [];
  for (const number of numbers) {
    const run = runs[runs.length - 1];
    if (run && run[1] === number - 1) run[1] = number; else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`)).join(", ");
}

function eigenvalueView(host) {
  const growth = growthOf(chosen());
  byId("eigenvalues").hidden = chosen().member < 0;
  if (!growth || !growth.layers.length) return missing(host, "No eigenvalues were recorded in this run.");
  host.replaceChildren();
  const stop = epochStop();
  const isAsleep = (layer) => layer.recruited.every((count) => count === 0);
  const asleep = growth.layers.flatMap((layer, i) => (isAsleep(layer) ? [i + 1] : []));
  if (asleep.length) host.append(make("p", { class: "note" }, `Hidden ${ranges(asleep)}: exactly zero at every epoch.`));
  growth.layers.forEach((layer, i) => {
    if (isAsleep(layer)) return;
    const place = host.appendChild(make("div", { class: "figure" }));
    const { counts, from, to } = layer.histogram, own = counts[stop], zeros = layer.width - layer.recruited[stop];
    const most = Math.max(4, ...own);
    const words = `${whole(zeros)} of ${whole(layer.width)} exactly zero`;
    const parts = canvas(place, 170, `Eigenvalues of hidden layer ${i + 1}: ${words}`);
    const { box, toX, toY } = axes(parts, { from, to, name: "eigenvalue" },
      { from: 0, to: most * 1.05, counts: true, name: `hidden ${i + 1}` });
    const edge = (bin) => from + (bin * (to - from)) / own.length;
    own.forEach((count, bin) => {
      if (!count) return;
      const x = toX(edge(bin));
      parts.svg.append(withTip(draw("rect", { class: "bar", x: x + 0.5, y: toY(count), width: Math.max(toX(edge(bin + 1)) - x - 1, 1), height: box.bottom - toY(count) }),
        `${plural(count, facts.unit)}\n${short(edge(bin))} to ${short(edge(bin + 1))}`));
    });
    parts.svg.append(text(box.right, 13, words, { "text-anchor": "end", class: "strong" }));
  });
}

function eigenvalueWords() {
  const growth = growthOf(chosen());
  if (!growth || !growth.layers.length) { byId("eigenvalue-note").textContent = ""; return; }
  const stop = epochStop();
  byId("eigenvalue-note").textContent =
    `Epoch ${growth.stops[stop]} of the training, before the cut; the slider of the architecture moves it. A zero is a ${facts.unit} that was not recruited.`;
}

// Score against size while one member was cut down, the others faint.
function pruningView(host) {
  const candidate = chosen(), own = facts.attempts.filter(([member]) => member === candidate.member);
  if (!facts.attempts.length) {
    return missing(host, `The sizes on the way down are not in this run: ${facts.is_refitted ? "the networks were refitted as they are" : "an older version wrote it"}.`);
  }
  const members = [...new Set(facts.attempts.map(([member]) => member))];
  const curve = (member) => facts.attempts.filter(([each]) => each === member).sort((a, b) => a[2] - b[2] || b[1] - a[1]).map(([, , size, score]) => [size, score]);
  const sizes = facts.attempts.map(([, , size]) => size);
  const fronts = known(facts.candidates.map((found) => found.score));
  const y = scoreAxis(...span([...fronts, facts.tolerance]));
  lineChart(host, { height: 320,
    label: `${facts.measure} of the network as it was cut, at ${own.length} sizes; the line is ${facts.tolerance_words}`,
    x: { log: true, from: Math.min(...sizes) / 1.15, to: Math.max(...sizes) * 1.15, name: "parameters left", words: whole },
    y,
    series: [...members.filter((member) => member !== candidate.member && member >= 0).map((member) => ({ points: curve(member), style: "faint" })),
      { points: curve(candidate.member), style: "blue", dots: true, apart: candidate.member < 0 }],
    rules: [{ at: facts.tolerance, words: facts.tolerance_words }],
    marks: [...[cutNow()].filter(Boolean).map(({ size, score }) => ({ at: [size, score], words: plural(size, "parameter") })), ...[candidate].filter(isJudged).map(({ parameters, score, judged_words }) => ({ at: [parameters, score], words: `${plural(parameters, "parameter")}, ${judged_words}` }))] });
}

function pruningWords() {
  const others = facts.is_table ? " Grey lines are those trained with other penalties or in other ways." : "";
  byId("pruning-note").textContent = !facts.attempts.length ? ""
    : chosen().member < 0 ? `Each blue dot is a ${chosen().member === -2 ? "linear model" : "plain network"} that was fitted, whole or cut.${others}`
    : `The blue line is the network this candidate was cut from, on its way down: cut, refitted, fine-tuned and judged at every size.${others}`;
}
