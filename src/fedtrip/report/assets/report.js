"use strict";
(async () => {
  const parts = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  let printing = false;
  const narrow = () => !printing && window.innerWidth < 600;
  const dark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const colourOf = (variant) => (dark() ? variant.dark : variant.colour);
  // Plotly reads a small part of HTML in every text: a label is text and nothing else.
  const plain = (label) => label.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  // A long label goes on several lines, so that it leaves room for the chart.
  const wrapped = (label) => {
    const lines = [];
    for (const word of label.split(" ")) {
      const line = `${lines.at(-1) ?? ""} ${word}`.trim();
      if (lines.length && line.length <= (narrow() ? 16 : 26)) lines[lines.length - 1] = line; else lines.push(word);
    }
    return lines.map(plain).join("<br>");
  };
  const seeThrough = (colour, alpha) =>
    `rgba(${[1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)).join(",")},${alpha})`;
  const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const DASHES = { solid: "", dash: "7 3", dashdot: "7 3 2 3", dot: "2 3", longdash: "11 4", longdashdot: "11 3 2 3" };
  const X_TITLES = {
    rounds: "communication round",
    megabytes: "MB sent, all clients, down and up",
    gflops: "GFLOPs of one client",
  };

  async function unpack(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const code = document.createElement("script");
    code.textContent = await new Response(stream).text();
    document.head.append(code);
  }

  function layout(more) {
    const axis = {
      gridcolor: style("--grid"), linecolor: style("--line"), zeroline: false, automargin: true,
      tickfont: { color: style("--quiet") },
    };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: style("--text") },
      margin: { l: 8, r: 12, t: 8, b: 8 },
      width: printing ? 660 : undefined, // Plotly learns of a window's new size, but not of a sheet's
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--quiet"), activecolor: style("--accent") },
      hoverlabel: { bgcolor: style("--card"), bordercolor: style("--line"), font: { color: style("--text") } },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls the page
      ...more,
      xaxis: { ...axis, ...more.xaxis },
      yaxis: { ...axis, ...more.yaxis },
    };
  }
  // Named one by one: among Plotly's own choice is a button that sends the chart to a server.
  const BUTTONS = [["toImage", "zoom2d", "pan2d", "resetScale2d"]];
  const draw = (element, traces, more) => element && Plotly.react(element, traces, layout(more), {
    responsive: true, displaylogo: false, modeBarButtons: BUTTONS,
    displayModeBar: element.classList.contains("convergence") && !narrow(),
  });
  const title = (text) => ({ title: { text, standoff: 10, font: { size: 13, color: style("--quiet") } } });

  // How Plotly writes a score: a share of the samples in per cent, any other as a number.
  const SHARE = { one: ".1%", two: ".2%", axis: ".0%", ticks: ".1~%", room: 0.004 };
  const NUMBER = { one: ".4~g", two: ".4~g", axis: "~g", ticks: "~g", room: 0 };
  const unitOf = (part) => (part.goal.share ? SHARE : NUMBER);

  function convergence(part, state) {
    const traces = [], unit = unitOf(part);
    const drawn = part.variants.map((v, number) => ({ v, number })).filter(({ v }) => v.x[state.x] !== null);
    for (const { v, number } of drawn) {
      if (v.trials.length < 2) continue;
      const x = v.x[state.x], keep = x.map((_, i) => i).filter((i) => v.low[i] !== null);
      traces.push({
        x: [...keep.map((i) => x[i]), ...keep.map((i) => x[i]).reverse()],
        y: [...keep.map((i) => v.high[i]), ...keep.map((i) => v.low[i]).reverse()],
        fill: "toself", fillcolor: seeThrough(colourOf(v), dark() ? 0.16 : 0.12), line: { width: 0 }, mode: "lines",
        hoverinfo: "skip", visible: !state.hidden.has(number), name: plain(v.label),
      });
    }
    for (const { v, number } of drawn) {
      traces.push({
        x: v.x[state.x], y: v.mean, mode: v.mean.length > 1 ? "lines" : "markers", name: plain(v.label),
        line: { color: colourOf(v), width: 2.2, dash: v.dash }, visible: !state.hidden.has(number),
        customdata: v.x.rounds.map((round, i) => [round, v.low[i], v.high[i]]),
        hovertemplate: v.trials.length > 1
          ? `%{y:${unit.one}}  (%{customdata[1]:${unit.one}} to %{customdata[2]:${unit.one}})`
          : `%{y:${unit.one}}`,
      });
    }
    const target = part.target === null ? {} : {
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: part.target, y1: part.target,
                 line: { color: style("--quiet"), width: 1, dash: "dot" } }],
      annotations: [{ xref: "paper", x: 1, y: part.target, xanchor: "right", yanchor: "bottom", showarrow: false,
                      text: `target ${part.goal.share ? `${+(100 * part.target).toFixed(2)} %` : +part.target.toPrecision(6)}`, font: { size: 12, color: style("--quiet") } }],
    };
    return [traces, {
      ...target,
      margin: { l: 8, r: 12, t: narrow() ? 8 : 34, b: 8 }, // the buttons lie above the plot
      hovermode: state.x === "rounds" && !narrow() ? "x unified" : "closest",
      xaxis: { ...title(X_TITLES[state.x]), rangemode: "tozero", hoverformat: ".4~g" },
      yaxis: { ...title(`test ${plain(part.goal.score)}`), tickformat: unit.axis },
    }];
  }

  function boxes(part, state, valuesOf, pointsOf, more) {
    const shown = part.variants.map((v, number) => ({ v, number })).filter(({ number }) => !state.hidden.has(number));
    const traces = [];
    for (const { v } of shown) {
      const values = valuesOf(v);
      const label = wrapped(v.label);
      if (values.length > 1) {
        traces.push({
          type: "box", orientation: "h", x: values, y: values.map(() => label), boxpoints: false, name: label,
          line: { color: colourOf(v), width: 1.4 }, fillcolor: seeThrough(colourOf(v), 0.14), hoverinfo: "skip", width: 0.6,
        });
      }
      traces.push({ type: "scatter", mode: "markers", name: label, y: values.map(() => label), x: values, ...pointsOf(v) });
    }
    const labels = shown.map(({ v }) => wrapped(v.label)).reverse();
    const lines = labels.reduce((sum, label) => sum + Math.max(2, label.split("<br>").length), 0);
    return [traces, {
      height: (more.title ? 90 : 60) + 19 * Math.max(lines, 2), hovermode: "closest",
      xaxis: more,
      yaxis: { type: "category", categoryorder: "array", categoryarray: labels, showgrid: false,
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
      section.querySelectorAll(".chips line").forEach((line, i) => line.setAttribute("stroke", colourOf(variants[i])));
    });
  }

  function chips(section, number) {
    const group = section.querySelector(".chips"), part = parts[number], state = states[number];
    part.variants.forEach((v, index) => {
      const chip = document.createElement("button");
      chip.type = "button";
      chip.setAttribute("aria-pressed", "true");
      chip.innerHTML = `<svg width="26" height="8" aria-hidden="true"><line x1="0" y1="4" x2="26" y2="4"
        stroke-width="2.5" stroke-dasharray="${DASHES[v.dash]}"/></svg>`;
      chip.append(v.label);
      chip.addEventListener("click", () => {
        const hide = !state.hidden.has(index);
        if (hide) state.hidden.add(index); else state.hidden.delete(index);
        chip.setAttribute("aria-pressed", String(!hide));
        drawPart(number);
      });
      group.append(chip);
    });
    section.querySelectorAll("[data-x]").forEach((button) => {
      button.disabled = part.variants.every((v) => v.x[button.dataset.x] === null);
      button.addEventListener("click", () => {
        state.x = button.dataset.x;
        section.querySelectorAll("[data-x]").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
        drawPart(number);
      });
    });
    section.querySelector(".seed")?.addEventListener("change", (event) => {
      state.seed = event.target.value;
      drawPart(number);
    });
    section.querySelector(".confused")?.addEventListener("change", (event) => {
      state.confused = event.target.value;
      drawPart(number);
    });
  }

  function sortable(table) {
    const body = table.tBodies[0];
    table.querySelectorAll("thead th").forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const value = (row) => row.cells[column].dataset.value;
        const compare = (a, b) => (column ? value(a) - value(b) : value(a).localeCompare(value(b)));
        body.append(...[...body.rows].sort((a, b) => (down ? compare(b, a) : compare(a, b))));
      });
    });
  }

  function remembered(value) {
    try { // a page opened from a file may have no storage
      if (value) localStorage.setItem("fedtrip-theme", value);
      return localStorage.getItem("fedtrip-theme");
    } catch { return null; }
  }
  const button = document.getElementById("theme");
  function setTheme(theme) {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    button.textContent = dark() ? "light" : "dark";
    if (window.Plotly) drawAll();
  }
  button.addEventListener("click", () => setTheme(remembered(dark() ? "light" : "dark") ?? (dark() ? "light" : "dark")));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(root.dataset.theme));
  let onScreen;
  window.addEventListener("beforeprint", () => { onScreen = root.dataset.theme; printing = true; setTheme("light"); });
  window.addEventListener("afterprint", () => { printing = false; setTheme(onScreen); });

  parts.forEach((part) => states.push({
    x: "rounds", hidden: new Set(), seed: Object.keys(part.labels)[0],
    confused: part.variants.find((v) => v.confusion)?.label,
  }));
  document.querySelectorAll(".part").forEach((section) => chips(section, +section.dataset.part));
  document.querySelectorAll("table.sortable").forEach(sortable);
  setTheme(remembered());
  swatches();
  try {
    await unpack("plotly");
    drawAll();
    root.dataset.drawn = "yes";
  } catch (problem) {
    document.querySelectorAll(".chart").forEach((chart) => {
      chart.textContent = "This browser cannot draw the charts; one from 2023 or later can.";
    });
    throw problem;
  }
})();
