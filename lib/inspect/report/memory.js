// What lies where while the step runs: the sum of what is alive, and below it every value as a box,
// as wide as the steps between which it is needed and as high as it is large.
const temporaries = buffers.filter(b => b.region === "temporary" && b.bytes > 0);
const phaseOfBuffer = b => (writers.get(b.id) || [{ phase: "other" }])[0].phase;
let memoryStep = null, memoryView = null;

const aliveAt = step => temporaries.filter(b => b.first <= step && step <= b.last).sort((a, b) => b.bytes - a.bytes);

const aliveSums = () => {
  const change = new Float64Array(planSteps + 2), sums = [];
  for (const b of temporaries) { change[b.first] += b.bytes; change[Math.min(planSteps, b.last) + 1] -= b.bytes; }
  for (let i = 0, at = 0; i < planSteps; i++) sums.push(at += change[i]);
  return sums;
};

const LEFT = 84, TOP_HIGH = 130, MAP_HIGH = 300, MID = 34, BOTTOM = 40;

const drawMemory = p => {
  const { g, width } = p, sums = memoryView.sums, most = Math.max(1, ...sums), arena = Math.max(1, D.memory.arena);
  const wide = width - LEFT - 16, x = s => LEFT + wide * s / planSteps, mapTop = 24 + TOP_HIGH + MID;
  g.clearRect(0, 0, width, p.height);
  const fg = color("fg"), soft = color("soft"), line = color("line");
  const axis = (top, high, most, says) => {
    g.fillStyle = soft;
    g.textAlign = "left";
    g.fillText(says, LEFT, top - 8);
    g.textAlign = "right";
    const unit = 1024 ** Math.max(0, Math.floor(Math.log2(most) / 10));
    for (const t of ticks(most / unit, high > 200 ? 5 : 3)) {
      const y = top + high - high * t * unit / most;
      g.strokeStyle = line;
      g.beginPath(), g.moveTo(LEFT, y), g.lineTo(LEFT + wide, y), g.stroke();
      g.fillText(bytesText(t * unit), LEFT - 8, y + 4);
    }
  };
  axis(24, TOP_HIGH, most, "bytes of temporary values alive in a step");
  g.fillStyle = color("other");
  g.globalAlpha = 0.55;
  g.beginPath();
  g.moveTo(x(0), 24 + TOP_HIGH);
  sums.forEach((v, i) => { const y = 24 + TOP_HIGH * (1 - v / most); g.lineTo(x(i), y); g.lineTo(x(i + 1), y); });
  g.lineTo(x(planSteps), 24 + TOP_HIGH);
  g.fill();
  g.globalAlpha = 1;
  axis(mapTop, MAP_HIGH, arena, "where they lie: address in the block of temporaries");
  for (const b of temporaries) {
    const x0 = x(b.first), w = Math.max(1, x(b.last + 1) - x0), h = MAP_HIGH * b.bytes / arena;
    const y = mapTop + MAP_HIGH - MAP_HIGH * (b.offset + b.bytes) / arena;
    g.fillStyle = color(memoryView.phase[b.id]);
    g.globalAlpha = chosen && (chosen.reads.includes(b.id) || chosen.writes.includes(b.id)) ? 1 : 0.5;
    g.fillRect(x0, y, w, Math.max(h, 0.5));
    g.globalAlpha = 1;
    if (h > 3 && w > 3) { g.strokeStyle = color("panel"); g.lineWidth = 1; g.strokeRect(x0 + 0.5, y + 0.5, w - 1, h - 1); }
    if (h > 15 && w > 60) { g.fillStyle = fg; g.textAlign = "left"; g.fillText(cut(b.name, Math.floor(w / 8)), x0 + 5, y + h / 2 + 4); }
  }
  g.fillStyle = soft;
  g.textAlign = "center";
  for (const t of ticks(planSteps, 8)) g.fillText(t, x(t), mapTop + MAP_HIGH + 16);
  g.fillText("step of the plan, in the order in which they run", LEFT + wide / 2, mapTop + MAP_HIGH + 33);
  const mark = (at, name) => {
    g.strokeStyle = color(name);
    g.lineWidth = 2;
    g.beginPath(), g.moveTo(x(at + 0.5), 20), g.lineTo(x(at + 0.5), mapTop + MAP_HIGH), g.stroke();
    g.lineWidth = 1;
  };
  if (memoryStep !== null) mark(memoryStep, "fg");
  if (chosen) mark(chosen.place, "mark");
};

