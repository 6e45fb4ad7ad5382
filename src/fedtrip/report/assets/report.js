(async () => {
  const { root, narrow, colourOf, plain, seeThrough, style, draw, title, SHARE, unitOf, convergence } = charts;
  const parts = JSON.parse(document.getElementById("data").textContent);
  const MOST_LINES = 2; // what a box has room for; the buttons above have the whole label
  // A long label goes on in a second line, so that it leaves room for the chart.
  const wrapped = (label) => {
    const lines = [];
    for (const word of label.split(" ")) {
      const line = `${lines.at(-1) ?? ""} ${word}`.trim();
      if (lines.length && line.length <= (narrow() ? 16 : 26)) lines[lines.length - 1] = line; else lines.push(word);
    }
    const shown = lines.slice(0, MOST_LINES);
    if (lines.length > MOST_LINES) shown.push(`${shown.pop()} …`);
    return shown.map(plain).join("<br>");
  };

  function boxes(part, state, valuesOf, pointsOf, more) {
    const shown = part.variants.map((v, number) => ({ v, number })).filter(({ number }) => !state.hidden.has(number));
    const traces = [];
    for (const { v } of shown) {
      const values = valuesOf(v);
      const label = plain(v.label);
      if (values.length > 1) {
        traces.push({
          type: "box", orientation: "h", x: values, y: values.map(() => label), boxpoints: false, name: label,
          line: { color: colourOf(v), width: 1.4 }, fillcolor: seeThrough(colourOf(v), 0.14), hoverinfo: "skip", width: 0.6,
        });
      }
      traces.push({ type: "scatter", mode: "markers", name: label, y: values.map(() => label), x: values, ...pointsOf(v) });
    }
    const labels = shown.map(({ v }) => v.label).reverse();
    return [traces, {
      height: (more.title ? 90 : 60) + 38 * Math.max(labels.length, 1), hovermode: "closest",
      xaxis: more,
      yaxis: { type: "category", categoryorder: "array", categoryarray: labels.map(plain), showgrid: false,
               tickvals: labels.map(plain), ticktext: labels.map(wrapped),
               tickfont: { color: style("--text") } },
    }];
  }

  function scoreAxis(values, unit) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = Math.max(unit.room, 0.06 * (high - low)) || 0.05 * Math.abs(high) || 1;
    return { tickformat: unit.ticks, nticks: narrow() ? 5 : 9, range: [low - room, high + room] };
  }
  const measured = (v) => v.trials.filter((trial) => trial.score !== null);
  function roundsToTarget(part, state) {
    return boxes(part, state, (v) => v.trials.map((trial) => trial.rounds), (v) => ({
      marker: { color: colourOf(v), size: 8, opacity: 0.85,
                symbol: v.trials.map((trial) => (trial.reached ? "circle" : "x-thin")),
                line: { width: 2, color: colourOf(v) } },
      text: v.trials.map((t) => `seed ${t.seed}: ${t.reached ? t.rounds : `not in ${t.rounds}`} rounds`),
      hovertemplate: "%{text}",
    }), { rangemode: "tozero" });
  }
  function finalScore(part, state) {
    const unit = unitOf(part);
    return boxes(part, state, (v) => measured(v).map((trial) => trial.score), (v) => ({
      marker: { color: colourOf(v), size: 8, opacity: 0.85 },
      text: measured(v).map((trial) => `seed ${trial.seed}`), hovertemplate: `%{text}: %{x:${unit.two}}`,
    }), scoreAxis(part.variants.flatMap((v) => measured(v).map((trial) => trial.score)), unit));
  }
  function fairness(part, state) {
    return boxes(part, state, (v) => v.clients.map((one) => one.accuracy), (v) => ({
      marker: { color: colourOf(v), size: 5, opacity: 0.6 },
      text: v.clients.map((one) => `seed ${one.seed}, client ${one.client}`), hovertemplate: "%{text}: %{x:.1%}",
    }), {
      ...scoreAxis(part.variants.flatMap((v) => v.clients.map((one) => one.accuracy)), SHARE), ...title("accuracy for a client"),
    });
  }
  function labels(part, state) {
    const counts = part.labels[state.seed], clients = counts[0].length, classes = counts.length;
    const few = clients <= (narrow() ? 10 : 20) && classes <= 20;
    return [[{
      type: "heatmap", z: counts, xgap: 2, ygap: 2, zmin: 0, zmax: Math.max(1, ...counts.flat()), showscale: !narrow(),
      colorscale: [[0, style("--low")], [1, style("--high")]],
      colorbar: { title: { text: "samples", font: { size: 12 } }, thickness: 10, outlinewidth: 0, len: 0.9 },
      texttemplate: few ? "%{z}" : "", textfont: { size: narrow() ? 9 : 12, color: style("--text") },
      hovertemplate: "client %{x}, class %{y}: %{z} samples<extra></extra>",
    }], {
      height: Math.min(90 + 24 * Math.max(classes, 6), 640),
      xaxis: { ...title("client"), showgrid: false, dtick: clients <= 20 ? 1 : undefined },
      yaxis: { ...title("class"), showgrid: false, autorange: "reversed", dtick: classes <= 20 ? 1 : undefined },
    }];
  }

  function confusion(part, state) {
    const counts = part.variants.find((v) => v.label === state.confused).confusion, classes = counts.length;
    const shares = counts.map((row) => row.map((count) => count / Math.max(1, row.reduce((sum, one) => sum + one, 0))));
    const few = classes <= (narrow() ? 10 : 20);
    return [[{
      type: "heatmap", z: shares, text: counts, xgap: 2, ygap: 2, zmin: 0, zmax: 1, showscale: !narrow(),
      colorscale: [[0, style("--low")], [1, style("--high")]],
      colorbar: { title: { text: "share", font: { size: 12 } }, tickformat: ".0%", thickness: 10, outlinewidth: 0, len: 0.9 },
      texttemplate: few ? "%{text}" : "", textfont: { size: narrow() ? 9 : 12, color: style("--text") },
      hovertemplate: "class %{y} taken for %{x}: %{text} samples, %{z:.1%}<extra></extra>",
    }], {
      height: Math.min(90 + 30 * Math.max(classes, 4), 640),
      xaxis: { ...title("predicted class"), showgrid: false, dtick: classes <= 20 ? 1 : undefined },
      yaxis: { ...title("class"), showgrid: false, autorange: "reversed", dtick: classes <= 20 ? 1 : undefined },
    }];
  }

  const states = [];
  function drawPart(number) {
    const part = parts[number], state = states[number];
    const chart = (name) => document.getElementById(`${name}-${number}`);
    draw(chart("convergence"), ...convergence(part, state));
    draw(chart("rounds"), ...roundsToTarget(part, state));
    draw(chart("final"), ...finalScore(part, state));
    draw(chart("fairness"), ...fairness(part, state));
    if (chart("labels")) draw(chart("labels"), ...labels(part, state));
    if (chart("confusion")) draw(chart("confusion"), ...confusion(part, state));
  }
  const drawAll = () => { states.forEach((_, number) => drawPart(number)); swatches(); };

  function swatches() {
    document.querySelectorAll(".part").forEach((section) => {
      const variants = parts[+section.dataset.part].variants;
      section.querySelectorAll(".swatch").forEach((swatch) => {
        swatch.style.background = colourOf(variants.find((v) => v.label === swatch.dataset.variant));
      });
      section.querySelectorAll(".chips button").forEach((chip, i) => charts.dress(chip, variants[i]));
    });
  }

  function controls(section, number) {
    const part = parts[number], state = states[number];
    section.querySelector(".chips").append(...part.variants.map((v, index) => charts.chip(v, (hide) => {
      if (hide) state.hidden.add(index); else state.hidden.delete(index);
      drawPart(number);
    })));
    const units = section.querySelectorAll("[data-x]");
    units.forEach((button) => { button.disabled = part.variants.every((v) => v.x[button.dataset.x] === null); });
    charts.choice(units, ({ x }) => { state.x = x; drawPart(number); });
    section.querySelector(".seed")?.addEventListener("change", (event) => {
      state.seed = event.target.value;
      drawPart(number);
    });
    section.querySelector(".confused")?.addEventListener("change", (event) => {
      state.confused = event.target.value;
      drawPart(number);
    });
  }

  parts.forEach((part) => states.push({
    x: "rounds", hidden: new Set(), seed: Object.keys(part.labels)[0],
    confused: part.variants.find((v) => v.confusion)?.label,
  }));
  document.querySelectorAll(".part").forEach((section) => controls(section, +section.dataset.part));
  document.querySelectorAll("table.sortable").forEach(charts.sortable);
  charts.theme(drawAll);
  swatches();
  try {
    await charts.unpack("plotly");
    drawAll();
    root.dataset.drawn = "yes";
  } catch (problem) {
    document.querySelectorAll(".chart").forEach((chart) => {
      chart.textContent = "This browser cannot draw the charts; one from 2023 or later can.";
    });
    throw problem;
  }
})();
