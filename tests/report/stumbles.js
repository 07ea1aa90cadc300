// What a screen reader or somebody without a mouse would stumble over.
() => {
  const all = (selector) => [...document.querySelectorAll(selector)], found = [];
  const ids = all("[id]").map((e) => e.id);
  found.push(...ids.filter((id, i) => ids.indexOf(id) !== i).map((id) => `id ${id} twice`));
  for (const e of all("button, select, input, summary, svg[role], [role=region], [role=radio], textarea"))
    if (!(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.[0]?.textContent.trim())) found.push(`no name: ${e.outerHTML.slice(0, 80)}`);
  for (const e of all("[aria-labelledby], label[for], output[for]"))
    for (const id of (e.getAttribute("aria-labelledby") || e.htmlFor?.value || e.htmlFor || "").split(" ")) if (!ids.includes(id)) found.push(`nothing is called ${id}`);
  for (const e of all("[aria-valuetext]")) if (e.type !== "range") found.push(`a value of ${e.tagName}`);
  for (const e of all("thead th")) if (e.scope !== "col") found.push("a head without scope");
  for (const e of all(".scroll, pre")) if (e.tabIndex !== 0) found.push("scrolls without keys");
  const levels = all("h1, h2, h3").map((e) => Number(e.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1 || levels.some((level, i) => i && level > levels[i - 1] + 1)) found.push(`headings ${levels}`);
  if (all("main").length !== 1 || !document.title || !document.documentElement.lang) found.push("no main, title or language");
  return found;
}
