extension StatusPage {
  /// The first part of the script: elements, lists by key, and texts for numbers.
  ///
  /// Values of the status reach the page only through `textContent` and `setAttribute`, never as HTML.
  static let scriptTools = #"""
    "use strict";
    const $ = id => document.getElementById(id);
    const SVG = "http://www.w3.org/2000/svg";
    const ROWS = 200;
    const SAMPLES = 300;
    const KEYS = 400;
    const PERIOD = 2000;

    function put(node, text) {
      text = String(text === null || text === undefined ? "" : text);
      if (node.textContent !== text) node.textContent = text;
      return node;
    }
    function make(tag, attributes, ...kids) {
      const node = document.createElement(tag);
      for (const name in attributes || {}) node.setAttribute(name, attributes[name]);
      for (const kid of kids) node.append(kid);
      return node;
    }
    function draw(tag, attributes, ...kids) {
      const node = document.createElementNS(SVG, tag);
      for (const name in attributes || {}) node.setAttribute(name, attributes[name]);
      for (const kid of kids) node.append(kid);
      return node;
    }
    function set(node, name, value) {
      if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
    }
    // Keeps the elements of known keys, so that focus and unfolded details survive.
    function list(parent, items, keyOf, create, update) {
      const old = parent.known || new Map();
      const known = new Map();
      let place = parent.firstChild;
      for (const item of items) {
        const key = keyOf(item);
        if (known.has(key)) continue;
        const node = old.get(key) || create(item);
        known.set(key, node);
        old.delete(key);
        update(node, item);
        if (node === place) place = place.nextSibling;
        else parent.insertBefore(node, place);
      }
      for (const node of old.values()) node.remove();
      parent.known = known;
    }

    function lag(ms) {
      if (ms === null || ms === undefined) return "";
      if (ms < 1000) return Math.max(0, Math.floor(ms)) + " ms";
      if (ms < 120000) return (Math.floor(ms / 100) / 10).toFixed(1) + " s";
      if (ms < 7200000) return Math.floor(ms / 60000) + " min";
      return Math.floor(ms / 3600000) + " h";
    }
    function size(bytes) {
      if (bytes === null || bytes === undefined) return "";
      const units = ["B", "KiB", "MiB", "GiB", "TiB"];
      let unit = 0;
      while (bytes >= 1024 && unit < 4) { bytes /= 1024; unit += 1; }
      return (unit === 0 ? bytes : bytes.toFixed(1)) + " " + units[unit];
    }
    function time(text) { return text ? Date.parse(String(text).slice(0, 23).replace(/Z?$/, "Z")) : NaN; }
    function short(text, most) {
      const points = Array.from(String(text));
      return points.length <= most ? points.join("") : points.slice(0, most - 1).join("") + "…";
    }
    function counted(count, one, many) { return count + " " + (count === 1 ? one : many || one + "s"); }
    const isHelper = worker => worker.kind === "heartbeat" || worker.kind === "purge";
    const LAG = 60000;

    function grade(worker) {
      if (worker.state === "failed" || worker.state === "stopped") return "bad";
      const isWell = worker.state === "running" && !worker.waits.length && !worker.quarantined
        && !worker.tables_drifted && (worker.lag_ms || 0) <= LAG;
      return isWell ? "ok" : "warn";
    }
    function pathGrade(path) {
      if (path.state === "failed" || path.state === "given_up") return "bad";
      const late = Math.max(path.durable_lag_ms || 0, path.applied_lag_ms || 0) > LAG;
      if (path.state === "connected") return late ? "warn" : "ok";
      if (path.way === "received") return "ok";
      return path.way === "served" && path.durable_lag_ms !== null && !late ? "ok" : "warn";
    }
    const WAYS = { push: "pushed to", pull: "pulled from", served: "pulled by", received: "pushed by" };
    const isOutward = path => path.way === "push" || path.way === "served";
    const wayOf = path => WAYS[path.way] + " " + path.peer;
    const pathKey = path => JSON.stringify([path.trail, path.peer, path.way]);
    const bad = { bad: 0, warn: 1, ok: 2 };

    // A history of lags, of the last ten minutes, for each worker and path.
    const history = new Map();
    function note(key, value) {
      if (value === null || value === undefined) return;
      if (!history.has(key)) {
        if (history.size >= KEYS) return;
        history.set(key, []);
      }
      const samples = history.get(key);
      samples.push(value);
      if (samples.length > SAMPLES) samples.shift();
    }
    function spark() {
      return draw("svg", { class: "spark", viewBox: "0 0 120 26", role: "img" },
        draw("line", { x1: 0, y1: 25, x2: 120, y2: 25 }), draw("polyline", { points: "" }));
    }
    function plot(image, key, isUnknown) {
      const samples = history.get(key) || [];
      set(image.parentNode, "class", isUnknown && !samples.length ? "none" : "");
      const most = Math.max(1, ...samples);
      const points = samples.map((value, index) =>
        (index * 120 / Math.max(29, samples.length - 1)).toFixed(1) + "," + (25 - value * 23 / most).toFixed(1));
      set(image.lastChild, "points", points.join(" "));
      const text = samples.length
        ? "lag from " + lag(Math.min(...samples)) + " to " + lag(Math.max(...samples)) : "no lag known yet";
      set(image, "aria-label", text);
    }
    """# + "\n"
}
