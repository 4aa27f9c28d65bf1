// Operations a second over operations a byte, both in powers of ten, under the roofs of the device.
const roofs = () => {
  const from = measured ? D.profile : D.roofs, list = [];
  for (const [type, rate] of Object.entries(from.matmul)) if (rate > 0) list.push([`products of ${type}`, rate, !measured]);
  if (D.roofs.f32 > 0 && !list.some(([, rate]) => rate === D.roofs.f32) && (!measured || !D.profile.device.startsWith("cpu")))
    list.push(["f32 outside of products", D.roofs.f32, true]);
  return { copy: from.copy_bytes_per_s, list };
};

const idle = s => s.flops < s.bytes / 1000; // it moves values, no more

// Equal calls of one kernel are one point.
const pointsOf = () => {
  const points = new Map();
  for (const s of steps) {
    if (idle(s) || !(s.bytes > 0) || !(s.time > 0)) continue;
    const key = [s.name, s.bytes, s.flops, s.types, s.phase].join("\n");
    if (!points.has(key)) points.set(key, { step: s, steps: [], time: 0, flops: 0, bytes: 0 });
    const p = points.get(key);
    p.steps.push(s);
    p.time += s.time;
    p.flops += s.flops * s.calls;
    p.bytes += s.bytes * s.calls;
  }
  return [...points.values()].sort((a, b) => b.time - a.time);
};

function drawRoofline() {
  const { copy, list } = roofs(), points = pointsOf(), W = 1100, H = 460, L = 96, R = 190, TOP = 22, B = 52;
  const place = $("roofline-plot");
  if (!points.length || !(copy > 0)) {
    place.replaceChildren(el("p", { class: "soft" }, "No kernel of this entry computes anything."));
    return;
  }
  const xs = points.map(p => p.flops / p.bytes), ys = points.map(p => p.flops / p.time), best = Math.max(...list.map(r => r[1]), 1);
  const x0 = Math.floor(Math.log10(Math.min(...xs, 0.1))), x1 = Math.ceil(Math.log10(Math.max(...xs, 10 * best / copy)));
  const y0 = Math.floor(Math.log10(Math.max(1, Math.min(...ys, best / 1e3)))), y1 = Math.ceil(Math.log10(Math.max(best, ...ys) * 1.3));
  const X = v => L + (W - L - R) * (Math.log10(v) - x0) / (x1 - x0), Y = v => H - B - (H - B - TOP) * (Math.log10(v) - y0) / (y1 - y0);
  const parts = [];
  const text = (x, y, says, attributes = {}) => parts.push(svg("text", { x, y, class: "soft", ...attributes }, says));
  for (let k = x0; k <= x1; k++) {
    parts.push(svg("line", { class: "grid", x1: X(10 ** k), x2: X(10 ** k), y1: TOP, y2: H - B }));
    text(X(10 ** k), H - B + 18, valueText(10 ** k), { "text-anchor": "middle" });
  }
  for (let k = y0; k <= y1; k++) {
    parts.push(svg("line", { class: "grid", y1: Y(10 ** k), y2: Y(10 ** k), x1: L, x2: W - R }));
    text(L - 8, Y(10 ** k) + 4, rateText(10 ** k), { "text-anchor": "end" });
  }
  text((L + W - R) / 2, H - 12, "operations a byte that must be moved: further right, the device can reuse more of what it loads", { "text-anchor": "middle" });
  text(L, 14, "operations a second");
  const edge = best / copy, low = Math.max(10 ** x0, 10 ** y0 / copy);
  parts.push(svg("path", { class: "roof" + (measured ? "" : " modelled"), d: `M${X(low)} ${Y(low * copy)}L${X(edge)} ${Y(best)}` }));
  const slope = Math.atan2(Y(best) - Y(low * copy), X(edge) - X(low)) * 180 / Math.PI, at = low * (edge / low) ** 0.2;
  text(0, 0, `memory, ${speedText(copy)}`, { transform: `translate(${X(at) + 8} ${Y(at * copy) + 14}) rotate(${slope})`, "text-anchor": "middle" });
  list.sort((a, b) => b[1] - a[1]);
  let above = -Infinity;
  for (const [says, rate, modelled] of list) {
    parts.push(svg("path", { class: "roof" + (modelled ? " modelled" : ""), d: `M${X(rate / copy)} ${Y(rate)}L${W - R} ${Y(rate)}` }));
    const y = Math.max(Y(rate), above + 34);
    text(W - R + 8, y, says);
    text(W - R + 8, y + 15, rateText(rate) + (modelled && measured ? ", not measured" : ""));
    above = y;
  }
  for (const p of points) {
    const c = svg("circle", { class: "point" + (p.steps.includes(chosen) ? " chosen" : ""), cx: X(p.flops / p.bytes), cy: Y(p.flops / p.time),
      r: 4 + 22 * Math.sqrt(p.time / (total || 1)), style: `fill:var(--${p.step.phase})`, tabindex: -1 });
    const says = `${p.step.name}\n${p.steps.length} × in the step, ${shareText(p.time / total)} of it\n${valueText(p.flops / p.bytes)} operations a byte\n`
      + `${rateText(p.flops / p.time)}, ${speedText(p.bytes / p.time)} ${timeWord}\n${p.step.line}`;
    c.addEventListener("mousemove", e => tip(e, says));
    c.addEventListener("mouseleave", e => tip(e, ""));
    c.addEventListener("click", () => choose(p.step));
    parts.push(c);
  }
  place.replaceChildren(svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Roofline; the table of kernels below has the numbers" }, ...parts));
  const movers = steps.filter(s => idle(s) && s.time > 0);
  $("roofline-say").textContent = "How fast each kernel computes (up) over how much it computes for each byte it must move (right); both scales grow by powers of ten. "
    + "The lines, the roofs, are the most that the device can do: on the left memory limits it, on the right arithmetic. A large circle far below its roof is worth work. "
    + (measured ? `Circles and solid roofs were measured on ${D.profile.device}` + (D.profile.cache === "cold" ? ", caches emptied before each call. " : "; what still lies in a cache can pass the memory roof. ")
      : "Nothing was measured: the roofs are those of a typical device of the target, and every circle is drawn on its roof. ")
    + (movers.length ? `${movers.length === 1 ? "A step that only moves or fills memory is" : movers.length + " steps that only move or fill memory are"} left out (${shareText(movers.reduce((t, s) => t + s.time, 0) / total)} of the step).` : "");
  const seen = new Set(points.map(p => p.step.phase));
  legend("roofline-legend", [...[...PHASES, "other"].filter(p => seen.has(p)).map(p => [p, p, true]), ["fg", "size: share of the step", true]]);
}
