extension StatusPage {
  /// The last part of the script: tables, logs, and the loop that reads the status.
  static let scriptTables = #"""

    function row(heads) {
      return make("tr", {}, make("th", { scope: "row" }), ...heads.map(head => make("td", { "data-of": head })));
    }
    function why(cell, entries) {
      cell.className = "why";
      list(cell, entries.map((text, index) => ({ text, index })), entry => entry.index, () => make("p"),
        (line, entry) => {
          put(line, entry.text[0]);
          line.className = entry.text[1];
        });
    }
    function causes(error, entries) {
      if (!error) return;
      const times = error.times > 1 ? " (" + counted(error.times, "time") + ")" : "";
      entries.push(["[" + error.code + "] " + error.message + times, "bad"]);
      if (error.hint) entries.push(["Next: " + error.hint, ""]);
    }
    function workerCauses(worker) {
      const entries = [];
      causes(worker.error, entries);
      if (worker.retry_in_ms !== null && worker.error) {
        entries.push(["Tried again in " + lag(worker.retry_in_ms), "dim"]);
      }
      for (const wait of worker.waits.slice(0, 10)) {
        entries.push(["[" + wait.code + "] table " + wait.table + " is suspended: " + wait.message, "warn"]);
        if (wait.hint) entries.push(["Next: " + wait.hint, ""]);
      }
      const more = worker.waits.length - Math.min(10, worker.waits.length) + worker.waits_more;
      if (more > 0) entries.push([counted(more, "more table is", "more tables are") + " suspended", "warn"]);
      if (worker.state === "stopped") entries.push(["Next: cairn start " + worker.name, ""]);
      if (worker.detail && worker.detail !== worker.database) {
        entries.push([worker.detail, grade(worker) === "ok" ? "dim" : "warn"]);
      }
      return entries;
    }
    function ago(text, now) {
      const then = time(text);
      return Number.isNaN(then) ? "" : lag(now - then) + " ago";
    }

    function showWorkers(status) {
      const now = time(status.now);
      const all = status.workers;
      const shown = all.filter(worker => !isHelper(worker) || $("helpers").checked || grade(worker) !== "ok");
      const sorted = shown.length > ROWS ? shown.slice().sort((a, b) => bad[grade(a)] - bad[grade(b)]) : shown;
      const heads = ["State", "Lag", "Lag over time", "Last change", "Rows/s", "Cause and next step"];
      list($("worker-rows"), sorted.slice(0, ROWS), worker => worker.name, () => {
        const line = row(heads);
        line.children[3].append(spark());
        for (const index of [2, 4, 5]) line.children[index].className = "n";
        return line;
      }, (line, worker) => {
        const cells = line.children;
        const isOfRows = worker.kind === "capture" || worker.kind === "apply";
        put(cells[0], worker.name);
        put(cells[1], worker.state);
        cells[1].className = grade(worker);
        put(cells[2], lag(worker.lag_ms));
        plot(cells[3].firstChild, worker.name, worker.lag_ms === null);
        put(cells[4], isOfRows ? ago(worker.last_change_at, now) : "");
        put(cells[5], isOfRows ? Math.floor(worker.rows_per_second) : "");
        why(cells[6], workerCauses(worker));
      });
      const hidden = all.length - Math.min(ROWS, sorted.length);
      put($("workers-text"), "The workers of this node. Lag over the last ten minutes."
        + (hidden ? " " + counted(hidden, "worker is", "workers are") + " not shown." : ""));
    }

    function showPaths(status) {
      $("paths").hidden = !status.paths.length;
      const sorted = status.paths.slice().sort((a, b) => bad[pathGrade(a)] - bad[pathGrade(b)]);
      const heads = ["Way", "State", "Lag", "Lag over time", "Missing there", "Cause and next step"];
      list($("path-rows"), sorted.slice(0, ROWS), pathKey, () => {
        const line = row(heads);
        line.children[4].append(spark());
        for (const index of [3, 5]) line.children[index].className = "n";
        return line;
      }, (line, path) => {
        const cells = line.children;
        put(cells[0], path.trail);
        put(cells[1], wayOf(path));
        put(cells[2], path.state.replace("_", " "));
        cells[2].className = pathGrade(path);
        put(cells[3], lag(path.durable_lag_ms));
        plot(cells[4].firstChild, pathKey(path), path.durable_lag_ms === null);
        put(cells[5], size(path.behind_bytes));
        const entries = [];
        causes(path.error, entries);
        why(cells[6], entries);
      });
      const hidden = status.paths.length - Math.min(ROWS, sorted.length) + status.paths_more;
      put($("paths-text"), hidden ? counted(hidden, "path is", "paths are") + " not shown." : "");
    }

