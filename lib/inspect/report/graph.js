// The tree of scopes with their kernels, and the flow of values inside of one.
const open = new Set([root]);
const SHOWN = 200; // kernels of a scope before "more"
const more = new Map();
let flowScope = root, flowPhase = "forward";

const phaseBar = list => {
  const bar = el("span", { class: "bar", "aria-hidden": true }), time = {};
  for (const s of list) time[s.phase] = (time[s.phase] || 0) + s.time;
  for (const p of [...PHASES, "other"])
    if (time[p]) bar.append(el("i", { style: `width:${100 * time[p] / (total || 1)}%;background:var(--${p})` }));
  return bar;
};

const row = (depth, attributes, name, list) => el("div",
  { ...attributes, role: "treeitem", tabindex: -1, "aria-level": depth + 1, style: `padding-left:${6 + 16 * depth}px` },
  el("span", { class: "name" }, ...name), phaseBar(list),
  el("span", { class: "number" }, timeText(list.reduce((t, s) => t + s.time, 0))));

const toggle = scope => {
  open.has(scope) ? open.delete(scope) : open.add(scope);
  drawTree(scope);
};

const scopeRow = (scope, depth) => {
  const is = open.has(scope), n = scope.all.length;
  const says = `${scope.path || D.model}\n${n} ${n === 1 ? "kernel" : "kernels"} a step, ${timeText(scope.time)} ${timeWord} (${shareText(scope.time / total || 0)})`
    + (scope.params ? `\n${countText(scope.params)} parameters` : "") + (scope.output ? `\noutput [${scope.output.join(", ")}]` : "");
  const r = row(depth, {
    class: "item" + (flowScope === scope ? " chosen" : ""), "aria-expanded": String(is), "data-scope": scope.path,
    onclick: () => { flowScope = scope; pickPhase(); drawFlow(); toggle(scope); },
    onmousemove: e => tip(e, says), onmouseleave: e => tip(e, ""),
  }, [el("span", { class: "twist", "aria-hidden": true }, is ? "▾" : "▸"), el("span", { class: "scope" }, scope.name),
    el("span", { class: "soft" }, `  ${n}${scope.params ? ", " + countText(scope.params) + " parameters" : ""}`)], scope.all);
  r.model = scope;
  return r;
};

const kernelRow = (s, depth) => {
  const r = row(depth, {
    class: "item" + (chosen === s ? " chosen" : ""), "data-step": s.place, onclick: () => choose(s),
    onmousemove: e => tip(e, brief(s)), onmouseleave: e => tip(e, ""),
  }, [el("i", { class: "dot", style: `background:var(--${s.phase})`, title: s.phase }), s.name], [s]);
  r.model = s;
  return r;
};

const addRows = (scope, depth, out) => {
  out.push(scopeRow(scope, depth));
  if (!open.has(scope)) return;
  const most = more.get(scope) || SHOWN;
  const inside = [...below(scope).map(x => [x.first, x]), ...scope.steps.slice(0, most).map(s => [s.place, s])];
  inside.sort((a, b) => a[0] - b[0]);
  for (const [, x] of inside) x.below ? addRows(x, depth + 1, out) : out.push(kernelRow(x, depth + 1));
  if (scope.steps.length > most)
    out.push(el("div", { class: "item", role: "treeitem", tabindex: -1 }, button(`${scope.steps.length - most} more kernels of ${scope.name}`,
      () => { more.set(scope, most + 5 * SHOWN); drawTree(scope); }, { class: "link" })));
};

function drawTree(focus) {
  const rows = [], tree = $("tree"), at = tree.scrollTop;
  addRows(root, 0, rows);
  tree.replaceChildren(...rows);
  tree.scrollTop = at;
  const one = rows.find(r => focus && r.model === focus) || rows[0];
  one.tabIndex = 0;
  if (focus && tree.contains(document.activeElement) === false && focus !== root) one.focus({ preventScroll: true });
}

const treeKey = e => {
  const rows = [...$("tree").children], at = rows.indexOf(document.activeElement), x = rows[at] && rows[at].model;
  if (at < 0) return;
  const go = k => { if (rows[k]) { rows[at].tabIndex = -1; rows[k].tabIndex = 0; rows[k].focus(); } };
  if (e.key === "ArrowDown") go(at + 1);
  else if (e.key === "ArrowUp") go(at - 1);
  else if (e.key === "Home") go(0);
  else if (e.key === "End") go(rows.length - 1);
  else if (e.key === "ArrowRight" && x && x.below && !open.has(x)) toggle(x);
  else if (e.key === "ArrowLeft" && x && x.below && open.has(x)) toggle(x);
  else if (e.key === "Enter" || e.key === " ") rows[at].click();
  else return;
  e.preventDefault();
};

