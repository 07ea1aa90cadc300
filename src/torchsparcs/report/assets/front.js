// Score against size: the candidates as radio buttons, all other attempts behind them.
const REACH = 20; // pixels from a point to where a click still means it
const isJudged = (found) => found.score !== null;
const asJudged = (found) => facts.is_corrected ? `, ${found.judged_words} ${facts.where_judged}` : "";

function frontView(host) {
  const candidates = facts.candidates, judged = candidates.filter(isJudged);
  const narrow = host.clientWidth < 560;
  const place = canvas(host, narrow ? 340 : 430, `${facts.measure} against ${facts.size}, ${plural(judged.length, "candidate")}`, "group");
  const sizes = candidates.map((found) => found.size);
  const scores = judged.flatMap((found) => [found.score - found.error, found.score + found.error]);
  const x = { log: true, from: Math.min(...sizes) / 1.3, to: Math.max(...sizes, state.budget || 0) * 1.3,
    name: facts.chip && facts.size === "bytes" ? facts.bytes_name : facts.size, words: whole };
  const y = scoreAxis(Math.min(...scores), Math.max(...scores, facts.tolerance));
  const { box, toX, toY } = axes(place, x, y);
  const { svg } = place;
  const inside = facts.attempts.filter(([, , , score, size]) =>
    size !== null && score >= y.from && score <= y.to && size >= x.from && size <= x.to);
  host.dataset.stretched = y.stretched ? "yes" : "";
  host.dataset.inside = inside.length;
  for (const [, , , score, size] of inside) {
    svg.append(draw("circle", { class: "attempt", cx: toX(size), cy: toY(score), r: 2.6 }));
  }
  svg.append(draw("line", { class: "rule", x1: box.left, x2: box.right, y1: toY(facts.tolerance), y2: toY(facts.tolerance) }));
  const stairs = [];
  for (const found of judged.filter((each) => typeof each.pick === "number")) {
    if (stairs.length) stairs.push([toX(found.size), stairs[stairs.length - 1][1]]);
    stairs.push([toX(found.size), toY(found.score)]);
  }
  svg.append(draw("path", { class: "line blue", d: pathOf(stairs) }));
  if (state.budget) {
    const at = Math.min(Math.max(toX(state.budget), box.left), box.right);
    svg.append(draw("path", { class: "line green", d: `M${at} ${box.top}V${box.bottom}`, "stroke-dasharray": "2 4" }));
  }
  const group = draw("g", { role: "radiogroup", "aria-label": `Candidates, ${facts.measure} against ${facts.size}` });
  const points = judged.map((found) => frontPoint(found, candidates.indexOf(found), toX(found.size), toY(found.score), toY));
  group.append(...points.map(({ point }) => point));
  svg.append(group, ...frontMarks(toX, toY, box));
  pointAtTheNearest(svg, place.width, points);
  markChosenPoint();
}

// Points may cover each other: the pointer means the nearest; of those at one place the next.
function pointAtTheNearest(svg, width, points) {
  const nearest = (event) => {
    const box = svg.getBoundingClientRect(), scale = width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const far = (one) => Math.hypot(one.x - x, one.y - y);
    const best = points.reduce((one, other) => (far(other) < far(one) ? other : one));
    return far(best) <= REACH ? best : null;
  };
  svg.addEventListener("click", (event) => {
    const best = nearest(event);
    if (!best) return;
    const there = points.filter((one) => Math.hypot(one.x - best.x, one.y - best.y) < 1.5);
    const place = there.findIndex(({ index }) => index === state.candidate);
    select((place < 0 ? best : there[(place + 1) % there.length]).index);
  });
  const leave = () => { svg.querySelector(".near")?.classList.remove("near"); hideTip(); };
  svg.addEventListener("pointermove", (event) => {
    const best = nearest(event);
    if (best && best.point.classList.contains("near")) return;
    leave();
    svg.classList.toggle("ready", best !== null);
    if (!best) return;
    best.point.classList.add("near");
    showTip(best.point.lastChild, best.words);
  });
  svg.addEventListener("pointerleave", leave);
}

