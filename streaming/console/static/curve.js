// Draws curves with uPlot. A click shows the page as of that instant.

async function load() {
  if (window.uPlot) return window.uPlot;
  await new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/static/vendor/uplot.min.js";
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  return window.uPlot;
}

const plots = new WeakMap();
const from0 = (_plot, _low, high) => [0, Math.max(high, 1) * 1.08];
// Without the pointer, the legend has the last values.
const rest = (plot) => plot.setLegend({ idx: plot.data[0].length - 1 });
const instant = (seconds) => seconds && new Date(seconds * 1e3).toISOString().slice(0, 19).replace("T", " ");

// How the axis writes instants: the least step in seconds, each mark, and what is added to the first
// mark, at a new day and at a new minute.
const day = "\n{YYYY}-{MM}-{DD}";
const times = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", day, null, day, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", day, null, day, null, null, null, 1],
  [0.001, ":{ss}.{fff}", `${day} {HH}:{mm}`, null, `${day} {HH}:{mm}`, null, "\n{HH}:{mm}", null, 1],
];

// The steps between marks of messages: there is no half message.
const steps = [...Array(10).keys()].flatMap((zeros) => [1, 2, 5].map((step) => step * 10 ** zeros));

export async function draw() {
  const Plot = await load();
  for (const place of document.querySelectorAll("[data-curve]")) {
    if (plots.get(place)?.source === place.dataset.curve) continue;
    const found = JSON.parse(place.dataset.curve);
    const style = getComputedStyle(place);
    const ink = style.getPropertyValue("--text").trim() ? style.color : "#888";
    const axis = { stroke: ink, grid: { stroke: "#8884" }, ticks: { stroke: "#8884" } };
    const colours = { depth: "#2f7de1", died: "#d33f49", purged: "#c98a00" };
    const named = "#8a5cf6";
    plots.get(place)?.plot.destroy();
    const plot = new Plot(
      {
        width: Math.max(place.clientWidth - 14, 280),
        height: 270,
        // room for a date below the last time, which is wider than its mark; an axis has enough
        padding: [null, found.series.some((one) => one.bars) ? null : 36, null, null],
        tzDate: (seconds) => Plot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
        axes: [
          { ...axis, values: times },
          { ...axis, incrs: steps, size: 62, label: found.unit, labelSize: 18 },
          { ...axis, show: found.series.some((one) => one.bars), scale: "bars", incrs: steps, side: 1, size: 50, label: found.bars_unit, labelSize: 18, grid: { show: false } },
        ],
        scales: { y: { range: from0 }, bars: { range: from0 } },
        series: [
          { label: "UTC", value: (_plot, seconds) => instant(seconds) },
          ...found.series.map((one, number) => ({
            label: one.label,
            scale: one.bars ? "bars" : "y",
            value: (_plot, value) => value?.toLocaleString(document.documentElement.lang),
            stroke: colours[one.what],
            width: number ? 1 : 2,
            fill: number ? undefined : `${colours.depth}33`,
            paths: one.bars ? Plot.paths.bars({ size: [0.9, 60] }) : undefined,
          })),
        ],
        hooks: {
          ready: [rest],
          draw: [(drawn) => {
            const { ctx, bbox } = drawn;
            const ends = []; // where the last name of each row of names ends
            for (const mark of found.marks) {
              const x = drawn.valToPos(mark.at_s, "x", true);
              ctx.save();
              ctx.strokeStyle = mark.label ? named : colours.purged;
              ctx.setLineDash(mark.label ? [] : [4, 3]);
              ctx.beginPath();
              ctx.moveTo(x, bbox.top);
              ctx.lineTo(x, bbox.top + bbox.height);
              ctx.stroke();
              if (mark.label) {
                const width = ctx.measureText(mark.label).width;
                const left = x + width + 8 < bbox.left + bbox.width ? x + 4 : x - 4 - width;
                const free = ends.findIndex((end) => end + 6 < left);
                const row = free < 0 ? ends.length : free;
                ends[row] = left + width;
                ctx.fillStyle = ink;
                ctx.textAlign = "left";
                ctx.textBaseline = "top";
                ctx.fillText(mark.label, left, bbox.top + 2 + row * 14 * devicePixelRatio);
              }
              ctx.restore();
            }
          }],
        },
      },
      [found.at_s, ...found.series.map((one) => one.values)],
      place,
    );
    plots.set(place, { plot, source: place.dataset.curve });
    plot.over.addEventListener("mouseleave", () => rest(plot));
    if (!found.link) continue;
    plot.over.addEventListener("click", () => {
      if (plot.select.width > 0 || plot.cursor.idx === null) return;
      const target = new URL(found.link, location.href);
      target.searchParams.set("as_of", new Date(found.at_s[plot.cursor.idx] * 1e3).toISOString());
      location.assign(target);
    });
  }
}
