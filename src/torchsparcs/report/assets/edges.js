// A small network, connection by connection: inputs and outputs by their names, signs by line and colour.
const LETTER = 7; // pixels, about

function edgesView(host, candidate, scene) {
  const { layers, edges } = candidate.picture, last = layers.length - 1;
  const used = layers.map((_, depth) => new Set(edges.flatMap(([a, i, b, k]) => [...(a === depth ? [i] : []), ...(b === depth ? [k] : [])])));
  used[last] = new Set(layers[last].size.keys());
  const nodes = scene.layers.map((layer, depth) => layer.nodes.map((node, i) => ({ ...node, place: i })).filter((node) => used[depth].has(node.place)));
  const width = Math.max(280, host.clientWidth), most = Math.floor((width * 0.34) / LETTER);
  const brief = (name) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
  const names = [facts.inputs, facts.outputs].map((all, end) =>
    new Map(nodes[end ? last : 0].map(({ place }) => [place, brief(all[layers[end ? last : 0].index[place]] ?? "")])));
  const room = names.map((all) => Math.max(0, ...[...all.values()].map((name) => name.length)) * LETTER + 22);
  const rows = Math.max(...nodes.map((layer) => layer.length), 1);
  const pitch = Math.max(22, Math.min(44, 250 / rows)), bow = edges.some(([a, , b]) => b - a > 1) ? 26 : 8;
  const tall = Math.max(rows * pitch, 110), { svg } = canvas(host, tall + 2 * bow + 30, architectureLabel(candidate, scene), "application");
  const x = (depth) => room[0] + (depth / last) * (width - room[0] - room[1]);
  const spots = nodes.map((layer, depth) => new Map(layer.map((node, i) => [node.place, { ...node, x: x(depth), y: bow + (tall * (i + 0.5)) / layer.length }])));
  const strongest = Math.max(...edges.map((edge) => Math.abs(edge[4])), 1e-12);
  const lines = draw("g", {}), dots = draw("g", {});
  for (const [a, i, b, k, weight] of edges) {
    const from = spots[a].get(i), to = spots[b].get(k), span = b - a, middle = bow + tall / 2;
    const lift = span > 1 ? (from.y > middle ? 1 : -1) * bow * (1 + span / 3) : 0, reach = (to.x - from.x) * 0.42;
    lines.append(withTip(draw("path", {
      class: `edge ${weight < 0 ? "lowers" : "raises"}`, "stroke-width": (1.3 + 5.2 * Math.abs(weight) / strongest).toFixed(1),
      d: `M${from.x} ${from.y}C${from.x + reach} ${from.y + lift} ${to.x - reach} ${to.y + lift} ${to.x} ${to.y}` }),
    `${names[0].get(i) && a === 0 ? names[0].get(i) : nodeName(a, i, last)} → ${nodeName(b, k, last)}\nweight ${short(weight)} of standardised columns`));
  }
  const all = spots.map((layer, depth) => [...layer.values()].map((spot) => {
    const kind = depth === 0 ? " input" : depth === last ? " output" : "";
    const shape = draw("circle", { class: `node${kind}${spot.kind || ""}`, cx: spot.x, cy: spot.y, r: depth % last ? 9 : 7 });
    dots.append(withTip(shape, spot.words));
    if (depth === 0) dots.append(text(spot.x - 13, spot.y + 4, names[0].get(spot.place), { class: "name", "text-anchor": "end" }));
    if (depth === last) dots.append(text(spot.x + 13, spot.y + 4, names[1].get(spot.place), { class: "name" }));
    return { shape, words: spot.words };
  }));
  svg.append(lines, dots);
  scene.layers.forEach((layer, depth) => {
    const name = x(1) - x(0) < 62 ? layer.name.replace("hidden ", "h") : layer.name; // side by side they would touch
    if (depth % last) svg.append(text(x(depth), tall + 2 * bow + 22, name, { "text-anchor": "middle" }));
  });
  walkWithKeys(svg, all);
}

function nodeName(depth, place, last) {
  if (depth === last) return facts.outputs[place] ?? "output";
  return depth === 0 ? facts.inputs[chosen().picture.layers[0].index[place]] : `${layerName(depth, last)}, ${facts.unit} ${place}`;
}

function signLegend(isShown) {
  const line = (kind) => draw("path", { class: `edge ${kind}`, d: "M0 7H18", "stroke-width": 3 });
  byId("architecture-legend").replaceChildren(...(isShown ? [sample(line("raises"), "raises what it leads to"), sample(line("lowers"), "lowers it")] : []));
}
