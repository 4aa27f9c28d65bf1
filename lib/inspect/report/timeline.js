// The step from begin to end: parts, scopes and kernels as boxes over time.
let view = null; // [begin, end] in seconds

const lanes = () => {
  let at = 0;
  const spans = [];
  for (const s of steps) {
    spans.push({ step: s, begin: at, end: at + s.time });
    at += s.time;
  }
  const deepest = Math.min(4, Math.max(1, ...steps.map(s => parts(s.scope).length)));
  const merged = (key, least) => { // what is shorter than [least] goes with what is before it
    const out = [];
    for (const { step, begin, end } of spans) {
      const k = key(step), last = out[out.length - 1];
      if (last && (last.key === k || end - begin < least)) { last.end = end; last.n++; } else out.push({ key: k, begin, end, n: 1, step });
    }
    return out.filter(x => x.key !== null);
  };
  const list = [{ name: "part", boxes: merged(s => s.phase, total / 400), paint: b => b.key }];
  for (let d = 0; d < deepest; d++)
    list.push({ name: d ? "" : "scope", boxes: merged(s => { const p = parts(s.scope); return p.length > d ? p.slice(0, d + 1).join(".") : null; }, 0),
      paint: b => b.step.phase });
  list.push({ name: "kernel", boxes: spans.map(x => ({ key: x.step.name, ...x, n: 1, kernel: true })), paint: b => b.step.phase });
  return list;
};

const LANE = 34, T_LEFT = 70;
let laneList = null, timelinePlot = null;

const drawTimeline = p => {
  const { g, width } = p, wide = width - T_LEFT - 14, [from, to] = view, x = t => T_LEFT + wide * (t - from) / (to - from);
  g.clearRect(0, 0, width, p.height);
  const soft = color("soft"), fg = color("fg"), panel = color("panel");
  laneList.forEach((lane, k) => {
    const y = 8 + k * LANE;
    g.fillStyle = soft;
    g.textAlign = "left";
    g.fillText(lane.name, 10, y + 20);
    let painted = -1;
    lane.boxes.forEach((b, i) => {
      if (b.end < from || b.begin > to) return;
      const x0 = Math.max(T_LEFT, x(b.begin)), x1 = Math.min(T_LEFT + wide, x(b.end)), w = x1 - x0;
      if (w < 0.4 && x1 < painted + 0.5) return; // thinner than what can be seen
      painted = x1;
      const mine = b.kernel && b.step === chosen;
      g.fillStyle = mine ? color("mark") : color(lane.paint(b));
      g.globalAlpha = mine ? 1 : b.kernel ? (b.step.kind === "gemm" ? 0.85 : 0.45) : i % 2 ? 0.4 : 0.6;
      g.fillRect(x0, y, Math.max(w, 0.6), LANE - 5);
      g.globalAlpha = 1;
      if (w > 3) { g.strokeStyle = panel; g.strokeRect(x0, y, w, LANE - 5); }
      const says = k && !b.kernel ? b.key.split(".").slice(-2).join(".").replace(/^.*\.(?=[^.]*[^.\d])/, "") : b.key, most = Math.floor((w - 8) / 7.4);
      if (most >= Math.min(3, says.length)) { g.fillStyle = fg; g.fillText(cut(says, most), x0 + 5, y + 19); }
    });
  });
  const y = 8 + laneList.length * LANE + 14;
  g.textAlign = "center";
  g.fillStyle = soft;
  const span = to - from, unit = span < 1e-3 ? 1e-6 : span < 1 ? 1e-3 : 1, step = ticks(span / unit, Math.max(3, wide / 140));
  const gap = (step[1] || 1) * unit;
  for (let t = Math.ceil(from / gap) * gap; t <= to + 1e-15; t += gap) {
    g.fillText(timeText(t), Math.min(x(t), width - 30), y);
    g.strokeStyle = color("line");
    g.beginPath(), g.moveTo(x(t), 4), g.lineTo(x(t), y - 12), g.stroke();
  }
};

