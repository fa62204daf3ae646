import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// The places of the files of `make install`, the daemon's permissions in the unit, and the service in a booted
  /// systemd.
  @Suite struct InstallTests {
    private static let programs = URL(fileURLWithPath: Bench.cairn).deletingLastPathComponent().path
    private static let release = Bench.root + "/.build/release"
    private static let analyze = "/usr/bin/systemd-analyze"

    private func make(_ bench: Bench, _ words: [String]) throws -> Outcome {
      let settings = [
        "BUILT=\(Self.programs)", "LIBRARY=\(Self.programs)/libCairnC.so", "STAGE=\(bench.path("stage"))",
      ]
      return try bench.run(
        "/usr/bin/env", ["-u", "MAKEFLAGS", "-u", "MAKELEVEL", "make", "-s", "-C", Bench.root] + settings + words)
    }

    /// All files below a folder, with their modes.
    private func files(_ bench: Bench, _ folder: String) throws -> Set<String> {
      let found = try bench.run("/usr/bin/find", [folder, "!", "-type", "d", "-printf", "%P %m\\n"])
      return Set(found.output.split(separator: "\n").map(String.init))
    }

    @Test func `install puts files below DESTDIR, never over a conf, and uninstall takes away just these`() throws {
      let bench = try Bench()
      let place = bench.path("image")
      let other = "\(place)/opt/share/doc/cairn/of-somebody.txt"
      try FileManager.default.createDirectory(
        atPath: URL(fileURLWithPath: other).deletingLastPathComponent().path, withIntermediateDirectories: true)
      #expect(FileManager.default.createFile(atPath: other, contents: Data()))
      let words = ["DESTDIR=\(place)", "PREFIX=/opt", "SYSCONFDIR=/etc"]
      let installed = try make(bench, ["install"] + words)
      try #require(installed.status == 0, "\(installed.errors)")
      let files = try self.files(bench, place)
      for file in [
        "opt/bin/cairn 755", "opt/bin/cairnd 755", "opt/lib/systemd/system/cairnd.service 644",
        "opt/lib/sysusers.d/cairn.conf 644", "opt/lib/tmpfiles.d/cairn.conf 644", "opt/share/man/man1/cairn.1 644",
        "opt/share/man/man5/cairn.toml.5 644", "opt/share/man/man8/cairnd.8 644",
        "opt/share/bash-completion/completions/cairn 644", "opt/share/bash-completion/completions/cairnd 644",
        "opt/share/zsh/site-functions/_cairn 644", "opt/share/fish/vendor_completions.d/cairn.fish 644",
        "opt/share/doc/cairn/README.md 644", "opt/share/doc/cairn/docs/README.md 644",
        "opt/share/doc/cairn/docs/guides/install.md 644",
        "opt/share/doc/cairn/docs/decisions/0001-no-time-in-journal-rows.md 644",
        "opt/share/doc/cairn/conf/cairn.toml 644", "opt/share/doc/cairn/systemd/sqlite.conf.example 644",
        "etc/cairn/cairn.toml 644", "opt/lib/libcairn.so.0 644", "opt/lib/libcairn.so 777", "opt/include/cairn.h 644",
        "opt/lib/pkgconfig/cairn.pc 644", "opt/share/doc/cairn/docs/examples/till/Sources/till/Till.swift 644",
      ] { #expect(files.contains(file), "\(file)") }
      for file in files where file.contains("/lib/") && !file.contains("/libcairn.so") {
        let text = bench.text("image/\(file.split(separator: " ")[0])")
        for word in ["@BINDIR@", "@CONFDIR@", "@STATEDIR@", "@PREFIX@", "@VERSION@", "@LIBDIR@", "@INCLUDEDIR@"] {
          #expect(!text.contains(word), "\(file)")
        }
      }
      #expect(
        bench.text("image/opt/lib/systemd/system/cairnd.service").contains(
          "ExecStart=/opt/bin/cairnd --config /etc/cairn"))

      let conf = bench.path("image/etc/cairn/cairn.toml")
      #expect(bench.text("image/etc/cairn/cairn.toml").split(separator: "\n").count <= 15)
      #expect(
        try bench.run(Bench.cairn, ["check", "--config", bench.path("image/etc/cairn")]).errors.contains("conf-missing")
      )
      try Data("[node]\nname = 'mine'\n".utf8).write(to: URL(fileURLWithPath: conf))
      #expect(try make(bench, ["install"] + words).status == 0)
      #expect(bench.text("image/etc/cairn/cairn.toml").contains("mine"))

      try bench.makeSample()
      #expect(try bench.replicateOnce().status == 0)
      try Data(
        """
        [node]
        name = "mine"
        [database.pos]
        url = "sqlite://\(bench.path("source.db"))"
        [capture.pos]
        database = "pos"
        """.utf8
      ).write(to: URL(fileURLWithPath: conf))
      let uninstalled = try make(bench, ["uninstall"] + words)
      #expect(uninstalled.status == 0)
      #expect(uninstalled.output.contains("cairn detach 'sqlite:\(bench.path("source.db"))'  # capture.pos"))
      #expect(try self.files(bench, place) == ["etc/cairn/cairn.toml 644", "opt/share/doc/cairn/of-somebody.txt 644"])
    }

    @Test(
      .enabled(
        if: FileManager.default.isExecutableFile(atPath: analyze), "there is no systemd-analyze (package systemd)"))
    func `systemd finds nothing wrong in the unit, and little that an intruder could do`() throws {
      let bench = try Bench()
      // systemd takes no path with two slashes in a row.
      let place = "/" + bench.path("image").split(separator: "/").joined(separator: "/")
      #expect(try make(bench, ["install", "PREFIX=\(place)/usr", "SYSCONFDIR=\(place)/etc"]).status == 0)
      let unit = "\(place)/usr/lib/systemd/system/cairnd.service"
      let verified = try bench.run(Self.analyze, ["verify", "--man=no", "--recursive-errors=yes", unit])
      #expect(verified.status == 0 && verified.errors == "", "\(verified.errors)")
      // With the drop-in for SQLite files too.
      let dropIn = bench.text("image/usr/share/doc/cairn/systemd/sqlite.conf.example")
      for more in ["", dropIn] {
        try Data((bench.text("image/usr/lib/systemd/system/cairnd.service") + more).utf8)
          .write(to: URL(fileURLWithPath: bench.path("cairnd.service")))
        let rated = try bench.run(
          Self.analyze, ["security", "--offline=true", "--no-pager", "--threshold=15", bench.path("cairnd.service")])
        #expect(rated.status == 0, "\(rated.output.suffix(400))")
      }
    }

    /// The settings that docs/security.md counts on, beside those that systemd rates.
    @Test func `the unit limits memory and threads, and its files are not for everybody`() throws {
      let unit = try String(contentsOfFile: Bench.root + "/systemd/cairnd.service", encoding: .utf8)
      let lines = unit.split(separator: "\n").map(String.init)
      for (setting, value) in [
        ("MemoryMax", "50%"), ("TasksMax", "4096"), ("UMask", "0027"), ("LimitCORE", "0"), ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""), ("User", "cairn"),
      ] { #expect(lines.filter { $0.hasPrefix(setting + "=") } == ["\(setting)=\(value)"]) }
    }

    /// Symbols that are bound late, and libraries that are looked for beside the program, are what an intruder looks for.
    @Test(
      .enabled(
        if: FileManager.default.isExecutableFile(atPath: release + "/libcairn.so"),
        "there is no release build: make build"
      ))
    func `released programs bind their symbols at once, and take libraries from the system only`() throws {
      let bench = try Bench()
      for file in ["cairn", "cairnd", "libcairn.so"] {
        let dynamic = try bench.run("/usr/bin/readelf", ["-dW", "\(Self.release)/\(file)"])
        try #require(dynamic.status == 0, "\(dynamic.errors)")
        #expect(dynamic.output.contains("BIND_NOW"), "\(file)")
        #expect(!dynamic.output.contains("RUNPATH") && !dynamic.output.contains("RPATH"), "\(file)")
        let header = try bench.run("/usr/bin/readelf", ["-hlW", "\(Self.release)/\(file)"]).output
        #expect(header.contains("DYN ") && header.contains("GNU_RELRO"), "\(file)")
        #expect(!header.contains(" RWE "), "\(file)")
      }
      let symbols = try bench.run(
        "/usr/bin/nm",
        ["-D", "--defined-only", "--extern-only", "--format=just-symbols", "\(Self.release)/libcairn.so"])
      #expect(Set(symbols.output.split(separator: "\n").map(String.init)) == Self.functions)
    }

    @Test func `the library exports the functions of its header, and only these`() throws {
      let map = try String(contentsOfFile: Bench.root + "/Sources/C/CCairn/cairn.map", encoding: .utf8)
      let listed = map.split(separator: "\n").filter { $0.hasPrefix("    ") }.map { $0.dropFirst(4).dropLast() }
      #expect(Set(listed.map(String.init)) == Self.functions && Self.functions.count > 20)
    }

    /// The functions that cairn.h declares, without those that it defines itself.
    private static let functions: Set<String> = {
      let path = Bench.root + "/Sources/C/CCairn/include/cairn.h"
      let header = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
      let code = header.replacing(/\/\*[\s\S]*?\*\//, with: "").replacing(/static inline[^{]*\{[^}]*\}/, with: "")
      return Set(code.matches(of: /\b(cairn_[a-z_]+)\(/).map { String($0.1) })
    }()

    @Test(arguments: [("prometheus-rules.yml", " expr: "), ("grafana-dashboard.json", "\"expr\": ")])
    func `alert rules and dashboard name metrics that there are`(file: String, mark: String) throws {
      let rules = try String(contentsOfFile: Bench.root + "/conf/" + file, encoding: .utf8)
      let page = try String(contentsOfFile: Bench.root + "/docs/reference/metrics.md", encoding: .utf8)
      let names = Set(
        rules.split(separator: "\n").filter { $0.contains(mark) }.flatMap {
          $0.split(whereSeparator: { !$0.isLetter && $0 != "_" }).filter { $0.hasPrefix("cairn_") }
            .map { $0.hasSuffix("_bucket") ? $0.dropLast("_bucket".count) : $0 }
        })
      #expect(names.count > 8)
      for name in names { #expect(page.contains("| `\(name)` |"), "\(name)") }
    }

    @Test func `systemd starts, reloads, restarts, watches and stops it`() throws {
      let bench = try Bench()
      let outcome = try bench.run("/bin/bash", [Bench.tool("nspawn.sh"), Self.programs], seconds: 120)
      if outcome.status == 77 { return print(outcome.output) }
      print(outcome.output)
      #expect(outcome.status == 0, "\(outcome.output)\(outcome.errors)")
    }
  }
}