// -- the flow --------------------------------------------------------------------------------------
const WIDE = 236, HIGH = 54, GAP_X = 26, GAP_Y = 38, MOST_BOXES = 150;
const has = (scope, phase) => scope.all.some(s => s.phase === phase);
const pickPhase = () => {
  if (!has(flowScope, flowPhase)) flowPhase = [...PHASES, "other"].find(p => has(flowScope, p)) || "forward";
};

const boxesOf = (scope, phase) => {
  const boxes = [];
  for (const b of below(scope)) {
    const list = b.all.filter(s => s.phase === phase);
    if (list.length) boxes.push({ scope: b, steps: list, first: list[0].place });
  }
  for (const s of scope.steps) if (s.phase === phase) boxes.push({ step: s, steps: [s], first: s.place });
  return boxes.sort((a, b) => a.first - b.first);
};

// Edges go from earlier boxes to later ones: what flows back is another part of the step.
const edgesOf = boxes => {
  const home = new Map(), edges = new Map();
  boxes.forEach((b, i) => { b.outside = new Set(); for (const s of b.steps) home.set(s, i); });
  boxes.forEach((b, i) => {
    for (const s of b.steps) for (const id of s.reads) {
      const made = (writers.get(id) || []).filter(w => w.place <= s.place);
      if (!made.length) { if (buffers[id].region !== "parameter") b.outside.add(id); continue; }
      for (const w of made.slice(-1)) {
        const from = home.get(w);
        if (from === undefined) b.outside.add(id);
        else if (from < i) {
          const key = from * boxes.length + i;
          if (!edges.has(key)) edges.set(key, { from, to: i, values: new Set() });
          edges.get(key).values.add(id);
        }
      }
    }
  });
  return [...edges.values()];
};

const place = (boxes, edges) => {
  for (const b of boxes) b.layer = 0;
  for (const e of [...edges].sort((a, b) => a.to - b.to || a.from - b.from))
    boxes[e.to].layer = Math.max(boxes[e.to].layer, boxes[e.from].layer + 1);
  const layers = [];
  boxes.forEach(b => (layers[b.layer] = layers[b.layer] || []).push(b));
  const widest = Math.max(...layers.map(l => l.length));
  layers.forEach((list, y) => {
    for (const b of list) {
      const from = edges.filter(e => boxes[e.to] === b).map(e => boxes[e.from].x);
      b.wish = from.length ? from.reduce((s, x) => s + x, 0) / from.length : (widest - 1) / 2;
    }
    list.sort((a, b) => a.wish - b.wish);
    list.forEach((b, k) => { b.x = (widest - list.length) / 2 + k; b.y = y; });
  });
  return { wide: widest * (WIDE + GAP_X) + 90, high: layers.length * (HIGH + GAP_Y) + 24 };
};

const left = b => 45 + b.x * (WIDE + GAP_X), upper = b => 14 + b.y * (HIGH + GAP_Y);

const drawEdge = (boxes, e) => {
  const a = boxes[e.from], b = boxes[e.to], x1 = left(a) + WIDE / 2, y1 = upper(a) + HIGH, x2 = left(b) + WIDE / 2, y2 = upper(b) - 3;
  // Past other boxes: around them, on the side.
  const far = b.y - a.y > 1, side = far ? WIDE / 2 + 12 + Math.min(24, 3 * (b.y - a.y)) : 0;
  const path = far && Math.abs(x1 - x2) < WIDE
    ? `M${x1 + WIDE / 4} ${y1} C${x1 + side} ${y1 + GAP_Y} ${x1 + side} ${y1 + GAP_Y} ${x1 + side} ${y1 + GAP_Y} L${x1 + side} ${y2 - GAP_Y} C${x1 + side} ${y2 - 8} ${x2 + WIDE / 4} ${y2 - GAP_Y / 2} ${x2 + WIDE / 4} ${y2}`
    : `M${x1} ${y1} C${x1} ${y1 + GAP_Y} ${x2} ${y2 - GAP_Y} ${x2} ${y2}`;
  const values = [...e.values].map(id => buffers[id]);
  const says = values.slice(0, 12).map(v => `${v.name}: ${v.type}, ${bytesText(v.bytes)}`).join("\n") + (values.length > 12 ? `\nand ${values.length - 12} more` : "");
  return svg("path", { class: "edge", d: path, "marker-end": "url(#arrow)" }, svg("title", {}, says));
};