const showAlive = step => {
  memoryStep = step;
  const list = aliveAt(step), s = stepAt.get(step), MOST = 12;
  $("memory-alive").replaceChildren(
    el("p", {}, `Step ${step}: `, s ? button(s.name, () => choose(s), { class: "link" }) : "(a loop begins)",
      `. ${list.length} values are alive, ${bytesText(list.reduce((t, b) => t + b.bytes, 0))} in all`
      + (list.length > MOST ? `; the ${MOST} largest:` : ":")),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...["value", "type", "line"].map(t => el("th", { class: "text" }, t)),
      ...["size", "address", "steps"].map(t => el("th", {}, t)))),
    el("tbody", {}, ...list.slice(0, MOST).map(b => el("tr", {}, el("td", { class: "text" }, el("i", { class: "dot square",
      style: `background:var(--${memoryView.phase[b.id]})` }), b.name), el("td", { class: "text" }, b.type), el("td", { class: "text" }, b.line),
    el("td", {}, bytesText(b.bytes)), el("td", {}, bytesText(b.offset)), el("td", {}, `${b.first} to ${b.last}`)))))));
  memoryView.plot.draw();
};

function drawMemorySection() {
  const sums = aliveSums(), m = D.memory, all = m.parameters + m.states + m.arena || 1;
  memoryView = { sums, phase: buffers.map(phaseOfBuffer) };
  const parts = [["parameter", "parameters", m.parameters], ["input", "states: of optimizers, of the model", m.states], ["other", "temporaries", m.arena]];
  $("memory-bar").replaceChildren(el("div", { class: "bar" }, ...parts.map(([c, , n]) =>
    el("i", { style: `width:${100 * n / all}%;background:var(--${c})` }))),
    el("div", { class: "legend" }, ...parts.map(([c, text, n]) => el("span", {}, el("i", { class: "dot square", style: `background:var(--${c})` }), `${text}: ${bytesText(n)}`))));
  $("memory-say").textContent = "Parameters and states stay on the device all the time; temporary values share one block whose places are planned when "
    + "the model is compiled. A box below is such a value: from left to right the steps that need it, from bottom to top its place. What is higher "
    + "than its neighbours and long is what to recompute or to shrink. Point at the plot, click it, or use the arrow keys to see what a step holds.";
  if (!temporaries.length) {
    $("memory-plot").remove();
    $("memory-alive").textContent = "This entry has no temporary values.";
    return;
  }
  const seen = new Set(temporaries.map(b => memoryView.phase[b.id]));
  legend("memory-legend", [...PHASES, "other"].filter(p => seen.has(p)).map(p => [p, p === "other" ? "other" : `written in the ${p} part`]));
  const p = memoryView.plot = plot("memory-plot", 24 + TOP_HIGH + MID + MAP_HIGH + BOTTOM, drawMemory);
  const stepOf = e => Math.min(planSteps - 1, Math.max(0, Math.floor((e.offsetX - LEFT) / (p.width - LEFT - 16) * planSteps)));
  const boxAt = e => {
    const step = stepOf(e), at = (24 + TOP_HIGH + MID + MAP_HIGH - e.offsetY) / MAP_HIGH * D.memory.arena;
    return temporaries.find(b => b.first <= step && step <= b.last && b.offset <= at && at < b.offset + b.bytes);
  };
  p.canvas.addEventListener("mousemove", e => {
    const b = boxAt(e), step = stepOf(e);
    tip(e, b ? `${b.name}\n${b.type}, ${bytesText(b.bytes)}\nsteps ${b.first} to ${b.last}${b.line ? "\n" + b.line : ""}` : `step ${step}: ${bytesText(sums[step] || 0)} alive`);
  });
  p.canvas.addEventListener("mouseleave", e => tip(e, ""));
  p.canvas.addEventListener("click", e => showAlive(stepOf(e)));
  p.canvas.addEventListener("keydown", e => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[e.key];
    if (!by) return;
    e.preventDefault();
    showAlive(Math.min(planSteps - 1, Math.max(0, (memoryStep || 0) + by)));
  });
  showAlive(sums.indexOf(Math.max(...sums)));
}
