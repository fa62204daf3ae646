extension StatusPage {
  /// The style sheet of the page, for light and dark, and for widths from 320 pixels.
  static let style = #"""
    :root{color-scheme:light dark;--back:#fff;--card:#f6f8fa;--line:#d0d7de;--text:#1f2328;--dim:#57606a;
    --ok:#116329;--warn:#7a4d00;--bad:#a40e26;--link:#0550ae}
    @media (prefers-color-scheme:dark){:root{--back:#0d1117;--card:#161b22;--line:#3d444d;--text:#e6edf3;
    --dim:#9198a1;--ok:#56d364;--warn:#e3b341;--bad:#ff7b72;--link:#79c0ff}}
    *{box-sizing:border-box}
    [hidden]{display:none!important}
    body{margin:0;background:var(--back);color:var(--text);font:15px/1.45 system-ui,sans-serif}
    header,main,footer{max-width:78rem;margin:0 auto;padding:.6rem 1rem}
    h1{font-size:1.3rem;margin:0}
    h2{font-size:1.05rem;margin:1.4rem 0 .4rem}
    .top{display:flex;flex-wrap:wrap;gap:.4rem 1rem;align-items:baseline;justify-content:space-between}
    .dim{color:var(--dim)}
    .ok{color:var(--ok)}
    .warn{color:var(--warn)}
    .bad{color:var(--bad)}
    #news{margin:.6rem 0 0;padding:.5rem .8rem;border:1px solid var(--line);border-left:5px solid currentColor;
    background:var(--card);border-radius:4px;font-weight:600;overflow-wrap:anywhere}
    .skip{position:absolute;left:-99rem}
    .skip:focus{left:1rem;top:.3rem;background:var(--back);padding:.3rem .6rem}
    :focus-visible{outline:3px solid var(--link);outline-offset:2px}
    button,label{font:inherit;color:inherit}
    button{border:1px solid var(--line);border-radius:4px;background:var(--card);padding:.2rem .7rem;cursor:pointer}
    .scroll{overflow-x:auto;border:1px solid var(--line);border-radius:4px;background:var(--card)}
    #map{display:block;min-width:60rem;width:100%;height:auto}
    #map text{font-size:12px;fill:var(--text)}
    #map .dim{fill:var(--dim)}
    #map .head{font-size:11px;fill:var(--dim)}
    #map rect{fill:var(--back);stroke:var(--line);stroke-width:1.5}
    #map .ok rect{stroke:var(--ok)}
    #map .warn rect{stroke:var(--warn);stroke-width:3}
    #map .bad rect{stroke:var(--bad);stroke-width:3;stroke-dasharray:7 3}
    #map .ok .state{fill:var(--ok)}
    #map .warn .state{fill:var(--warn)}
    #map .bad .state{fill:var(--bad)}
    #map path{fill:none;stroke:var(--dim);stroke-width:1.5}
    #map path.moves{stroke:var(--ok);stroke-width:2.5;stroke-dasharray:6 5}
    @media (prefers-reduced-motion:no-preference){#map path.moves{animation:flow 1s linear infinite}}
    @keyframes flow{to{stroke-dashoffset:-11}}
    table{border-collapse:collapse;width:100%}
    caption{text-align:left;color:var(--dim);padding:.1rem 0 .3rem}
    th,td{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;border-top:1px solid var(--line);
    overflow-wrap:anywhere}
    thead th{border-top:0;color:var(--dim);font-weight:600;overflow-wrap:normal}
    tbody th{font-weight:600;min-width:8rem}
    thead th,td.n,td.ok,td.warn,td.bad{white-space:nowrap}
    td.n{font-variant-numeric:tabular-nums}
    .why{max-width:34rem}
    .why p{margin:0 0 .25rem}
    code{font:13px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}
    .spark{display:inline-block;vertical-align:middle;width:120px;height:26px}
    .none .spark{display:none}
    .spark polyline{fill:none;stroke:var(--link);stroke-width:1.5}
    .spark line{stroke:var(--line)}
    details{border-top:1px solid var(--line);padding:.3rem 0}
    summary{cursor:pointer;font-weight:600;overflow-wrap:anywhere}
    meter{width:12rem;max-width:100%}
    @media (max-width:44rem){
    table,tbody,tr,th,td,caption{display:block}
    thead{position:absolute;left:-99rem}
    tbody tr{border-top:1px solid var(--line);padding:.4rem 0}
    th,td{border:0;padding:.1rem 0}
    td[data-of]::before{content:attr(data-of) ": ";color:var(--dim)}
    td:empty,td.none{display:none}
    .why{max-width:none}
    }
    """#
}
