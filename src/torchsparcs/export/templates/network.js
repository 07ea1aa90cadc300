// What a network hears of the numbers x, then layer after layer: its outputs, an array.
function outputsOf({ numbers, told, codes, layers, fills }, activation, x) {
  const a = [];
  for (const [place, centre] of numbers) {
    const v = x[place] - centre;
    a.push(!fills || Number.isFinite(v) ? v : 0);
  }
  for (const place of told) {
    a.push(Number.isFinite(x[place]) ? 0 : 1);
  }
  for (const [place, count, other, missing, levels] of codes) {
    const v = x[place];
    const isKnown = Number.isInteger(v) && v >= 0 && v < count;
    const chosen = !Number.isFinite(v) ? missing : isKnown ? v : other;
    for (const level of levels) {
      a.push(chosen === level ? 1 : 0);
    }
  }
  let heard = [];
  for (const layer of layers) {
    a.push(...heard.map(activation));
    heard = layer.map(([bias, places, weights]) =>
      weights.reduce(
        (sum, weight, k) => sum + weight * a[typeof places === "number" ? places + k : places[k]],
        bias,
      ));
  }
  return heard;
}

// Of one logit the probability of the second class, of several a softmax: an array.
function probabilitiesOf(y) {
  if (y.length === 1) {
    return [1 / (1 + Math.exp(y[0])), 1 / (1 + Math.exp(-y[0]))];
  }
  const most = Math.max(...y);
  const shares = y.map((v) => Math.exp(v - most));
  const total = shares.reduce((sum, share) => sum + share, 0);
  return shares.map((share) => share / total);
}

// Values within what may be answered.
function boundedBy(ends, y) {
  return ends.length ? y.map((v, k) => Math.min(Math.max(v, ends[k][0]), ends[k][1])) : y;
}
