// Of every mark and text that is visible, the contrast to what lies behind it.
() => {
  const parsed = (text) => { const n = text.match(/[\d.]+/g).map(Number); return [n.slice(0, 3), n[3] ?? 1]; };
  const over = ([a, share], under) => a.map((v, i) => v * share + under[i] * (1 - share));
  const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parsed(getComputedStyle(e).backgroundColor); if (c[1] === 1) return c[0]; } };
  const seen = (e) => e.checkVisibility() && e.getClientRects().length > 0;
  const paint = (e, part, under) => { const s = getComputedStyle(e); if (s[part] === "none") return null;
    const [rgb, a] = parsed(s[part]); return over([rgb, a * Number(s[`${part}Opacity`]) * Number(s.opacity)], under); };
  const marks = [...document.querySelectorAll("svg circle, svg rect, svg path, svg line")].filter((e) => seen(e) && !e.closest("clipPath")
      && !e.matches(".grid, .cell.none") && !(e.matches(".halo") && getComputedStyle(e).stroke === "none"))
    .map((e) => { const under = ground(e); return [`${e.tagName}.${e.getAttribute("class")}`,
      Math.max(...["fill", "stroke"].map((part) => paint(e, part, under)).filter(Boolean).map((rgb) => contrast(rgb, under)))]; });
  const texts = [...document.querySelectorAll("body *")].filter((e) => seen(e) && !e.matches("script, style, .unseen, .skip-link")
      && !e.closest("[aria-disabled=true]") && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .map((e) => { const cell = e.matches(".on-cell") ? paint(e.previousElementSibling, "fill", ground(e)) : ground(e);
      const own = e instanceof SVGElement ? paint(e, "fill", cell) : over(parsed(getComputedStyle(e).color), cell);
      return [e.textContent.slice(0, 40), contrast(own, cell)]; });
  return { marks, texts };
}
