// What training logged, over its steps: one plot a quantity, with that of evaluations beside it.
let logScale = false;

const groups = () => {
  const all = new Map();
  D.logs.forEach((log, l) => log.series.forEach(s => {
    const evaluated = s.name.startsWith("eval_"), name = evaluated ? s.name.slice(5) : s.name;
    if (!all.has(name)) all.set(name, []);
    all.get(name).push({ ...s, evaluated, log: l, label: (D.logs.length > 1 ? log.name + ": " : "") + (evaluated ? "evaluated" : "trained") });
  }));
  const first = name => name === "loss" ? 0 : /loss|accuracy/.test(name) ? 1 : /^(lr|learning_rate)/.test(name) ? 2 : 3;
  return [...all].sort((a, b) => first(a[0]) - first(b[0]));
};

const finite = list => list.filter(v => v !== null);
const roundTicks = (low, high, n) => {
  const gap = ticks(high - low, n)[1] || 1, out = [];
  for (let t = Math.ceil(low / gap - 1e-9) * gap; t <= high + gap * 1e-9; t += gap) out.push(Math.abs(t) < gap * 1e-9 ? 0 : t);
  return out;
};

const curvePlot = (name, series) => {
  const W = 640, H = 270, L = 66, R = 14, TOP = 12, B = 40, ys = series.flatMap(s => finite(s.y)), xs = series.flatMap(s => s.x);
  const logs = logScale && Math.min(...ys) > 0, f = v => logs ? Math.log10(v) : v;
  let low = f(Math.min(...ys)), high = f(Math.max(...ys));
  if (!ys.length) return el("p", { class: "soft" }, "no finite value");
  if (low === high) low -= Math.abs(low) / 10 || 1, high += Math.abs(high) / 10 || 1;
  const x0 = Math.min(...xs), x1 = Math.max(...xs) > x0 ? Math.max(...xs) : x0 + 1;
  const X = v => L + (W - L - R) * (v - x0) / (x1 - x0), Y = v => H - B - (H - B - TOP) * (f(v) - low) / (high - low);
  const kids = [];
  const marks = logs && high - low > 1.5 ? roundTicks(low, high, 5).filter(Number.isInteger).map(k => 10 ** k) : roundTicks(logs ? 10 ** low : low, logs ? 10 ** high : high, 5).filter(v => !logs || v > 0);
  for (const v of marks) kids.push(svg("line", { class: "grid", x1: L, x2: W - R, y1: Y(v), y2: Y(v) }),
    svg("text", { class: "soft", x: L - 8, y: Y(v) + 4, "text-anchor": "end" }, valueText(v)));
  for (const v of roundTicks(x0, x1, 5)) kids.push(svg("text", { class: "soft", x: X(v), y: H - B + 18, "text-anchor": "middle" }, countText(v)));
  kids.push(svg("text", { class: "soft", x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle" }, "training step"));
  series.forEach((s, i) => {
    let d = "", pen = false;
    s.x.forEach((v, k) => { if (s.y[k] === null) pen = false; else { d += `${pen ? "L" : "M"}${X(v).toFixed(1)} ${Y(s.y[k]).toFixed(1)}`; pen = true; } });
    kids.push(svg("path", { d, style: `fill:none;stroke:var(--series${s.hue});stroke-width:2` + (s.evaluated ? ";stroke-dasharray:7 4" : "") }));
    if (s.evaluated || s.x.length < 40) s.x.forEach((v, k) => { if (s.y[k] !== null) kids.push(svg("circle", { cx: X(v), cy: Y(s.y[k]), r: 3, style: `fill:var(--series${s.hue})` })); });
  });
  const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${name} over training steps` }, ...kids);
  picture.addEventListener("mousemove", e => {
    const box = picture.getBoundingClientRect(), v = x0 + ((e.clientX - box.left) / box.width * W - L) / (W - L - R) * (x1 - x0);
    tip(e, series.map(s => { const k = s.x.reduce((b, at, i) => Math.abs(at - v) < Math.abs(s.x[b] - v) ? i : b, 0);
      return `${s.label}, step ${s.x[k]}: ${s.y[k] === null ? "not finite" : valueText(s.y[k])}`; }).join("\n"));
  });
  picture.addEventListener("mouseleave", e => tip(e, ""));
  return picture;
};

const curveCard = ([name, series]) => {
  series.forEach((s, i) => { s.hue = (D.logs.length > 1 ? s.log : i) % 6; });
  const rows = series.map(s => {
    const ys = finite(s.y), best = Math.min(...ys), most = Math.max(...ys);
    return el("span", {}, el("i", { class: "dot square", style: `background:var(--series${s.hue})` }),
      `${s.label}${s.evaluated ? " (dashed)" : ""}: ` + (ys.length ? `last ${valueText(ys[ys.length - 1])}, least ${valueText(best)}, most ${valueText(most)}` : "no finite value")
      + (s.y.includes(null) ? "; gaps are values that were not finite" : ""));
  });
  return el("div", { class: "curve" }, el("h3", {}, name), curvePlot(name, series), el("div", { class: "legend" }, ...rows));
};

function drawCurves() {
  if (!D.logs.length) {
    $("training-say").textContent = D.entries.includes("train")
      ? "No log was given. 'netc train … --log run.jsonl' writes one, and 'netc report … --log run.jsonl' draws it here; several --log are compared."
      : "This file trains nothing.";
    return;
  }
  const thinned = D.logs.some(l => l.series.some(s => s.of > s.x.length)), halves = D.logs.filter(l => l.cut).map(l => l.name);
  $("training-say").textContent = `From ${D.logs.map(l => l.name).join(", ")}: every quantity the run reported, over its steps; evaluations are dashed.`
    + (thinned ? " Of many points the least and the largest of each stretch are drawn." : "")
    + (halves.length ? ` The last line of ${halves.join(", ")} is not complete and is left out.` : "");
  $("training-controls").replaceChildren(button("Logarithmic values", e => { logScale = !logScale; e.target.setAttribute("aria-pressed", String(logScale)); draw(); }, { "aria-pressed": "false" }));
  const draw = () => $("curves").replaceChildren(...groups().map(curveCard));
  draw();
}
