extension StatusPage {
  /// The second part of the script: the picture of databases, workers, trails and peers.
  static let scriptMap = #"""

    const TRAILS = 40;
    const COLUMNS = ["databases and nodes", "brought by", "trails", "taken by", "databases and nodes"];
    const LEFT = [10, 215, 420, 625, 830];
    const WIDE = 170;
    const HIGH = 46;
    const STEP = 60;

    // Returns the nodes and edges of the picture: five columns, from the sources to the targets.
    function topology(status) {
      const columns = [[], [], [], [], []];
      const known = new Map();
      const edges = [];
      function node(column, key, name, state, kind, detail) {
        const id = column + " " + key;
        if (!known.has(id)) {
          known.set(id, { id, column, name, state, kind, detail });
          columns[column].push(id);
        }
        return id;
      }
      function edge(from, to, moves) { edges.push({ key: from + "\n" + to, from, to, moves }); }
      const names = new Map();
      const grades = new Map();
      function worse(trail, kind) {
        names.set(trail, true);
        if (bad[kind] < bad[grades.get(trail) || "ok"]) grades.set(trail, kind);
      }
      for (const trail of status.trails) worse(trail.name, "ok");
      const ends = status.workers.filter(worker => worker.kind === "capture" || worker.kind === "apply");
      for (const worker of ends) if (worker.trail) worse(worker.trail, grade(worker));
      for (const path of status.paths) worse(path.trail, pathGrade(path));
      const order = Array.from(names.keys());
      order.sort((a, b) => bad[grades.get(a) || "ok"] - bad[grades.get(b) || "ok"] || (a < b ? -1 : 1));
      for (const name of order.slice(0, TRAILS).sort()) {
        const facts = status.trails.find(trail => trail.name === name);
        const trail = node(2, name, name, facts ? size(facts.bytes) : "not here yet", "ok", "trail " + name);
        for (const worker of ends.filter(worker => worker.trail === name)) {
          const text = worker.state + (worker.lag_ms === null ? "" : ", " + lag(worker.lag_ms));
          const isCapture = worker.kind === "capture";
          const moves = worker.rows_per_second > 0;
          const place = node(isCapture ? 0 : 4, "database " + worker.database, worker.database, "", "", worker.database);
          const column = isCapture ? 1 : 3;
          const self = node(column, worker.name, worker.name, text, grade(worker), worker.detail);
          if (isCapture) { edge(place, self, moves); edge(self, trail, moves); }
          else { edge(trail, self, moves); edge(self, place, moves); }
        }
        for (const path of status.paths.filter(path => path.trail === name)) {
          const out = isOutward(path);
          const peer = node(out ? 4 : 0, "node " + path.peer, "node " + path.peer, "", "", "node " + path.peer);
          const by = path.worker || (out ? wayOf(path) : "receive");
          const key = path.worker || path.way + " " + path.peer;
          const late = lag(path.durable_lag_ms);
          const text = path.state.replace("_", " ") + (late ? ", " + late : "");
          const self = node(out ? 3 : 1, key, by, text, pathGrade(path), wayOf(path));
          const moves = path.bytes_per_second > 0;
          if (out) { edge(trail, self, moves); edge(self, peer, moves); }
          else { edge(peer, self, moves); edge(self, trail, moves); }
        }
      }
      return { columns, known, edges, left: Math.max(0, order.length - TRAILS) };
    }

    function showMap(status) {
      const { columns, known, edges, left } = topology(status);
      const most = Math.max(1, ...columns.map(column => column.length));
      const high = 34 + most * STEP;
      set($("map"), "viewBox", "0 0 1010 " + high);
      columns.forEach((column, index) => {
        const from = 30 + (most - column.length) * STEP / 2;
        column.forEach((id, row) => {
          const node = known.get(id);
          node.x = LEFT[index];
          node.y = from + row * STEP;
        });
      });
      const heads = COLUMNS.map((name, index) => ({ id: "head " + index, name, x: LEFT[index], y: 0, isHead: true }));
      list($("map-nodes"), heads.concat(Array.from(known.values())), node => node.id, node => {
        if (node.isHead) return draw("text", { class: "head" });
        return draw("g", {}, draw("title"), draw("rect", { width: WIDE, height: HIGH, rx: 6 }),
          draw("text", { x: 9, y: 19 }), draw("text", { x: 9, y: 36, class: "state dim" }));
      }, (group, node) => {
        if (node.isHead) {
          set(group, "x", node.x);
          set(group, "y", 18);
          put(group, node.name);
          return;
        }
        set(group, "transform", "translate(" + node.x + " " + node.y + ")");
        set(group, "class", node.kind || "plain");
        const [title, , name, state] = group.children;
        put(title, node.name + (node.state ? ": " + node.state : "") + (node.detail ? "; " + node.detail : ""));
        const sign = node.kind === "bad" ? "✖ " : node.kind === "warn" ? "▲ " : "";
        put(name, short(node.name.replace(/^(sqlite|postgresql):\/\//, ""), 22));
        put(state, sign + short(node.state, 22));
      });
      list($("map-edges"), edges, edge => edge.key, () => draw("path"), (path, edge) => {
        const [from, to] = [known.get(edge.from), known.get(edge.to)];
        const [x, y, u, v] = [from.x + WIDE, from.y + HIGH / 2, to.x, to.y + HIGH / 2];
        const middle = (x + u) / 2;
        set(path, "d", "M" + x + " " + y + "C" + middle + " " + y + " " + middle + " " + v + " " + u + " " + v);
        set(path, "class", edge.moves ? "moves" : "rests");
      });
      const lines = edges.filter(edge => edge.to.startsWith("2 ") || edge.from.startsWith("2 ")).map(edge =>
        known.get(edge.from).name + " to " + known.get(edge.to).name);
      put($("map-text"), lines.slice(0, ROWS).join("; "));
      put($("map-more"), left ? counted(left, "more trail") + " not drawn; the tables and cairn status have them" : "");
    }
    """# + "\n"
}