    // The logs of one apply, read when they are unfolded, and again every ten seconds.
    async function readLog(details) {
      if (!details.open || details.isBusy) return;
      details.isBusy = true;
      const place = details.lastChild;
      try {
        const answer = await fetch("status/log.json?apply=" + encodeURIComponent(details.apply), { cache: "no-store" });
        const log = await answer.json();
        if (log.code === "busy") {
          // The next picture asks again.
          details.isBusy = false;
          return;
        }
        if (!answer.ok) throw new Error(log.message || "status " + answer.status);
        const lines = log.quarantine.map(one => ({
          key: "q" + one.number,
          text: "Quarantine " + one.number + ": transaction " + one.transaction + ", [" + one.code + "] " + one.message,
          next: one.hint, kind: "bad"
        })).concat(log.conflicts.map(one => ({
          key: "c" + one.number,
          text: "Conflict " + one.number + ", " + String(one.at).slice(0, 19) + "Z: " + one.kind + " in table "
            + one.table + " with trail " + one.trail + ", rule " + one.rule + ", " + one.outcome,
          next: "cairn conflicts show " + one.number, kind: ""
        })));
        if (!lines.length) lines.push({ key: "none", text: "Nothing is logged.", next: "", kind: "dim" });
        if (log.more) lines.push({ key: "more", text: "There are more; cairn lists them all.", next: "", kind: "dim" });
        list(place, lines, line => line.key, () => make("li", {}, make("span"), " ", make("code")), (item, line) => {
          put(item.firstChild, line.text);
          item.firstChild.className = line.kind;
          put(item.lastChild, line.next);
        });
      } catch (error) {
        const lines = [{ key: "error " + error.message, text: "The logs cannot be read: " + error.message }];
        list(place, lines, line => line.key, () => make("li", { class: "bad" }), (item, line) => put(item, line.text));
      }
      details.isBusy = false;
      details.readAt = Date.now();
    }
    function showLogs(status) {
      const applies = status.workers.filter(worker => worker.kind === "apply");
      $("logs").hidden = !applies.length;
      const rank = worker => worker.quarantined ? 0 : worker.conflicts ? 1 : 2;
      const sorted = applies.slice().sort((a, b) => rank(a) - rank(b));
      list($("log-list"), sorted.slice(0, ROWS), worker => worker.name, worker => {
        const details = make("details", {}, make("summary"), make("ul"));
        details.apply = worker.name.slice("apply.".length);
        details.addEventListener("toggle", () => readLog(details));
        return details;
      }, (details, worker) => {
        const summary = details.firstChild;
        put(summary, worker.name + ": " + counted(worker.conflicts || 0, "conflict") + " since it started, "
          + worker.quarantined + " in quarantine");
        summary.className = worker.quarantined ? "bad" : "";
        if (Date.now() - (details.readAt || 0) > 10000) readLog(details);
      });
    }

    function until(object) {
      return object.seconds_until_full === null || object.seconds_until_full === undefined ? ""
        : ", full in " + lag(object.seconds_until_full * 1000);
    }
    function showDisk(status) {
      const disk = status.disk;
      if (disk) {
        put($("disk"), "Trails " + size(disk.bytes) + (disk.limit_bytes === null ? "" : " of " + size(disk.limit_bytes))
          + ", free " + size(disk.free_bytes) + until(disk));
        $("disk").className = disk.seconds_until_full ? "warn" : "";
      }
      list($("trail-rows"), status.trails.slice(0, ROWS), trail => trail.name, () => row(["Size", "Since", "History"]),
        (line, trail) => {
          const cells = line.children;
          const kept = trail.history;
          put(cells[0], trail.name);
          put(cells[1], size(trail.bytes) + ", " + counted(trail.segments, "segment"));
          put(cells[2], String(trail.oldest).slice(0, 19) + "Z");
          put(cells[3], kept ? "keeps " + kept.keep + ": " + size(kept.bytes)
            + (kept.shortened ? ", shortened by a disk limit" : "") : "what its readers need");
        });
      list($("source-rows"), status.sources.slice(0, ROWS), source => source.capture,
        () => row(["Waiting", "Cause and next step"]), (line, source) => {
          const cells = line.children;
          put(cells[0], "capture." + source.capture);
          const slot = source.slot_status === null ? "not checked yet"
            : "slot " + source.slot_status + (source.slot_bytes === null ? "" : ", keeps " + size(source.slot_bytes));
          put(cells[1], (source.journal_rows === null ? slot
            : "journal " + source.journal_rows + " of " + source.journal_cap_rows + " rows") + until(source));
          const entries = [];
          if (source.journal_full) entries.push(["The journal was full: all tables are copied again", "bad"]);
          if (source.unhooked.length) {
            entries.push(["Capture is off in " + source.unhooked.join(", "), "bad"]);
            entries.push(["Next: cairn rehook " + source.database, ""]);
          }
          for (const slot of status.left_slots.filter(slot => slot.capture === source.capture)) {
            entries.push([slot.message, "warn"], ["Next: " + slot.hint, ""]);
          }
          why(cells[2], entries);
        });
    }

