// What was true and what the candidate predicted: a confusion matrix, or predicted against true.
function answersView(host) {
  const answers = chosen().answers;
  if (!answers) return missing(host, "What the networks answered is not in this run: an older version wrote it, or there are too many classes.");
  (answers.kind === "confusion" ? confusion : scatter)(host, answers);
}

function confusion(host, { labels, counts }) {
  const n = labels.length, width = Math.max(280, host.clientWidth);
  const longest = Math.max(...labels.map((label) => label.length));
  const left = Math.max(52, Math.min(24 + Math.min(longest, 14) * 7, width * 0.34)), slanted = longest > 3;
  const size = Math.min(n > 6 ? 46 : 66, (width - left - (slanted ? 24 : 4)) / n), tall = Math.max(size, 15);
  const named = size >= 14; // columns; else they have the order of the rows
  const top = slanted && named ? 24 + Math.min(longest, 14) * 5 : 44;
  const right = counts.reduce((total, row, i) => total + row[i], 0);
  const total = counts.flat().reduce((sum, count) => sum + count, 0);
  const { svg } = canvas(host, top + n * tall + 8, `Confusion matrix: ${whole(right)} of ${whole(total)} rows right`);
  const cut = (label) => (label.length > 14 ? `${label.slice(0, 7)}…${label.slice(-6)}` : label);
  svg.append(text(left, 13, named ? "predicted →" : "predicted →, in the order of the rows", { class: "strong" }), text(left - 8, top - 8, "true ↓", { class: "strong", "text-anchor": "end" }));
  counts.forEach((row, i) => {
    const all = Math.max(row.reduce((sum, count) => sum + count, 0), 1);
    const y = top + i * tall;
    svg.append(text(left - 8, y + tall / 2 + 4, cut(labels[i]), { "text-anchor": "end" }));
    const x = left + (i + 0.5) * size;
    if (named) svg.append(text(x, top - 8, cut(labels[i]), slanted ? { transform: `rotate(-35 ${x} ${top - 8})` } : { "text-anchor": "middle" }));
    row.forEach((count, j) => {
      const share = count / all, opacity = count ? 0.08 + 0.37 * (i === j ? share : Math.min(1, share * 4)) : 0;
      svg.append(withTip(draw("rect", { class: `cell${i === j ? "" : " wrong"}${count ? "" : " none"}`, x: left + j * size + 1, y: y + 1, width: Math.max(size - 2, 1), height: tall - 2, rx: 3, "fill-opacity": opacity.toFixed(2) }),
        `true ${labels[i]}, predicted ${labels[j]}\n${plural(count, "row")}, ${(100 * share).toFixed(1)} % of those`));
      if (count && size > 24) {
        svg.append(text(left + (j + 0.5) * size, y + tall / 2 + 4, whole(count), { class: "on-cell", "text-anchor": "middle" }));
      }
    });
  });
}

function scatter(host, { outputs }) {
  state.output = Math.min(state.output, outputs.length - 1);
  host.replaceChildren();
  const figure = make("div", { class: "figure" });
  if (outputs.length > 1) {
    const choice = host.appendChild(make("select", { "aria-label": "Output" }, outputs.map((output, i) => make("option", { value: i }, output.name))));
    choice.value = state.output;
    choice.addEventListener("change", () => { state.output = Number(choice.value); predictedAgainstTrue(figure, outputs[state.output]); });
  }
  host.append(figure);
  predictedAgainstTrue(figure, outputs[state.output]);
}

function predictedAgainstTrue(host, { name, true: real, predicted }) {
  const pairs = real.map((value, i) => [value, predicted[i]]).filter(([a, b]) => a !== null && b !== null);
  const place = canvas(host, Math.min(420, Math.max(300, host.clientWidth * 0.8)), `Predicted against true ${name}, ${plural(pairs.length, "row")}`);
  const [low, high] = span(pairs.flat()), room = (high - low) * 0.04 || 1;
  const range = { from: low - room, to: high + room };
  const { toX, toY } = axes(place, { ...range, name: `true ${name}` }, { ...range, name: `predicted ${name}` }, { left: 64, right: 16, top: 26, bottom: 40 });
  place.svg.append(draw("path", { class: "rule", d: pathOf([[toX(range.from), toY(range.from)], [toX(range.to), toY(range.to)]]) }),
    ...pairs.map(([a, b]) => draw("circle", { class: "dots", cx: toX(a).toFixed(1), cy: toY(b).toFixed(1), r: 3 })));
}

// What a matrix shows of accuracy is the score that chose: said, so that it is not taken for the other one.
function judgedShare({ counts }) {
  const total = counts.flat().reduce((sum, count) => sum + count, 0), right = counts.reduce((sum, row, i) => sum + row[i], 0);
  return ` Of all rows ${(100 * right / total).toFixed(2)} % are right here, ${facts.where_judged}` +
    (facts.is_accuracy ? `; ${chosen().score_words} are to be expected on new rows.` : ", before the correction for the choice.");
}

function answersWords() {
  const answers = chosen().answers;
  if (!answers) { byId("answers-note").textContent = ""; return; }
  const kind = answers.kind === "confusion" ? "Rows by their true class and the one it predicted; the darker, the larger its share of the true class. Mistakes are orange."
    : "On the dashed line both are equal. Drawn is a sample of the rows.";
  const right = answers.kind === "confusion" && facts.is_corrected ? judgedShare(answers) : "";
  const who = facts.is_judged_itself ? "" : " Each row was predicted by a network made in the same way, but fitted without that row.";
  byId("answers-note").textContent = `${kind}${who}${right} ${answers.note}`;
}

// How often what was said came true, by bins of the probability.
function reliabilityView(host) {
  const bins = chosen().reliability;
  if (!bins) return host.replaceChildren();
  const place = canvas(host, 260, `Observed share against predicted probability, ${plural(bins.length, "bin")}`);
  const axis = { from: 0, to: 1, words: (value) => `${Math.round(100 * value)} %`, ticks: [0, 0.25, 0.5, 0.75, 1] };
  const { toX, toY } = axes(place, { ...axis, name: facts.outputs.length === 1 ? `predicted probability of ${facts.outputs[0]}` : "probability of the predicted class" }, { ...axis, name: "observed" }, { left: 64, right: 16, top: 26, bottom: 40 });
  place.svg.append(draw("path", { class: "rule", d: pathOf([[toX(0), toY(0)], [toX(1), toY(1)]]) }));
  for (const [share, foretold, so] of bins) {
    place.svg.append(withTip(draw("circle", { class: "bar", cx: toX(foretold).toFixed(1), cy: toY(so).toFixed(1), r: (3 + 12 * Math.sqrt(share)).toFixed(1), "fill-opacity": 0.8 }),
      `predicted ${(100 * foretold).toFixed(1)} %, observed ${(100 * so).toFixed(1)} %\n${(100 * share).toFixed(1)} % of the rows`));
  }
}

function reliabilityWords() {
  const { reliability, temperature } = chosen();
  const heat = temperature === 1 ? "They are as fitted, without calibration." : `They were calibrated: outputs are divided by a temperature of ${short(temperature)}.`;
  byId("reliability-note").textContent = reliability ? `On the dashed line predicted probabilities are right; the larger a circle, the more rows. ${heat}` : "";
}
