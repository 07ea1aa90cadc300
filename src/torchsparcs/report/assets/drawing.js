// What every figure needs: elements, scales, axes, the tip. Data go into attributes and text only.
const facts = JSON.parse(document.getElementById("facts").textContent);
const state = { candidate: facts.picked, stop: Infinity, output: 0, budget: facts.budget };
const byId = (id) => document.getElementById(id);
const chosen = () => facts.candidates[state.candidate];
const growthOf = (candidate) => facts.members[candidate.member] || null;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...[children].flat());
  return element;
}
const make = (tag, attributes = {}, children = []) =>
  fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, children = []) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const text = (x, y, words, attributes = {}) => draw("text", { x, y, ...attributes }, words);

const whole = (number) => number.toLocaleString("en-US");
const short = (number) => {
  if (number === null || number === undefined) return "–";
  if (Math.abs(number) >= 1e5 || (number && Math.abs(number) < 1e-3)) return number.toExponential(1).replace("e-", "e−").replace("e+", "e");
  return String(Number(number.toPrecision(3)));
};
const plural = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;

function missing(host, words) {
  host.replaceChildren(make("p", { class: "missing" }, words));
}

// An empty drawing as wide as its place, one unit a pixel.
function canvas(host, height, label, role = "img") {
  const width = Math.max(280, Math.floor(host.clientWidth));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role, "aria-label": label });
  host.replaceChildren(svg);
  return { svg, width, height };
}

const linear = (from, to, low, high) => (value) =>
  low + ((value - from) / (to - from || 1)) * (high - low);
const logarithmic = (from, to, low, high) => {
  const scale = linear(Math.log10(from), Math.log10(to), low, high);
  return (value) => scale(Math.log10(value));
};

// Towards one every halving of what is missing takes the same room.
const stretched = (from, to, low, high) => {
  const scale = logarithmic(1 - from, 1 - to, low, high);
  return (value) => scale(Math.max(1 - value, (1 - to) / 2));
};
const STRETCHED_TICKS = [0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 0.99999];

// The axis of scores from low to high, stretched where most of them are close to one.
function scoreAxis(low, high, name = facts.measure) {
  const { times, unit } = facts.style, digits = Math.abs(times) > 1 ? 3 : 10;
  const axis = { name, words: (value) => `${Number((times * value).toFixed(digits))}${unit}` };
  const room = (high - low) * 0.06 || 0.01;
  const top = times > 0 && high <= 1 ? Math.min(1, high + room) : high + room; // no share beyond 100 %
  if (times < 0 || !(high < 0.99999) || (1 - low) / (1 - high) < 4) return { ...axis, from: low - room, to: top };
  const from = 1 - (1 - low) * 1.15, to = 1 - (1 - high) / 1.15;
  const some = STRETCHED_TICKS.filter((tick) => tick >= from && tick <= to);
  return { ...axis, stretched: true, from, to, ticks: some.length > 3 ? some : linearTicks(from, to, 4) };
}

// The roundest numbers between from and to, at least so many.
function linearTicks(from, to, fewest) {
  const range = to - from || 1;
  for (let power = 10 ** Math.ceil(Math.log10(range)); ; power /= 10) {
    for (const step of [power, power / 2, power / 4, power / 5]) {
      const first = Math.ceil(from / step - 1e-9), last = Math.floor(to / step + 1e-9);
      if (last - first + 1 < fewest) continue;
      return Array.from({ length: last - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(10)));
    }
  }
}

function logTicks(from, to, fewest) {
  const powers = Array.from({ length: 64 }, (_, n) => 10 ** (n - 32));
  for (const factors of [[1], [1, 3], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]]) {
    const ticks = powers.flatMap((power) => factors.map((factor) => Number((factor * power).toPrecision(6))));
    const inside = ticks.filter((tick) => tick >= from * 0.999 && tick <= to * 1.001);
    if (inside.length >= fewest) return inside;
  }
  return linearTicks(from, to, fewest);
}