    // The sentence for screen readers: it changes only when the state of something does.
    function sentence(status) {
      const troubled = status.workers.filter(worker => grade(worker) !== "ok");
      const paths = status.paths.filter(path => pathGrade(path) !== "ok");
      const parts = troubled.slice(0, 5).map(worker => worker.name
        + (worker.state === "running" ? worker.quarantined ? " has transactions in quarantine"
          : worker.waits.length ? " has suspended tables" : worker.tables_drifted ? " found drift" : " lags"
          : worker.state === "failed" ? " has failed" : " is " + worker.state));
      for (const path of paths.slice(0, 5)) {
        parts.push("trail " + path.trail + " " + wayOf(path) + " is "
          + (path.state === "connected" ? "late" : path.state.replace("_", " ")));
      }
      if (status.conf_refused) parts.push("the last conf is refused: " + status.conf_refused.message);
      if (status.metrics_error) parts.push(status.metrics_error.message);
      for (const slot of status.left_slots.slice(0, 3)) parts.push(slot.message);
      const more = troubled.length + paths.length - Math.min(5, troubled.length) - Math.min(5, paths.length);
      if (more > 0) parts.push(counted(more, "more problem"));
      if (status.ending) parts.unshift("the daemon is ending");
      if (!parts.length) return ["All is well: " + counted(status.workers.length, "worker") + " running", "ok"];
      const isBad = troubled.some(worker => grade(worker) === "bad") || paths.some(path => pathGrade(path) === "bad");
      return [parts.join("; "), isBad ? "bad" : "warn"];
    }

    let last = null;
    function show(status) {
      last = status;
      for (const worker of status.workers) note(worker.name, worker.lag_ms);
      for (const path of status.paths) note(pathKey(path), path.durable_lag_ms);
      repaint();
    }
    function repaint() {
      if (!last) return;
      const [text, kind] = sentence(last);
      put($("news"), text);
      $("news").className = kind;
      put($("node"), last.node);
      document.title = (kind === "ok" ? "" : "▲ ") + last.node + ": Cairn";
      put($("about"), "cairnd " + last.version + ", process " + last.pid + ", since "
        + String(last.started_at).slice(0, 19) + "Z, conf of " + String(last.conf_loaded_at).slice(0, 19) + "Z");
      showMap(last);
      showWorkers(last);
      showPaths(last);
      showLogs(last);
      showDisk(last);
    }

    let isHeld = false;
    let readAt = 0;
    $("hold").addEventListener("click", () => {
      isHeld = !isHeld;
      set($("hold"), "aria-pressed", isHeld);
    });
    $("helpers").addEventListener("change", repaint);
    async function read() {
      const limit = new AbortController();
      const timer = setTimeout(() => limit.abort(), 10000);
      try {
        const answer = await fetch("status.json", { cache: "no-store", signal: limit.signal });
        if (!answer.ok) throw new Error("status " + answer.status);
        show(await answer.json());
        readAt = Date.now();
        put($("age"), "read at " + new Date(readAt).toLocaleTimeString());
      } catch (error) {
        const since = readAt ? " since " + new Date(readAt).toLocaleTimeString() : "";
        put($("news"), "The daemon gives no status" + since);
        $("news").className = "bad";
      }
      clearTimeout(timer);
    }
    async function follow() {
      if (!isHeld && !document.hidden) await read();
      setTimeout(follow, PERIOD);
    }
    follow();
    """#
}