const zoom = (factor, about) => {
  const [from, to] = view, at = about === undefined ? (from + to) / 2 : about, span = Math.min(total, Math.max(total / 1e5, (to - from) * factor));
  const begin = Math.min(Math.max(0, at - (at - from) / (to - from) * span), total - span);
  view = [begin, begin + span];
  timelinePlot.draw();
};
const shift = by => {
  const span = view[1] - view[0], begin = Math.min(Math.max(0, view[0] + by * span), total - span);
  view = [begin, begin + span];
  timelinePlot.draw();
};

function drawTimelineSection() {
  $("timeline-say").textContent = (measured
    ? `The calls of one step after another, each as long as it takes on ${D.profile.device} on its own (median). A step run as a whole takes ${timeText(D.profile.seconds)}, its calls sum to ${timeText(D.profile.sum_seconds)}: calls may overlap, and between them there are launches. `
    : "The calls of one step after another, each as long as a typical device of the target needs at least: modelled, not measured. ")
    + "Above the kernels are the scopes that they belong to and the part of the step. What a loop repeats is drawn once, with the time of all its rounds. "
    + "Turn the wheel over the plot or use + and − to zoom, drag or use the arrow keys to move, click a box to see what it is.";
  if (!(total > 0)) {
    $("timeline-plot").remove();
    $("timeline-at").textContent = "Nothing of this entry takes time.";
    return;
  }
  laneList = lanes();
  view = [0, total];
  const p = timelinePlot = plot("timeline-plot", 8 + laneList.length * LANE + 26, drawTimeline), c = p.canvas;
  const timeAt = e => view[0] + (e.offsetX - T_LEFT) / (p.width - T_LEFT - 14) * (view[1] - view[0]);
  const boxAt = e => {
    const lane = laneList[Math.floor((e.offsetY - 8) / LANE)], t = timeAt(e);
    return e.offsetX < T_LEFT || !lane ? null : lane.boxes.find(b => b.begin <= t && t < b.end);
  };
  let drag = null;
  c.addEventListener("wheel", e => { if (e.ctrlKey || e.shiftKey || Math.abs(e.deltaX) < Math.abs(e.deltaY)) { e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : 0.8, timeAt(e)); } }, { passive: false });
  c.addEventListener("mousedown", e => { drag = { x: e.offsetX, view, moved: false }; });
  addEventListener("mouseup", () => { setTimeout(() => { drag = null; }); });
  c.addEventListener("mousemove", e => {
    if (drag) {
      const span = drag.view[1] - drag.view[0], by = (drag.x - e.offsetX) / (p.width - T_LEFT - 14) * span;
      drag.moved = drag.moved || Math.abs(drag.x - e.offsetX) > 3;
      const begin = Math.min(Math.max(0, drag.view[0] + by), total - span);
      view = [begin, begin + span];
      return p.draw();
    }
    const b = boxAt(e);
    tip(e, !b ? "" : b.kernel ? brief(b.step) : `${b.key}\n${b.n} kernels, ${timeText(b.end - b.begin)} ${timeWord}, ${shareText((b.end - b.begin) / total)} of the step`);
  });
  c.addEventListener("mouseleave", e => tip(e, ""));
  c.addEventListener("click", e => {
    const b = boxAt(e);
    if (!b || (drag && drag.moved)) return;
    if (b.kernel) return choose(b.step);
    view = [b.begin, b.end];
    p.draw();
  });
  c.addEventListener("keydown", e => {
    const act = { ArrowLeft: () => shift(-0.1), ArrowRight: () => shift(0.1), "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4), "0": () => { view = [0, total]; p.draw(); } }[e.key];
    if (act) { e.preventDefault(); act(); }
  });
  $("zoom-in").addEventListener("click", () => zoom(0.6));
  $("zoom-out").addEventListener("click", () => zoom(1.7));
  $("zoom-all").addEventListener("click", () => { view = [0, total]; p.draw(); });
  const seen = new Set(steps.map(s => s.phase));
  legend("timeline-legend", [...PHASES, "other"].filter(q => seen.has(q)).map(q => [q, q === "other" ? "other steps" : q]));
  $("timeline-legend").append(el("span", {}, "stronger colour: calls of the matmul library"));
}
