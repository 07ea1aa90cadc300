// The network as columns of neurons and bands of connections, at every stop of its growth.
const ROWS = 24; // of a column before it gets a second file

const layerName = (layer, last) => (layer === 0 ? "inputs" : layer === last ? "outputs" : `hidden ${layer}`);

// Both kinds of stops in one form: layers of nodes {slot, size, words} and bands.
function sceneOf(candidate) {
  if (isCut()) return cutScene(candidate.picture);
  const scene = grownScene(growthOf(candidate), epochStop()), cut = cutNow();
  return cut ? cuttingScene(scene, cut) : scene;
}

function cutScene(picture) {
  const last = picture.layers.length - 1;
  const layers = picture.layers.map((layer, depth) => {
    const name = layerName(depth, last), places = Math.max(layer.width, offeredAt(picture, depth));
    const isClose = layer.per > 1 || places > facts.most_neurons; // no room for those that are not there
    const top = Math.max(...layer.size, 1e-12);
    const nodes = layer.size.map((size, i) => ({
      slot: isClose ? i : layer.index[i], size: size / top, kind: isLinear(layer, i) ? " linear" : "",
      words: nodeWords(layer, depth, last, i, last > 1 && depth > 0 && depth < last ? `strength ${short(size)}` : ""),
    }));
    const parts = channelsOf(layer);
    const count = parts ? `${whole(parts.active)} + ${whole(parts.linear)}`
      : layer.alive < layer.width ? `${whole(layer.alive)} of ${whole(layer.width)} read` : whole(layer.width);
    return { name, per: layer.per, slots: isClose ? nodes.length : places, isOpen: true, nodes, count, tight: whole(layer.alive), map: mapWords(layer) };
  });
  const top = Math.max(...picture.bands.map((band) => band[2]), 1e-12);
  const bands = picture.bands.map(([source, target, strength, weights]) => ({ source, target, share: strength / top,
    words: [`${layerName(source, last)} → ${layerName(target, last)}`, mapWords(picture.layers[target]),
      `${plural(weights, "weight")}, norm ${short(strength)}`].filter(Boolean).join("\n") }));
  return { layers, bands };
}

// Of a chain: the channels that a hidden layer was offered, those that pass the activation, and what gives them.
const isChain = (picture) => Boolean(picture.layers[1].map);
const offeredAt = ({ layers }, depth) =>
  (isChain({ layers }) && layers.length === facts.widths.length && depth > 0 && depth < layers.length - 1 ? facts.widths[depth] : 0);
const isLinear = (layer, i) => layer.linear_from !== null && i >= layer.linear_from;
function channelsOf(layer) {
  if (layer.linear_from === null) return null;
  const active = layer.per > 1 ? layer.count.slice(0, layer.linear_from).reduce((sum, count) => sum + count, 0) : layer.linear_from;
  return { active, linear: layer.width - active };
}
function mapWords({ map }) {
  if (!map) return "";
  const stride = /[^1 ×]/.test(map.stride) ? `, stride ${map.stride}` : "";
  return `${map.kind}${map.kernel_size ? ` ${map.kernel_size}` : ""}${stride}`;
}

function nodeWords(layer, depth, last, i, strength) {
  const name = (depth === 0 ? facts.inputs : depth === last ? facts.outputs : [])[layer.index?.[i]];
  const title = name ?? (layer.per > 1 ? `${plural(layer.count[i], facts.unit)}, means` : `${facts.unit} ${layer.index[i]}`);
  const kind = layer.linear_from === null ? "" : isLinear(layer, i) ? "linear: goes on as it is" : "active: passes the activation";
  return [`${layerName(depth, last)}: ${title}`, kind, strength,
    [depth > 0 ? `fan-in ${whole(Math.round(layer.fan_in[i]))}` : "", depth < last ? `fan-out ${whole(Math.round(layer.fan_out[i]))}` : ""].filter(Boolean).join(", "),
  ].filter(Boolean).join("\n");
}

