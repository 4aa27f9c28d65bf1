// The page: its head, then every view.
const tile = (value, says) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, says));

const drawHead = () => {
  const dims = Object.entries(D.dims).map(([k, v]) => `${k} = ${v}`).join(", ");
  const others = D.entries.filter(e => e !== D.entry && e !== "init");
  $("about").textContent = `${D.path}, entry '${D.entry}'${dims ? ", " + dims : ""}, compiled for ${D.target} by netc ${D.netc}. `
    + (measured ? `Times were measured on ${D.profile.device}. ` : "No times were measured: all are modelled (netc profile MODEL --json > times.json, then netc report … --profile times.json). ")
    + (others.length ? `The file's other entries (--entry): ${others.join(", ")}.` : "");
  $("notes").replaceChildren(...D.notes.map(n => el("li", {}, n)));
  const flops = steps.reduce((t, s) => t + s.flops * s.calls, 0), calls = steps.reduce((t, s) => t + s.calls, 0);
  $("tiles").replaceChildren(
    measured ? tile(timeText(D.profile.seconds), "a step, measured") : tile("≥ " + timeText(total), "a step, modelled"),
    measured && D.profile.items > 0 && D.profile.seconds > 0 ? tile(countText(D.profile.items / D.profile.seconds), "examples a second") : "",
    tile(String(calls), `calls a step, of ${new Set(steps.map(s => s.name)).size} kernels`), tile(flopText(flops), "must be computed a step"),
    tile(bytesText(D.memory.parameters), `parameters${root.params ? ", " + countText(root.params) + " numbers" : ""}`),
    tile(bytesText(D.memory.states), "states"), tile(bytesText(D.memory.arena), "temporaries"));
};

drawHead();
drawGraph();
drawMemorySection();
drawRoofline();
drawTimelineSection();
$("filter").addEventListener("input", () => { tableMost = 100; drawTable(); });
drawTable();
drawCurves();
const redraw = () => { for (const c of canvases) c.draw(); };
redraw();
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("keydown", e => { if (e.key === "Escape" && chosen) choose(null); });
document.documentElement.dataset.ready = "yes"; // what waits for the page can see that it is drawn
