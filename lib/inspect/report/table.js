// Every step as a row, sorted and filtered.
const COLUMNS = [
  ["step", s => s.place, s => String(s.place)],
  ["kernel", s => s.name, s => s.name, true],
  ["scope", s => s.scope, s => s.scope || "–", true],
  ["line", s => s.line, s => s.line || "–", true],
  ["part", s => s.phase, s => s.phase, true],
  ["calls", s => s.calls, s => String(s.calls)],
  [`time, ${timeWord}`, s => s.time, s => timeText(s.time)],
  ["share", s => s.time, s => shareText(s.time / total || 0)],
  ["moves", s => s.bytes * s.calls, s => bytesText(s.bytes * s.calls)],
  ["computes", s => s.flops * s.calls, s => s.flops ? flopText(s.flops * s.calls) : "–"],
  ...(measured ? [["of floor", s => floorShare(s), s => s.time > 0 ? (100 * floorShare(s)).toFixed(0) + " %" : "–"]] : []),
];
const floorShare = s => s.time > 0 ? s.rows.reduce((t, r) => t + r.floor * r.calls, 0) / s.time : -1;
let sortBy = 6, sortDown = true, tableMost = 100;

function drawTable() {
  const only = $("filter").value.trim().toLowerCase(), [, key] = COLUMNS[sortBy];
  const rows = steps.filter(s => !only || `${s.name} ${s.scope} ${s.line} ${s.phase}`.toLowerCase().includes(only));
  rows.sort((a, b) => { const x = key(a), y = key(b), c = x < y ? -1 : x > y ? 1 : a.place - b.place; return sortDown && x !== y ? -c : c; });
  const head = el("thead", {}, el("tr", {}, ...COLUMNS.map(([name, , , text], i) =>
    el("th", { class: text ? "text" : null, "aria-sort": i === sortBy ? (sortDown ? "descending" : "ascending") : null },
      button(name + (i === sortBy ? (sortDown ? " ▾" : " ▴") : ""), () => { sortDown = i === sortBy ? !sortDown : !text; sortBy = i; drawTable(); })))));
  const body = el("tbody", {}, ...rows.slice(0, tableMost).map(s => el("tr", { tabindex: 0, title: lineText.get(s.line) || "", onclick: () => choose(s),
    onkeydown: e => { if (e.key === "Enter") choose(s); } }, ...COLUMNS.map(([name, , say, text]) => el("td", { class: text ? "text" : null },
    name === "kernel" ? el("i", { class: "dot", style: `background:var(--${s.phase})` }) : "", say(s))))));
  $("table").replaceChildren(head, body);
  const shown = Math.min(tableMost, rows.length);
  $("rows-shown").replaceChildren(shown < rows.length ? `${shown} of ${rows.length} steps ` : `${rows.length} steps`,
    shown < rows.length ? button("Show all", () => { tableMost = Infinity; drawTable(); }, { class: "link" }) : "");
}
