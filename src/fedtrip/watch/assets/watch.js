(async () => {
  const { root, colourOf } = charts;
  const parts = new Map(), runs = new Map();
  let tick = 0, waiting = 0, timer = null;
  const $ = (id) => document.getElementById(id);
  const UNDER_WAY = ["running", "interrupted", "damaged"]; // their last value is not their final one

  const STATES = ["running", "waiting", "finished", "stopped", "ended early", "interrupted", "damaged"];

  // ---- what a curve is made of

  function ofRun(run, variants, many) {
    const x = { rounds: [], megabytes: [], gflops: run.gflops === null ? null : [] }, mean = [];
    let megabytes = 0;
    run.scores.forEach((score, i) => {
      megabytes += run.megabytes[i];
      if (score === null) return;
      x.rounds.push(i + 1);
      x.megabytes.push(megabytes);
      x.gflops?.push(run.gflops * (i + 1));
      mean.push(score);
    });
    const label = `${variants[run.variant].label}, seed ${run.seed}`;
    return { ...variants[run.variant], label, number: run.variant, width: many ? 1.3 : 1.8, x, mean, trials: [run] };
  }

  // The report's mean and range: see `common_rounds` and `mean_traffic`. A run under way counts up to its last round.
  function ofVariant(variant, number, some) {
    const length = Math.max(...some.map((run) => run.scores.length));
    const gflops = some[0].gflops;
    const x = { rounds: [], megabytes: [], gflops: gflops === null ? null : [] }, mean = [], low = [], high = [];
    const last = some.map(() => null);
    let megabytes = 0;
    for (let i = 0; i < length; i++) {
      const here = some.filter((run) => i < run.scores.length);
      megabytes += here.reduce((sum, run) => sum + run.megabytes[i], 0) / here.length;
      some.forEach((run, at) => {
        if (i < run.scores.length) last[at] = run.scores[i] ?? last[at];
        else if (UNDER_WAY.includes(run.state)) last[at] = null;
      });
      if (here.every((run) => run.scores[i] === null)) continue;
      const values = last.filter((value) => value !== null);
      x.rounds.push(i + 1);
      x.megabytes.push(megabytes);
      x.gflops?.push(gflops * (i + 1));
      mean.push(values.reduce((sum, value) => sum + value, 0) / values.length);
      low.push(Math.min(...values));
      high.push(Math.max(...values));
    }
    return { ...variant, number, x, mean, low, high, trials: some };
  }

  function curves(part) {
    const some = [...runs.values()].filter((run) => run.part === part.part);
    if (part.state.lines === "runs") return some.map((run) => ofRun(run, part.variants, some.length > 20));
    return part.variants
      .map((variant, number) => [variant, number, some.filter((run) => run.variant === number)])
      .filter(([, , its]) => its.length).map((of) => ofVariant(...of));
  }

  // ---- what is on the screen

  function newPart(part) {
    const section = $("part").content.cloneNode(true).firstElementChild;
    Object.assign(part, { section, chips: [], state: { x: "rounds", lines: "runs", hidden: new Set() } });
    charts.choice(section.querySelectorAll("[data-x]"), ({ x }) => { part.state.x = x; drawPart(part); });
    charts.choice(section.querySelectorAll("[data-lines]"), ({ lines }) => { part.state.lines = lines; drawPart(part); });
    part.sort = charts.sortable(section.querySelector("table"));
    $("parts").append(section);
    return part;
  }

  function takePart(news) {
    const part = Object.assign(parts.get(news.part) ?? newPart({ ...news }), news);
    parts.set(news.part, part);
    part.section.querySelector(".part-title").textContent = part.title;
    part.section.querySelector(".score").textContent = part.goal.score;
    part.variants.slice(part.chips.length).forEach((variant) => {
      const number = part.chips.length;
      part.chips.push(charts.chip(variant, (hide) => {
        if (hide) part.state.hidden.add(number); else part.state.hidden.delete(number);
        drawPart(part);
      }));
    });
    part.section.querySelector(".chips").replaceChildren(...part.chips);
    part.changed = true;
  }

  function newRow(part) {
    const row = part.section.querySelector("tbody").insertRow();
    const head = document.createElement("th");
    head.scope = "row";
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    head.append(swatch, "");
    row.append(head);
    for (const kind of ["number", "number round", "number", "number", "", "number", "folder"]) row.insertCell().className = kind;
    const state = document.createElement("span"), why = document.createElement("span");
    state.className = "state";
    why.className = "why";
    row.cells[5].append(state, why);
    return row;
  }

  function takeRun(news) {
    const run = runs.get(news.run) ?? { scores: [], megabytes: [], row: newRow(parts.get(news.part)) };
    const { from, scores, megabytes, ...row } = news;
    Object.assign(run, row, { heard: performance.now() });
    run.scores = run.scores.slice(0, from).concat(scores);
    run.megabytes = run.megabytes.slice(0, from).concat(megabytes);
    runs.set(run.run, run);
    parts.get(run.part).changed = true;
    showRow(run, parts.get(run.part));
  }

  const shown = (score, goal) =>
    score === null ? "" : goal.share ? `${(100 * score).toFixed(2)}%` : String(+score.toPrecision(4));
  function cell(row, place, text, value) {
    row.cells[place].textContent = text;
    row.cells[place].dataset.value = value;
  }
  function showRow(run, part) {
    const { row } = run, label = part.variants[run.variant].label;
    row.cells[0].lastChild.textContent = label;
    row.cells[0].dataset.value = label;
    cell(row, 1, run.seed, run.seed);
    cell(row, 2, `${run.round} / ${run.rounds}`, run.round / run.rounds);
    row.cells[2].style.setProperty("--done", `${(100 * run.round) / run.rounds}%`);
    cell(row, 3, shown(run.score, part.goal), run.score ?? -Infinity);
    cell(row, 4, run.reached ?? "", run.reached ?? Infinity);
    const [state, why] = row.cells[5].children;
    state.textContent = state.dataset.state = row.cells[5].dataset.value = run.state;
    why.textContent = run.note;
    cell(row, 7, run.where, run.where);
    showTimeLeft(run);
  }

  // ---- time left

  function secondsLeft(run) {
    if (run.state !== "running" || !run.pace) return null;
    const quiet = run.quiet + (performance.now() - run.heard) / 1000, rounds = Math.max(0, run.rounds - run.round);
    return rounds * run.pace - Math.min(quiet, run.pace); // the round under way has been going on for a while
  }
  function duration(seconds) {
    if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
    const minutes = Math.round(seconds / 60);
    return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }
  function showTimeLeft(run) {
    const left = secondsLeft(run);
    cell(run.row, 6, left === null ? "" : `${run.may_end_earlier ? "at most " : ""}${duration(left)}`, left ?? -1);
  }
  function showStatus() {
    const all = [...runs.values()], counts = new Map(STATES.map((state) => [state, 0]));
    all.forEach((run) => counts.set(run.state, counts.get(run.state) + 1));
    counts.set("waiting", waiting);
    const told = [...counts].filter(([, count]) => count).map(([state, count]) => `${count} ${state}`);
    const left = Math.max(...all.map((run) => secondsLeft(run) ?? 0), 0);
    const time = left && !waiting ? `; about ${duration(left)} left` : "";
    $("status").textContent = all.length ? `${told.join(", ")}${time}` : "No run yet";
    document.title = `${counts.get("running")} running · fedtrip watch`;
    $("empty").hidden = all.length > 0;
  }

  // ---- drawing, and asking for more

  function drawPart(part) {
    const mine = [...runs.values()].filter((run) => run.part === part.part);
    const lines = curves(part);
    part.section.hidden = !mine.length;
    part.chips.forEach((chip, number) => {
      chip.hidden = !mine.some((run) => run.variant === number);
      charts.dress(chip, part.variants[number]);
    });
    mine.forEach((run) => { run.row.querySelector(".swatch").style.background = colourOf(part.variants[run.variant]); });
    part.section.querySelectorAll("[data-x]").forEach((button) => {
      button.disabled = lines.every((line) => line.x[button.dataset.x] === null);
    });
    if (mine.length) charts.draw(part.section.querySelector(".chart"), ...charts.convergence({ ...part, variants: lines }, part.state));
    part.changed = false;
  }
  function drawChanged() {
    parts.forEach((part) => {
      if (!part.changed) return;
      part.sort();
      drawPart(part);
    });
    root.dataset.drawn = "yes";
  }

  function take(news) {
    const here = new Set(news.here);
    ({ tick, waiting } = news);
    news.parts.forEach(takePart);
    news.runs.forEach(takeRun);
    [...runs.values()].filter((run) => !here.has(run.run)).forEach((run) => {
      run.row.remove();
      runs.delete(run.run);
      parts.get(run.part).changed = true;
    });
    $("remarks").hidden = !news.remarks.length;
    $("remarks").replaceChildren(...news.remarks.map((remark) => {
      const item = document.createElement("li");
      item.textContent = remark;
      return item;
    }));
    showStatus();
  }

  async function ask() {
    let wait = 5000;
    const began = performance.now();
    try {
      const answer = await fetch(`news?since=${tick}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(`answer ${answer.status}`);
      const news = await answer.json();
      take(news);
      if (!document.hidden) drawChanged();
      wait = news.more ? 0 : Math.max(1000, 2 * (performance.now() - began)); // a slow machine has other work to do
      $("lost").hidden = true;
    } catch (problem) {
      $("lost").hidden = false;
      if (!(problem instanceof TypeError)) console.warn(problem); // the server has ended: that is told above
    }
    timer = setTimeout(ask, document.hidden ? Math.max(wait, 10000) : wait);
  }

  charts.theme(() => parts.forEach(drawPart));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || timer === null) return;
    clearTimeout(timer);
    timer = null;
    ask();
  });
  setInterval(() => { runs.forEach(showTimeLeft); showStatus(); }, 1000);
  try {
    await charts.unpack("plotly");
  } catch (problem) {
    $("status").textContent = "This browser cannot draw the charts; one from 2023 or later can.";
    throw problem;
  }
  ask();
})();