function grownScene(growth, stop) {
  const widths = facts.widths, last = growth.layers.length + 1;
  const counts = [widths[0], ...growth.layers.map((layer) => layer.recruited[stop]), widths[widths.length - 1]];
  const largest = Math.max(...growth.layers.flatMap((layer) => layer.values.flat().map(Math.abs)), 1e-12);
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const fans = (depth) => `fan-in ${whole(sum(counts.slice(0, depth)))}, fan-out ${whole(sum(counts.slice(depth + 1)))}`;
  const end = (depth, names) => endLayer(depth, last, widths[depth === 0 ? 0 : widths.length - 1], names);
  const hidden = growth.layers.map((layer, place) => {
    const depth = place + 1, grouped = layer.per > 1;
    const nodes = layer.values[stop].map((value, i) => ({ slot: i, size: Math.sqrt(Math.abs(value) / largest), value,
      words: grouped
        ? `${layerName(depth, last)}: ${plural(Math.min(layer.per, counts[depth] - i * layer.per), facts.unit)}\nmean |eigenvalue| ${short(value)}\n${fans(depth)}`
        : `${layerName(depth, last)}: ${facts.unit} ${layer.index[i]}\neigenvalue ${short(value)}\n${fans(depth)}` }))
      .filter((node) => node.value !== 0);
    const slots = Math.max(grouped ? Math.ceil(Math.max(...layer.recruited) / layer.per) : layer.index.length, 1);
    return { name: layerName(depth, last), per: layer.per, slots, nodes, count: `${whole(counts[depth])} of ${whole(layer.width)}`, tight: whole(counts[depth]) };
  });
  const top = Math.max(...growth.layers.flatMap((layer) => layer.norm), 1e-12);
  const norms = [1, ...growth.layers.map((layer) => layer.norm[stop] / top), 1];
  const bands = [];
  for (let target = 1; target <= last; target++) {
    for (let source = 0; source < target; source++) {
      const share = Math.sqrt(norms[source] * norms[target]);
      if (share > 0) bands.push({ source, target, share, words: `${layerName(source, last)} → ${layerName(target, last)}` });
    }
  }
  return { layers: [end(0, facts.inputs), ...hidden, end(last, facts.outputs)], bands };
}

function endLayer(depth, last, width, names) {
  const per = width > facts.most_neurons ? Math.ceil(width / facts.groups) : 1;
  const slots = Math.ceil(width / per);
  const nodes = Array.from({ length: slots }, (_, i) => ({ slot: i, size: 1,
    words: `${layerName(depth, last)}: ${per > 1 ? plural(Math.min(per, width - i * per), facts.unit) : names[i] ?? i}` }));
  return { name: layerName(depth, last), per, slots, nodes, count: whole(width), tight: whole(width) };
}

function architectureView(host) {
  const candidate = chosen(), scene = sceneOf(candidate), layers = scene.layers, last = layers.length - 1;
  const isSmall = isCut() && candidate.picture.edges !== null && candidate.picture.layers.every(({ per }) => per === 1);
  signLegend(isSmall);
  if (isSmall) return edgesView(host, candidate, scene);
  const width = Math.max(280, host.clientWidth), least = Math.min(90, width * 0.11);
  const isNamedAt = (depth) => width / last > 110 && (depth === 0 || depth === last) && layers[depth].per === 1 && layers[depth].slots <= ROWS;
  const [side, right] = [0, last].map((depth) => Math.max(least, isNamedAt(depth) ? 24 + LETTER * Math.max(...namesAt(depth, last).map((name) => Math.min(name.length, mostLetters(width)))) : 0));
  const gap = (width - side - right) / last;
  const files = layers.map((layer) => Math.ceil(layer.slots / ROWS));
  const rows = layers.map((layer, i) => Math.ceil(layer.slots / files[i]));
  const roomy = Math.min(Math.max(260 / Math.max(...rows), 14), 26);
  const pitch = Math.min(roomy, ...files.map((count) => Math.min(gap * 0.62, 2 * least * 0.9) / count));
  const reach = Math.max(0, ...scene.bands.map((band) => band.target - band.source));
  const arcs = reach > 1 ? 26 + 22 * Math.min(reach, 4) : 16;
  const tall = Math.max(6, ...rows) * pitch;
  const isTight = gap < 84, isNamed = gap > 150 && layers.some((layer) => layer.map);
  const { svg } = canvas(host, arcs + tall + (isNamed ? 79 : 62), architectureLabel(candidate, scene), "application");
  const middle = arcs + tall / 2;
  const columns = layers.map((layer, i) => ({ x: side + i * gap, half: (files[i] * pitch) / 2, top: middle - (rows[i] * pitch) / 2 }));
  const bandGroup = draw("g", {}), nodeGroup = draw("g", {});
  for (const band of scene.bands) bandGroup.append(bandShape(band, columns, middle, arcs, tall));
  const all = layers.map((layer, depth) => layerShape(layer, depth, last, columns[depth], rows[depth], pitch, nodeGroup));
  const every = Math.ceil(34 / gap); // of many layers some have room for their names
  layers.forEach((layer, depth) => {
    const y = arcs + tall + 24;
    if (depth % last && (depth % every || last - depth < every)) return;
    const name = isTight ? layer.name.replace("puts", "").replace("hidden ", "h") : layer.name;
    svg.append(text(columns[depth].x, y, name, { class: "strong", "text-anchor": "middle" }),
      text(columns[depth].x, y + 17, isTight ? layer.tight : layer.count, { "text-anchor": "middle" }));
    if (isNamedAt(depth)) svg.append(...endNames(layer, depth, last, columns[depth], rows[depth], pitch, mostLetters(width)));
    if (isNamed && layer.map) svg.append(text(columns[depth].x, y + 34, layer.map, { "text-anchor": "middle" }));
  });
  svg.append(bandGroup, nodeGroup);
  walkWithKeys(svg, all);
}

