// The panel that says all of one step, and the step that is chosen in every view.
let chosen = null;

const fact = (name, value) => value === null || value === "" ? null : el("tr", {}, el("th", {}, name), el("td", {}, value));
const bufferText = b => `${b.name}: ${b.type}, ${bytesText(b.bytes)}${b.region === "temporary" ? "" : ", " + b.region}`;

const valueList = (s, ids, others, word) => el("ul", { style: "padding-left:18px;margin:4px 0" }, ...ids.map(id => {
  const b = buffers[id], list = (others.get(id) || []).filter(x => x !== s);
  return el("li", {}, bufferText(b), ...list.slice(0, 4).flatMap((x, i) =>
    [i ? ", " : ` ${word} `, button(x.name, () => choose(x), { class: "link" })]), list.length > 4 ? ` and ${list.length - 4} more` : "");
}));

const opsList = s => {
  const MOST = 60, list = s.ops.slice(0, MOST).map(([label, op, type, line, ...args]) =>
    `${T[label]} = ${T[op]}(${args.map(a => T[a]).join(", ")})  ${T[type]}${T[line] !== s.line && T[line] ? "  " + T[line] : ""}`);
  return el("div", {}, el("h4", {}, `What it computes: ${s.ops.length} operation${s.ops.length > 1 ? "s" : ""}`),
    el("pre", {}, list.join("\n") + (s.ops.length > MOST ? `\n… and ${s.ops.length - MOST} more` : "")));
};

const timeFacts = s => {
  if (!measured) return [fact("Modelled time", `${timeText(s.floor)} a call: what the target needs at least, not a measurement`)];
  if (!s.rows.length) return [fact("Measured time", "none of its own: another step's kernel does its work here")];
  return s.rows.flatMap(r => [
    fact(r.name === s.name ? "Measured" : `Measured, as ${r.name}`, `${timeText(r.seconds)} a call (quartiles ${timeText(r.low)} to ${timeText(r.high)})`),
    fact("Floor", r.seconds > 0 ? `${timeText(r.floor)}, ${(100 * r.floor / r.seconds).toFixed(0)} % of it` : timeText(r.floor))]);
};

function choose(s) {
  chosen = s;
  const panel = $("detail");
  panel.hidden = !s;
  document.body.classList.toggle("beside", s !== null);
  if (s) {
    for (let at = s.home; at; at = at.up) open.add(at);
    const perCall = s.time / s.calls, text = lineText.get(s.line);
    panel.replaceChildren(button("Close", () => choose(null), { class: "close" }), el("h3", {}, s.name),
      el("p", { class: "soft", style: "margin:0" }, `${kindText[s.kind] || s.kind}, step ${s.place}, ${s.phase}`),
      s.line ? el("h4", {}, s.line) : "", text ? el("pre", {}, text) : "",
      el("table", {}, fact("Scope", s.scope || D.model + " (the whole model)"), fact("Types", s.types), fact("Schedule", s.schedule),
        fact("Calls a step", String(s.calls)), fact("Share of the step", `${shareText(s.time / total || 0)}, ${timeText(s.time)} ${timeWord}`),
        ...timeFacts(s), fact("Must move", `${bytesText(s.bytes)} a call` + (perCall > 0 ? `, ${speedText(s.bytes / perCall)}` : "")),
        fact("Must compute", s.flops ? `${flopText(s.flops)} a call` + (perCall > 0 ? `, ${rateText(s.flops / perCall)}` : "") : "nothing")),
      el("h4", {}, "Reads"), valueList(s, s.reads, writers, "from"), el("h4", {}, "Writes"), valueList(s, s.writes, readers, "for"),
      s.ops.length ? opsList(s) : "");
    panel.scrollTop = 0;
  }
  drawTree();
  drawFlow();
  drawRoofline();
  for (const c of canvases) c.draw();
  const row = s && document.querySelector(`#tree [data-step="${s.place}"]`);
  if (row) $("tree").scrollTop += row.getBoundingClientRect().top - $("tree").getBoundingClientRect().top - 200;
}
