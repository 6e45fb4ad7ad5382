"use strict";
// What the report's page and that of `fedtrip watch` share: colours, the theme, the curves, sorting.
const charts = (() => {
  const root = document.documentElement;
  let printing = false;
  const narrow = () => !printing && window.innerWidth < 600;
  const dark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const colourOf = (variant) => (dark() ? variant.dark : variant.colour);
  // Plotly reads a small part of HTML in every text: a label is text and nothing else.
  const plain = (label) => label.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
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

  const FEW = 8; // of more lines the bands are fainter
  const MOST_IN_ONE_BOX = 12; // more lines than this are told of one by one, not all of a round at once

  // A variant's `number` is what hides it, where several lines are one method's; otherwise its place.
  function convergence(part, state) {
    const traces = [], unit = unitOf(part);
    const drawn = part.variants
      .map((v, place) => ({ v, number: v.number ?? place })).filter(({ v }) => v.x[state.x] !== null);
    const faint = drawn.length > FEW ? 0.5 : 1;
    const together = state.x === "rounds" && !narrow() && drawn.length <= MOST_IN_ONE_BOX;
    for (const { v, number } of drawn) {
      if (v.trials.length < 2) continue;
      const x = v.x[state.x], keep = x.map((_, i) => i).filter((i) => v.low[i] !== null);
      traces.push({
        x: [...keep.map((i) => x[i]), ...keep.map((i) => x[i]).reverse()],
        y: [...keep.map((i) => v.high[i]), ...keep.map((i) => v.low[i]).reverse()],
        fill: "toself", fillcolor: seeThrough(colourOf(v), faint * (dark() ? 0.16 : 0.12)), line: { width: 0 }, mode: "lines",
        hoverinfo: "skip", visible: !state.hidden.has(number), name: plain(v.label),
      });
    }
    for (const { v, number } of drawn) {
      traces.push({
        x: v.x[state.x], y: v.mean, mode: v.mean.length > 1 ? "lines" : "markers", name: plain(v.label),
        line: { color: colourOf(v), width: v.width ?? 2.2, dash: v.dash }, visible: !state.hidden.has(number),
        ...(v.trials.length < 2 ? { hovertemplate: `%{y:${unit.one}}` } : {
          customdata: v.x.rounds.map((round, i) => [round, v.low[i], v.high[i]]),
          hovertemplate: `%{y:${unit.one}}  (%{customdata[1]:${unit.one}} to %{customdata[2]:${unit.one}})`,
        }),
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
      hovermode: together ? "x unified" : "closest",
      uirevision: state.x, // what was zoomed into stays so when points are added
      xaxis: { ...title(X_TITLES[state.x]), rangemode: "tozero", hoverformat: ".4~g" },
      yaxis: { ...title(`test ${plain(part.goal.score)}`), tickformat: unit.axis },
    }];
  }

  // The button that shows and hides a method: its line as the chart draws it, and its name.
  function chip(variant, toggle) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.innerHTML = '<svg width="26" height="8" aria-hidden="true">' +
      '<line x1="0" y1="4" x2="26" y2="4" stroke-width="2.5"/></svg>';
    button.append(variant.label);
    button.addEventListener("click", () => {
      const hide = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!hide));
      toggle(hide);
    });
    return button;
  }

  // A chip's line in the variant's colour of the theme, and in its style.
  function dress(chip, variant) {
    const line = chip.querySelector("line");
    line.setAttribute("stroke", colourOf(variant));
    line.setAttribute("stroke-dasharray", DASHES[variant.dash]);
  }

  // One of some buttons is pressed: the x-axis, or what a curve stands for.
  function choice(buttons, choose) {
    buttons.forEach((button) => button.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      choose(button.dataset);
    }));
  }

  // A click on a column's title sorts by it; what is returned sorts again, after the rows have changed.
  function sortable(table) {
    const body = table.tBodies[0], heads = [...table.querySelectorAll("thead th")];
    function sort() {
      const column = heads.findIndex((head) => head.hasAttribute("aria-sort"));
      if (column < 0) return;
      const numbers = heads[column].classList.contains("number");
      const down = heads[column].getAttribute("aria-sort") === "descending";
      const value = (row) => row.cells[column].dataset.value;
      const compare = (a, b) => (numbers ? value(a) - value(b) : value(a).localeCompare(value(b)));
      const rows = [...body.rows], sorted = [...rows].sort((a, b) => (down ? compare(b, a) : compare(a, b)));
      if (sorted.some((row, place) => row !== rows[place])) body.append(...sorted);
    }
    heads.forEach((head) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort();
    }));
    return sort;
  }

  function remembered(value) {
    try { // a page opened from a file may have no storage
      if (value) localStorage.setItem("fedtrip-theme", value);
      return localStorage.getItem("fedtrip-theme");
    } catch { return null; }
  }

  // Light or dark as the system is, until the switch says otherwise; a sheet of paper is light.
  function theme(redraw) {
    const button = document.getElementById("theme");
    let onScreen;
    function set(name) {
      if (name) root.dataset.theme = name; else delete root.dataset.theme;
      button.textContent = dark() ? "light" : "dark";
      if (window.Plotly) redraw();
    }
    button.addEventListener("click", () => {
      const other = dark() ? "light" : "dark";
      set(remembered(other) ?? other);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => set(root.dataset.theme));
    window.addEventListener("beforeprint", () => { onScreen = root.dataset.theme; printing = true; set("light"); });
    window.addEventListener("afterprint", () => { printing = false; set(onScreen); });
    set(remembered());
  }

  return {
    root, narrow, dark, colourOf, plain, seeThrough, style, unpack, draw, title, SHARE, unitOf, convergence, chip, dress, choice,
    sortable, theme,
  };
})();