// Ticks with as many decimals as tell them apart: 1.125, not 1.13.
function tickWords(ticks) {
  const step = Math.min(1, ...ticks.flatMap((tick, i) => [tick, tick - ticks[i - 1]]).map(Math.abs).filter((gap) => gap > 0));
  const isWhole = (tick, n) => Math.abs(tick * 10 ** n - Math.round(tick * 10 ** n)) < 1e-6 * step * 10 ** n;
  const evenly = linearSteps(ticks), largest = Math.max(...ticks.map(Math.abs));
  const most = evenly && largest >= 1e-3 ? 10 : 4; // what is all small has powers of ten
  const decimals = [...Array(most + 1).keys()].find((n) => ticks.every((tick) => isWhole(tick, n)));
  if (decimals === undefined || largest >= 1e5) return (tick) => short(tick).replace(/^-/, "−");
  return (tick) => (evenly ? tick.toFixed(decimals) : String(tick)).replace("-", "−");
}
const linearSteps = (ticks) => ticks.every((tick, i) => i < 2 || Math.abs(tick - 2 * ticks[i - 1] + ticks[i - 2]) < 1e-9 * Math.abs(ticks[ticks.length - 1] - ticks[0]));

// Axes of a plot: where x and y go, with grid lines, ticks and names.
function axes({ svg, width, height }, x, y, margin = { left: 52, right: 16, top: 26, bottom: 40 }) {
  const box = { left: margin.left, right: width - margin.right, top: margin.top,
    bottom: height - margin.bottom };
  const scaleOf = (axis) => (axis.log ? logarithmic : axis.stretched ? stretched : linear);
  const toX = scaleOf(x)(x.from, x.to, box.left, box.right);
  const toY = scaleOf(y)(y.from, y.to, box.bottom, box.top);
  const ticksOf = (axis, room) => axis.ticks || (axis.log ? logTicks : linearTicks)(axis.from, axis.to, room);
  const counted = (axis, ticks) => (axis.counts ? ticks.filter(Number.isInteger) : ticks);
  const xTicks = counted(x, ticksOf(x, Math.max(4, Math.floor((box.right - box.left) / 160))));
  const yTicks = counted(y, ticksOf(y, Math.max(3, Math.floor((box.bottom - box.top) / 80))));
  const [xWords, yWords] = [x.words || tickWords(xTicks), y.words || tickWords(yTicks)];
  const taken = []; // by the words of the other ticks, powers of ten first
  const roundest = (tick) => (Number.isInteger(Math.log10(Math.abs(tick) || 1)) ? 0 : 1);
  for (const tick of yTicks) {
    svg.append(draw("line", { class: "grid", x1: box.left, x2: box.right, y1: toY(tick), y2: toY(tick) }),
      text(box.left - 8, toY(tick) + 4, yWords(tick), { "text-anchor": "end" }));
  }
  for (const tick of xTicks.sort((a, b) => roundest(a) - roundest(b) || a - b)) {
    const words = xWords(tick), half = words.length * 3.6 + 5;
    svg.append(draw("line", { class: "axis", x1: toX(tick), x2: toX(tick), y1: box.bottom, y2: box.bottom + 4 }));
    if (taken.some(([at, room]) => Math.abs(at - toX(tick)) < room + half)) continue;
    taken.push([toX(tick), half]);
    svg.append(text(toX(tick), box.bottom + 18, words, { "text-anchor": "middle" }));
  }
  svg.append(draw("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    text(box.right, box.bottom + 35, x.name, { "text-anchor": "end" }),
    text(box.left - 8, 13, y.name, { "text-anchor": "start", class: "strong" }));
  return { box, toX, toY };
}

const pathOf = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// The tip that follows the pointer or the focus.
const tip = byId("tip");
function showTip(element, words) {
  const place = element.getBoundingClientRect();
  tip.textContent = words;
  tip.hidden = false;
  const half = tip.offsetWidth / 2;
  const middle = place.left + place.width / 2;
  const left = Math.min(Math.max(middle - half, 6), document.documentElement.clientWidth - 2 * half - 6);
  const above = place.top - tip.offsetHeight - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 4 ? above : place.bottom + 8}px`;
}
const hideTip = () => { tip.hidden = true; };
function withTip(element, words) {
  element.addEventListener("pointerenter", () => showTip(element, words));
  element.addEventListener("pointerleave", hideTip);
  return element;
}

// A sample for a legend: a line, a dot.
function sample(shape, words) {
  return make("li", {}, [draw("svg", { "aria-hidden": "true" }, shape), words]);
}
