// The way of a network: epochs of its training, sizes on the way down, then what was found.
const stopsOf = (candidate) => (growthOf(candidate) ? growthOf(candidate).stops : []);
const cutsOf = (candidate) => {
  if (!stopsOf(candidate).length || candidate.member < 0) return [];
  const own = facts.attempts.filter(([member, , size]) => member === candidate.member && size > candidate.parameters);
  return own.map(([, , size, score, , neurons]) => ({ size, score, neurons })).sort((a, b) => b.size - a.size);
};
const lastStop = (candidate) => stopsOf(candidate).length + cutsOf(candidate).length;
const isCut = () => state.stop >= lastStop(chosen());
const cutNow = () => (isCut() ? undefined : cutsOf(chosen())[state.stop - stopsOf(chosen()).length]);
const epochStop = () => Math.min(state.stop, stopsOf(chosen()).length - 1);

const scoreWords = (score) => `${(facts.style.times * score).toFixed(facts.style.decimals)}${facts.style.unit}`;

function stopWords() {
  const candidate = chosen(), cut = cutNow();
  if (isCut()) return `cut and fine-tuned: ${plural(candidate.neurons, facts.unit)}`;
  if (cut) return `cut to ${plural(cut.size, "parameter")}, ${plural(cut.neurons, facts.unit)}: ${scoreWords(cut.score)}`;
  const recruits = growthOf(candidate).layers.reduce((total, layer) => total + layer.recruited[state.stop], 0);
  return `epoch ${stopsOf(candidate)[state.stop]}: ${whole(recruits)} recruited`;
}

// While it is cut: of the neurons that were recruited so many are left, drawn as the strongest.
function cuttingScene(scene, cut) {
  const last = scene.layers.length - 1, hidden = scene.layers.slice(1, last).flatMap((layer) => layer.nodes);
  const weight = (layer) => (node) => ({ node, layer, strength: Math.abs(node.value) });
  const ranked = scene.layers.slice(1, last).flatMap((layer) => layer.nodes.map(weight(layer))).sort((a, b) => b.strength - a.strength);
  const share = ranked.reduce((sum, { layer }) => sum + layer.per, 0) / Math.max(hidden.length, 1);
  const kept = new Set(ranked.slice(0, Math.round(cut.neurons / Math.max(share, 1))).map(({ node }) => node));
  const layers = scene.layers.map((layer, depth) => {
    if (depth === 0 || depth === last) return layer;
    const nodes = layer.nodes.filter((node) => kept.has(node));
    const count = whole(nodes.length * layer.per);
    return { ...layer, isOpen: true, nodes, count: layer.per > 1 ? `about ${count}` : count, tight: count };
  });
  const isLeft = (depth) => layers[depth].nodes.length > 0;
  return { layers, bands: scene.bands.filter(({ source, target }) => isLeft(source) && isLeft(target)) };
}

let growing = null;
function stopGrowing() {
  clearInterval(growing);
  growing = null;
  byId("play").textContent = "Grow";
}
function grow() {
  if (growing) return stopGrowing();
  const last = lastStop(chosen());
  if (state.stop >= last) state.stop = 0; // else from where it was stopped
  show("stop");
  byId("play").textContent = "Pause";
  growing = setInterval(() => {
    state.stop += 1;
    show("stop");
    if (state.stop >= last) stopGrowing();
  }, 110);
}