function frontPoint(found, index, x, y, toY) {
  const words = `${plural(found.parameters, "parameter")}, ${facts.measure} ${found.score_with_error}${asJudged(found)}\n${found.architecture}`;
  const point = draw("g", {
    class: `point${found.rules.includes("linear") ? " linear" : ""}`, role: "radio", "data-index": index,
    "aria-label": [words.replace("\n", ", "), ...found.names].join(", "),
  }, [
    ...(found.error === null ? [] : [draw("line", { class: "error", x1: x, x2: x, y1: toY(found.score - found.error), y2: toY(found.score + found.error) })]),
    draw("circle", { class: "halo", cx: x, cy: y, r: 13 }),
    draw("circle", { class: "dot", cx: x, cy: y, r: 5 }),
  ]);
  point.addEventListener("keydown", (event) => {
    const all = [...point.parentNode.children], here = all.indexOf(point);
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    const goal = { Home: 0, End: all.length - 1, " ": here, Enter: here }[event.key] ?? here + step;
    if (Number.isNaN(goal)) return;
    event.preventDefault();
    const next = all[Math.min(Math.max(goal, 0), all.length - 1)];
    select(Number(next.dataset.index));
    next.focus();
  });
  point.addEventListener("focus", () => point.matches(":focus-visible") && showTip(point, words));
  point.addEventListener("blur", hideTip);
  return { point, index, x, y, words };
}

// The names of the rules beside their picks, apart from each other.
function frontMarks(toX, toY, box) {
  const marks = [];
  const taken = facts.candidates.filter(isJudged).map((found) => [toX(found.size) - 4, toX(found.size) + 4, toY(found.score) + 4]);
  const within = budgetPick();
  facts.candidates.forEach((found, index) => {
    const names = [...found.names, ...(index === within ? ["within budget"] : [])];
    if (!names.length || !isJudged(found)) return;
    const x = toX(found.size), words = names.join(" · ");
    const over = toY(found.score) - 16, under = toY(found.score) + 26;
    const wide = words.length * 6.6;
    const anchor = x + wide / 2 > box.right ? "end" : x - wide / 2 < box.left ? "start" : "middle";
    const left = anchor === "end" ? x - wide : anchor === "start" ? x : x - wide / 2;
    const isFree = (at) => at > box.top - 12 && at < box.bottom - 4 &&
      !taken.some(([l, r, b]) => left < r + 4 && left + wide > l - 4 && Math.abs(b - at) < 13);
    const y = [over, under, over - 14, under + 14, over - 28, under + 28, under + 42].find(isFree) ?? over;
    taken.push([left, left + wide, y]);
    marks.push(text(x, y, words, { class: "strong", "text-anchor": anchor }));
  });
  return marks;
}

function budgetPick() {
  if (!state.budget) return null;
  let best = null;
  facts.candidates.forEach((found, index) => {
    if (typeof found.pick !== "number" || found.size > state.budget) return;
    if (best === null || found.told > facts.candidates[best].told) best = index;
  });
  return best;
}

function markChosenPoint() {
  const points = [...document.querySelectorAll("#front-figure .point")];
  const is = (point) => Number(point.dataset.index) === state.candidate;
  const reachable = points.find(is) || points[0]; // by the tab key
  for (const point of points) {
    point.setAttribute("aria-checked", is(point));
    point.setAttribute("tabindex", point === reachable ? 0 : -1);
  }
}

function frontWords() {
  const idle = facts.candidates.filter((found) => found.gains_nothing);
  const tried = facts.attempts.length, inside = Number(byId("front-figure").dataset.inside);
  const some = inside < tried ? `${whole(inside)} of the ${whole(tried)}` : `all ${whole(tried)}`;
  byId("front-note").textContent =
    `Each circle on the line is a network that scores better than all smaller ones, on ${facts.judged_by}. ` +
    (facts.is_corrected ? "They are drawn at these scores, by which they were chosen; the scores in words are those to expect on new rows, corrected for that choice. " : "") +
    (idle.length ? `So corrected, those of ${idle.map(({ parameters }) => whole(parameters)).join(", ")} parameters should be no better than a smaller one. ` : "") +
    (tried ? `Grey dots are ${some} networks that were tried${inside < tried ? "; the others lie outside" : ""}. ` : "") +
    (byId("front-figure").dataset.stretched ? "The axis is stretched towards the top, where scores are close. " : "") +
    "Click a circle, or use the arrow keys: all but the head of the page shows that network, and the address keeps the choice.";
  byId("front-legend").replaceChildren(
    sample(draw("circle", { class: "dot", cx: 9, cy: 7, r: 5 }), plural(facts.candidates.length, "candidate")),
    ...(facts.is_table ? [sample(draw("g", { class: "point linear" }, draw("circle", { class: "dot", cx: 9, cy: 7, r: 5 })), "linear model")] : []),
    sample(draw("line", { class: "rule", x1: 0, x2: 18, y1: 7, y2: 7 }), facts.tolerance_words),
  );
  const index = budgetPick();
  byId("budget-answer").textContent = !state.budget ? "" :
    index === null ? "No network is that small." : `Shown: number ${facts.candidates[index].pick}, ${plural(facts.candidates[index].parameters, "parameter")}, ${facts.candidates[index].score_words}.`;
}
