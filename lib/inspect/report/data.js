// The data of the page, its rows given names; words for numbers; the elements the views are made of.
const D = JSON.parse(document.getElementById("data").textContent);
const T = D.texts;
const PHASES = ["forward", "backward", "update"];
const lineText = new Map(D.lines.map(([place, text]) => [T[place], T[text]]));

const buffers = D.buffers.map(([name, region, type, line, bytes, offset, first, last], id) =>
  ({ id, name: T[name], region: T[region], type: T[type], line: T[line], bytes, offset, first, last }));

const steps = D.steps.map((r, i) => ({
  i, place: r[0], kind: T[r[1]], name: T[r[2]], line: T[r[3]], types: T[r[4]], schedule: T[r[5]],
  calls: r[6], bytes: r[7], flops: r[8], floor: r[9], scope: T[r[10]], phase: PHASES[r[11]] || "other",
  reads: r[12], writes: r[13], ops: r[14], rows: [], time: r[6] * r[9],
}));
const stepAt = new Map(steps.map(s => [s.place, s]));

// Times as measured, where they were; else the floors, which are the least the target needs.
const measured = D.profile !== null;
if (measured) {
  for (const s of steps) s.time = 0;
  for (const [place, name, calls, seconds, low, high, floor, flops] of D.profile.rows) {
    const s = stepAt.get(place);
    s.rows.push({ name: T[name], calls, seconds, low, high, floor, flops });
    s.time += calls * seconds;
  }
}
const total = steps.reduce((sum, s) => sum + s.time, 0);
const planSteps = Math.max(1, ...steps.map(s => s.place + 1), ...buffers.filter(b => b.region === "temporary").map(b => b.last + 1));

const writers = new Map(), readers = new Map(); // buffer -> its steps
for (const s of steps) {
  for (const b of s.writes) writers.has(b) ? writers.get(b).push(s) : writers.set(b, [s]);
  for (const b of s.reads) readers.has(b) ? readers.get(b).push(s) : readers.set(b, [s]);
}

// A forward value that only the backward part reads, made while that runs, is computed again. It
// runs from where the fewest steps stand on the wrong side.
let turn = 0;
for (let i = 0, wrong = 0, least = 0; i < steps.length; i++) {
  wrong += { forward: -1, backward: 1 }[steps[i].phase] || 0;
  if (wrong < least) least = wrong, turn = i;
}
for (let i = steps.length - 1; i > turn; i--) {
  const s = steps[i], by = s.writes.flatMap(b => readers.get(b) || []).filter(r => r !== s);
  if (s.phase === "forward" && by.length && by.every(r => r.phase !== "forward" || r.place < s.place)) s.phase = "backward";
}

// -- scopes: a number goes with the word before it, as in "h.0" ------------------------------------
const parts = path => path.match(/[^.]+(?:\.\d+(?=\.|$))?/g) || [];
const newScope = (name, path, up) =>
  ({ name, path, up, below: new Map(), steps: [], all: [], time: 0, params: 0, output: null, first: Infinity });
const root = newScope(D.model, "", null);
const scopeOf = path => {
  let at = root;
  for (const name of parts(path)) {
    if (!at.below.has(name)) at.below.set(name, newScope(name, at.path ? at.path + "." + name : name, at));
    at = at.below.get(name);
  }
  return at;
};
for (const s of steps) {
  s.home = scopeOf(s.scope);
  s.home.steps.push(s);
  for (let at = s.home; at; at = at.up) {
    at.all.push(s);
    at.time += s.time;
    at.first = Math.min(at.first, s.place);
  }
}
const addLayer = (layer, at) => {
  at.params = layer.parameters;
  at.output = layer.output;
  for (const l of layer.layers) addLayer(l, scopeOf(at.path ? at.path + "." + l.name : l.name));
};
if (D.layers) addLayer(D.layers, root);
const below = scope => [...scope.below.values()].sort((a, b) => a.first - b.first);

// -- numbers ---------------------------------------------------------------------------------------
const scaled = (x, step, units, digits = 3) => {
  let k = 0;
  for (; Math.abs(x) >= step && k < units.length - 1; k++) x /= step;
  const text = k === 0 && Number.isInteger(x) ? String(x) : x >= 1000 ? x.toFixed(0) : String(Number(x.toPrecision(digits)));
  return text + " " + units[k];
};
const bytesText = n => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const countText = n => scaled(n, 1000, ["", "k", "M", "G", "T", "P"]).trim();
const flopText = n => scaled(n, 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"]);
const rateText = n => scaled(n, 1000, ["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"]);
const speedText = n => scaled(n, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]);
const timeText = s => s === 0 ? "0" : s < 1e-6 ? scaled(s * 1e9, 1e9, ["ns"]) : s < 1e-3 ? scaled(s * 1e6, 1e9, ["µs"])
  : s < 1 ? scaled(s * 1e3, 1e9, ["ms"]) : scaled(s, 1e9, ["s"]);
const shareText = x => x >= 0.0995 ? (100 * x).toFixed(0) + " %" : x >= 0.00095 ? (100 * x).toFixed(1) + " %" : x > 0 ? "< 0.1 %" : "0 %";
const valueText = x => String(Number(x.toPrecision(5)));

// -- elements: what comes from the model is only ever set as text ----------------------------------
const $ = id => document.getElementById(id);
const el = (tag, attributes = {}, ...children) => {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes))
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== false && v !== null) e.setAttribute(k, v === true ? "" : v);
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
};
const svg = (tag, attributes = {}, ...children) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) if (v !== null) e.setAttribute(k, v);
  e.append(...children);
  return e;
};
const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const legend = (id, rows) => $(id).replaceChildren(...rows.map(([name, text, round]) =>
  el("span", {}, el("i", { class: round ? "dot" : "dot square", style: `background: var(--${name})` }), text)));
const tip = (event, text) => {
  const t = $("tip");
  t.hidden = !text;
  if (!text) return;
  t.textContent = text;
  const box = t.getBoundingClientRect();
  t.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  t.style.top = Math.max(4, Math.min(event.clientY + 16, innerHeight - box.height - 8)) + "px";
};
const button = (text, on, attributes = {}) => el("button", { type: "button", onclick: on, ...attributes }, text);
const cut = (text, n) => text.length > n ? text.slice(0, n - 1) + "…" : text;
const kindText = { kernel: "generated kernel", gemm: "call of the matmul library", copy: "copy", zero: "fill with zeros" };
const timeWord = measured ? "measured" : "modelled";
const brief = s => `${s.name}\n${s.scope || D.model}, ${s.phase}\n${timeText(s.time)} ${timeWord}, ${shareText(s.time / total || 0)} of the step`
  + `\n${bytesText(s.bytes * s.calls)}, ${flopText(s.flops * s.calls)}${s.line ? "\n" + s.line : ""}`;

// A canvas as large as its place, in the pixels of the screen; draws anew when either changes.
const canvases = [];
const plot = (id, height, draw) => {
  const c = $(id), at = { canvas: c, width: 0, height, g: c.getContext("2d") };
  at.draw = () => {
    const scale = devicePixelRatio || 1;
    at.width = c.clientWidth;
    c.style.height = height + "px";
    c.width = Math.round(at.width * scale);
    c.height = Math.round(height * scale);
    at.g.setTransform(scale, 0, 0, scale, 0, 0);
    at.g.font = "13px system-ui, sans-serif";
    draw(at);
  };
  canvases.push(at);
  return at;
};
const ticks = (most, n) => { // round numbers from 0 to most
  const rough = most / n, base = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map(k => k * base).find(k => k >= rough) || 1;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, k) => k * step);
};