// Not the long ones of a box that many others read: its own text says how many.
const drawnEdges = (boxes, edges) => {
  const MANY = 3, far = e => boxes[e.to].y - boxes[e.from].y > 1;
  for (const b of boxes) b.hidden = 0;
  return edges.filter(e => {
    const many = far(e) && edges.filter(x => x.from === e.from && far(x)).length > MANY;
    if (many) boxes[e.from].hidden++;
    return !many;
  });
};

const drawBox = b => {
  const time = b.steps.reduce((t, s) => t + s.time, 0), name = b.scope ? b.scope.name : b.step.name;
  const enter = () => {
    if (b.step) return choose(b.step);
    flowScope = b.scope;
    for (let s = b.scope; s; s = s.up) open.add(s);
    drawFlow(), drawTree(b.scope);
  };
  const g = svg("g", { class: "box" + (b.scope ? " is-scope" : "") + (b.step && b.step === chosen ? " chosen" : ""), tabindex: 0, role: "button",
    transform: `translate(${left(b)} ${upper(b)})` });
  const outside = b.outside.size ? `, ${b.outside.size} from elsewhere` : "";
  g.append(svg("rect", { width: WIDE, height: HIGH, rx: b.scope ? 10 : 3 }),
    svg("rect", { width: 5, height: HIGH - 12, x: 4, y: 6, style: `fill:var(--${flowPhase});stroke:none` }),
    svg("text", { x: 16, y: 22 }, cut(name, 27)),
    svg("text", { x: 16, y: 41, class: "soft" }, cut((b.scope ? `${b.steps.length} kernel${b.steps.length > 1 ? "s" : ""}, ` : "")
      + `${timeText(time)}, ${shareText(time / total || 0)}` + (b.hidden ? `, for ${b.hidden} below` : ""), 38)),
    svg("title", {}, b.step ? brief(b.step) + outside : `${b.scope.path}: ${b.steps.length} kernels${outside}\nclick to look inside`));
  g.addEventListener("click", enter);
  g.addEventListener("keydown", e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); enter(); } });
  return g;
};

function drawFlow() {
  const crumbs = [];
  for (let s = flowScope; s; s = s.up) {
    const to = s;
    crumbs.unshift(...(s.up ? [" › "] : []), button(s.name, () => { flowScope = to; pickPhase(); drawFlow(); drawTree(); }, { class: "link" }));
  }
  $("crumbs").replaceChildren("Inside ", ...crumbs);
  $("phases").replaceChildren(...[...PHASES, "other"].filter(p => has(flowScope, p)).map(p =>
    button(p, () => { flowPhase = p; drawFlow(); }, { "aria-pressed": String(p === flowPhase) })).flatMap(b => [b, " "]));
  let boxes = boxesOf(flowScope, flowPhase);
  const all = boxes.length;
  boxes = boxes.slice(0, MOST_BOXES);
  const flow = $("flow");
  if (!boxes.length) return flow.replaceChildren(el("p", { class: "soft", style: "padding:12px" }, "No kernel of this scope."));
  const edges = edgesOf(boxes), size = place(boxes, edges), drawn = drawnEdges(boxes, edges);
  const wide = Math.max(size.wide, 300);
  flow.replaceChildren(svg("svg", { width: wide, height: size.high, role: "group", "aria-label": "Flow of values" },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      svg("path", { d: "M0 0L8 4L0 8z", style: "fill:var(--soft)" }))),
    ...drawn.map(e => drawEdge(boxes, e)), ...boxes.map(drawBox)));
  if (all > MOST_BOXES) flow.prepend(el("p", { class: "soft", style: "padding:6px 12px;margin:0" },
    `The first ${MOST_BOXES} of ${all}; the tree on the left has them all.`));
  flow.scrollTop = 0;
  flow.scrollLeft = Math.max(0, (wide - flow.clientWidth) / 2);
}

function drawGraph() {
  if (!has(root, "forward")) pickPhase();
  $("tree").addEventListener("keydown", treeKey);
  $("fold").addEventListener("click", () => { open.clear(); open.add(root); flowScope = root; pickPhase(); drawTree(); drawFlow(); });
  drawTree();
  drawFlow();
}