const namesAt = (depth, last) => (depth === last ? facts.outputs : facts.inputs);
const mostLetters = (width) => Math.floor((width * 0.3) / LETTER);

// The names of inputs and outputs beside their dots.
function endNames(layer, depth, last, column, rows, pitch, most) {
  return layer.nodes.map(({ slot }) => {
    const name = namesAt(depth, last)[slot] ?? "", words = name.length > most ? `${name.slice(0, most - 1)}…` : name;
    return text(column.x + (depth ? 13 : -13), column.top + pitch * ((slot % rows) + 0.5) + 4, words, { class: "name", "text-anchor": depth ? "start" : "end" });
  });
}

function bandShape(band, columns, middle, arcs, tall) {
  const from = columns[band.source], to = columns[band.target], span = band.target - band.source;
  const thick = 1.5 + band.share * 12;
  let d;
  if (span === 1) {
    d = `M${from.x + from.half + 3} ${middle}H${to.x - to.half - 3}`;
  } else {
    const x1 = from.x + 3 * (span - 1), x2 = to.x - 3 * (span - 1);
    const apex = arcs - 4 - 22 * Math.min(span, 4) + thick / 4;
    const y1 = from.top - 4, y2 = to.top - 4, control = (8 * apex - y1 - y2) / 6;
    d = `M${x1} ${y1}C${x1} ${control} ${x2} ${control} ${x2} ${y2}`;
  }
  const shape = draw("path", { class: `band${span > 1 ? " skip" : ""}`, d, "stroke-width": Math.min(thick, tall).toFixed(1) });
  return withTip(shape, band.words);
}

function layerShape(layer, depth, last, column, rows, pitch, group) {
  const kind = depth === 0 ? " input" : depth === last ? " output" : "";
  const at = (slot) => ({ cx: (column.x - column.half + pitch * (Math.floor(slot / rows) + 0.5)).toFixed(1), cy: (column.top + pitch * ((slot % rows) + 0.5)).toFixed(1) });
  const working = new Set(layer.nodes.map((node) => node.slot));
  for (let slot = 0; layer.isOpen && slot < layer.slots; slot++) {
    if (!working.has(slot)) group.append(draw("circle", { class: "node unread", ...at(slot), r: Math.min(2, pitch / 4) }));
  }
  return layer.nodes.map((node) => {
    const shape = draw("circle", { class: `node${kind}${node.kind || ""}`, ...at(node.slot), r: (pitch * (0.12 + 0.33 * node.size)).toFixed(2) });
    group.append(withTip(shape, node.words));
    return { shape, words: node.words };
  });
}

// Arrow keys go from neuron to neuron once the picture has the focus.
function walkWithKeys(svg, layers) {
  svg.setAttribute("tabindex", 0);
  let depth = -1, place = 0;
  const leave = () => { svg.querySelector(".current")?.classList.remove("current"); hideTip(); };
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (!move) return;
    event.preventDefault();
    leave();
    do { depth = Math.min(Math.max(depth + move[0], 0), layers.length - 1); }
    while (move[0] && !layers[depth].length && depth > 0 && depth < layers.length - 1);
    place = Math.min(Math.max(place + move[1], 0), layers[depth].length - 1);
    const node = layers[depth][place];
    if (!node) return;
    node.shape.classList.add("current");
    showTip(node.shape, node.words);
  });
}

