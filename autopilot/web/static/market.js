// The history of a GPU's prices, with zoom and a cursor. Without it the server's own picture is shown.
"use strict";
const box = document.getElementById("plot");
const data = box ? JSON.parse(box.dataset.plot) : null;
if (data && window.uPlot && data.at.length) {
  const readout = document.getElementById("readout");
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const floors = ["--spot", "--demand", "--move", "--floor"];
  const zone = document.documentElement.dataset.zone;
  const show = parts => { const made = new Intl.DateTimeFormat("en-GB", { ...parts, timeZone: zone }); return stamp => made.format(stamp * 1000); };
  const day = show({ day: "numeric", month: "short" }), hour = show({ hour: "2-digit", minute: "2-digit" });
  const dollars = value => "$" + value.toFixed(3);
  const rows = [data.at, ...data.floors, ...data.on_demand, data.bid];
  const names = [...data.names, ...data.names.map(name => name + " on demand"), "we paid"];
  const say = index => {
    const parts = names.map((name, at) => [name, rows[at + 1][index]]).filter(part => part[1] != null);
    readout.textContent = `${day(data.at[index])} ${hour(data.at[index])} ${zone}: ` + (parts.map(part => part[0] + " " + dollars(part[1])).join(", ") || "no price");
  };
  const line = (stroke, more) => ({ stroke, width: 1.75, points: { show: false }, spanGaps: true, ...more });
  const axis = { stroke: colour("--mute"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const label = marks => marks.map(mark => {
    const text = hour(mark);
    return text === "00:00" ? day(mark) : text;
  });
  const plot = new uPlot({
    width: box.clientWidth, height: 278, padding: [6, 0, 0, 0], legend: { show: false },
    tzDate: stamp => uPlot.tzDate(new Date(stamp * 1000), zone === "UTC" ? "Etc/UTC" : zone),
    axes: [{ ...axis, values: (shown, marks) => label(marks) }, { ...axis, size: 52, values: (shown, marks) => marks.map(mark => "$" + mark.toFixed(2)) }],
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, (high || 0.1) * 1.12] } },
    cursor: { y: false, drag: { x: true, y: false }, points: { show: false } },
    series: [{},
      ...data.floors.map((_, at) => line(colour(floors[Math.min(at, 3)]))),
      ...data.on_demand.map(() => line(colour("--ask"), { width: 1.25, dash: [4, 4] })),
      line(colour("--ink"), { width: 2.5, spanGaps: false, paths: uPlot.paths.stepped({ align: 1 }) })],
    hooks: { setCursor: [shown => { if (shown.cursor.idx != null && shown.cursor.left >= 0) say(shown.cursor.idx); }] },
  }, rows, box);
  box.classList.add("plotted");
  box.parentElement.classList.add("zooms");
  document.getElementById("plot-ruler").hidden = true;
  plot.root.setAttribute("aria-hidden", "true");
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 278 })).observe(box);
  box.tabIndex = 0;
  box.setAttribute("role", "slider");
  box.setAttribute("aria-label", "Instant in the history of prices");
  box.setAttribute("aria-valuemin", 0);
  box.setAttribute("aria-valuemax", data.at.length - 1);
  let at = data.at.length - 1;
  const go = index => {
    at = Math.max(0, Math.min(data.at.length - 1, index));
    plot.setCursor({ left: plot.valToPos(data.at[at], "x"), top: 10 });
    say(at);
    box.setAttribute("aria-valuenow", at);
    box.setAttribute("aria-valuetext", readout.textContent);
  };
  box.setAttribute("aria-valuenow", at);
  box.addEventListener("keydown", event => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: -12, PageUp: 12, Home: -1e9, End: 1e9 }[event.key];
    if (by) { event.preventDefault(); go(at + by); }
  });
}
