import CodecKit
import NetKit
import ServiceKit

/// The page `/status` of the metrics listener: one document without other files, the same bytes for every node.
///
/// The page reads `/status.json`, and writes names and texts as text only: they come from databases and peers. The
/// policy in its headers lets the browser run the one script of the page, and load nothing else.
///
/// ```swift
/// StatusPage.response.contentType   // "text/html; charset=utf-8"
/// ```
enum StatusPage {
  static let response = HTTPListener.Response(
    contentType: "text/html; charset=utf-8", body: html,
    headers: [
      ("Content-Security-Policy", policy), ("Referrer-Policy", "no-referrer"), ("X-Frame-Options", "DENY"),
      ("Cross-Origin-Opener-Policy", "same-origin"),
    ])

  /// The content security policy, with the hashes of the script and of the style sheet.
  ///
  /// Source: https://www.w3.org/TR/CSP3/
  static let policy = [
    "default-src 'none'", "script-src 'sha256-\(hash(script))'", "style-src 'sha256-\(hash(style))'",
    "connect-src 'self'", "img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
  ].joined(separator: "; ")

  private static func hash(_ text: String) -> String {
    guard let hash = try? SHA256() else { return "" }
    hash.update(Array(text.utf8))
    return base64(hash.finalize())
  }

  static let script = scriptTools + scriptMap + scriptTables

  static let html = """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Cairn</title>
    <link rel="icon" href="data:,">
    <style>\(style)</style>
    </head>
    <body>
    \(body)
    <script>\(script)</script>
    </body>
    </html>

    """

  private static let body = """
    <a class="skip" href="#workers">Skip to the workers</a>
    <header>
    <div class="top"><h1>Cairn <span id="node"></span></h1>
    <span><span id="age" class="dim"></span> <button type="button" id="hold" aria-pressed="false">Pause</button></span>
    </div>
    <p id="news" role="status" aria-live="polite">Reading the status</p>
    <noscript><p>This page needs its script. Without it, use <code>cairn status</code>.</p></noscript>
    </header>
    <main>
    <section aria-labelledby="map-head">
    <h2 id="map-head">Topology</h2>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="map-head">
    <svg id="map" role="img" aria-labelledby="map-title map-text"><title id="map-title">Topology</title>
    <desc id="map-text"></desc><g id="map-edges"></g><g id="map-nodes"></g></svg>
    </div>
    <p id="map-more" class="dim"></p>
    </section>
    <section aria-labelledby="workers-head" id="workers" tabindex="-1">
    <h2 id="workers-head">Workers</h2>
    <label><input type="checkbox" id="helpers"> Show helper workers</label>
    <table><caption id="workers-text">The workers of this node. Lag over the last ten minutes.</caption>
    <thead><tr><th scope="col">Worker</th><th scope="col">State</th><th scope="col">Lag</th>
    <th scope="col">Lag over time</th><th scope="col">Last change</th><th scope="col">Rows/s</th>
    <th scope="col">Cause and next step</th></tr></thead><tbody id="worker-rows"></tbody></table>
    </section>
    <section aria-labelledby="paths-head" id="paths" hidden>
    <h2 id="paths-head">Between nodes</h2>
    <table><caption id="paths-text"></caption>
    <thead><tr><th scope="col">Trail</th><th scope="col">Way</th><th scope="col">State</th><th scope="col">Lag</th>
    <th scope="col">Lag over time</th><th scope="col">Missing there</th><th scope="col">Cause and next step</th></tr>
    </thead><tbody id="path-rows"></tbody></table>
    </section>
    <section aria-labelledby="logs-head" id="logs" hidden>
    <h2 id="logs-head">Conflicts and quarantine</h2>
    <div id="log-list"></div>
    </section>
    <section aria-labelledby="disk-head">
    <h2 id="disk-head">Disk and retention</h2>
    <p id="disk"></p>
    <table><caption>The trails of this node</caption>
    <thead><tr><th scope="col">Trail</th><th scope="col">Size</th><th scope="col">Since</th>
    <th scope="col">History</th></tr></thead><tbody id="trail-rows"></tbody></table>
    <table><caption>Changes that wait at the sources</caption>
    <thead><tr><th scope="col">Capture</th><th scope="col">Waiting</th><th scope="col">Cause and next step</th></tr>
    </thead><tbody id="source-rows"></tbody></table>
    </section>
    </main>
    <footer class="dim"><span id="about"></span></footer>
    """
}