function architectureLabel(candidate, scene) {
  const when = isCut() ? "after cutting" : stopWords();
  return `The network ${when}: ${scene.layers.map((layer) => `${layer.name} ${layer.count}`).join(", ")}. Arrow keys go from ${facts.unit} to ${facts.unit}.`;
}

function architectureWords() {
  const candidate = chosen(), stops = stopsOf(candidate), range = byId("stop");
  byId("architecture-words").textContent = candidate.architecture;
  byId("stops").hidden = !stops.length;
  range.max = lastStop(candidate);
  range.value = Math.min(state.stop, lastStop(candidate));
  const growth = growthOf(candidate), words = stopWords(), cut = cutNow();
  byId("stop-words").textContent = stops.length ? words : "";
  range.setAttribute("aria-valuetext", words);
  const grouped = sceneOf(candidate).layers.filter((layer) => layer.per > 1), units = `${facts.unit}s`, Units = units[0].toUpperCase() + units.slice(1);
  const together = grouped.length
    ? ` Layers with too many ${units} to tell apart are shown in groups, from the strongest: a dot stands for up to ${Math.max(...grouped.map((layer) => layer.per))} ${units}.` : "";
  const startsAwake = facts.is_table && stops[0] === 0 && growth && growth.layers.some((layer) => layer.recruited[0] > 0);
  const chain = isChain(candidate.picture);
  const colours = chain ? "Blue channels, the first number, pass the activation; orange ones, the second, are linear and go on as they are" + (candidate.picture.layers.some((_, depth) => offeredAt(candidate.picture, depth)) ? "; small hollow ones were offered and are not there." : ".")
    : "";
  const isSmall = candidate.picture.edges !== null;
  const bands = chain ? "bands by the norm of theirs. " : "bands by the norm of theirs: blue from layer to layer, orange where they skip layers.";
  byId("architecture-note").textContent = (cut ? `Cut, refitted and fine-tuned at this size. Which ${units} went on the way was not kept: drawn are those with the largest eigenvalues.`
    : isCut() && isSmall ? "Each line is a weight, the thicker the larger."
    : isCut() ? `What was cut has weights, no eigenvalues any more: ${units} are sized by their strength, the norm of the weights that come in times that of those that go out, ${bands}${colours}`
    : (startsAwake ? "It started awake, with every neuron of its first layer recruited, and sent them to sleep. " : facts.is_table ? "It starts as a perceptron. " : "") +
      `${Units} are sized by their eigenvalue, bands by the eigenvalues of the layers at their ends. These are the ${units} before the cut.`) +
    together + (stops.length ? "" : facts.is_refitted ? " It was refitted, not grown." : candidate.member < 0 ? " It was fitted as it is and cut, it did not grow." : " How it grew was not recorded.");
  layerTable(candidate.picture);
}

// The layers of a chain in words.
function layerTable(picture) {
  byId("layers-table").hidden = !isChain(picture);
  if (!isChain(picture)) return;
  const last = picture.layers.length - 1;
  const rows = picture.layers.slice(1).map((layer, i) => {
    const parts = channelsOf(layer), offered = offeredAt(picture, i + 1);
    const cells = [layer.map.kind, layer.map.kernel_size || "–", layer.map.stride || "–",
      parts ? whole(parts.active) : "–", parts ? whole(parts.linear) : whole(layer.width), offered ? whole(offered) : "–", whole(picture.bands[i][3])];
    return make("tr", {}, [make("th", { scope: "row" }, layerName(i + 1, last)), ...cells.map((words, k) => make("td", k > 2 ? { class: "number" } : {}, words))]);
  });
  const head = ["layer", "kind", "kernel", "stride", "active", "linear", "offered", "weights"];
  byId("layers").replaceChildren(make("thead", {}, make("tr", {}, head.map((words, k) => make("th", { scope: "col", class: k > 3 ? "number" : "" }, words)))), make("tbody", {}, rows));
}
