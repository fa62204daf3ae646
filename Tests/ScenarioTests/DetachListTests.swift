import Foundation
import TestServers
import Testing

extension Scenarios {
  /// `cairn detach --list`: the databases of a conf that have something of Cairn.
  @Suite struct DetachListTests {
    private func conf(_ bench: Bench, more: String = "") throws {
      try FileManager.default.createDirectory(atPath: bench.path("conf"), withIntermediateDirectories: true)
      try Data(
        """
        [node]
        name = "local"
        state = "\(bench.path("state"))"
        [database.pos]
        url = "sqlite://\(bench.path("source.db"))"
        [database.copy]
        url = "sqlite://\(bench.path("target.db"))"
        [database.gone]
        url = "sqlite://\(bench.path("gone.db"))"
        [database.erp]
        url = "postgresql://cairn@192.0.2.1/erp"
        [capture.pos]
        database = "pos"
        [apply.copy]
        trail = "local.pos"
        database = "copy"
        [apply.erp]
        trail = "local.pos"
        database = "erp"
        \(more)
        """.utf8
      ).write(to: URL(fileURLWithPath: bench.path("conf/cairn.toml")))
    }

    private func list(_ bench: Bench, _ words: [String] = []) throws -> Outcome {
      try bench.run(Bench.cairn, ["detach", "--list", "--config", "conf"] + words)
    }

    @Test func `it names what is attached, and writes nothing`() throws {
      let bench = try Bench()
      try bench.makeSample()
      #expect(try bench.replicateOnce().status == 0)
      try conf(bench)
      let listed = try list(bench)
      #expect(listed.status == 0)
      #expect(
        listed.output.split(separator: "\n").map(String.init) == [
          "cairn detach 'sqlite:\(bench.path("source.db"))'  # capture.pos, has triggers or tables of Cairn",
          "cairn detach 'sqlite:\(bench.path("target.db"))'  # apply.copy, has triggers or tables of Cairn",
          "cairn detach 'sqlite:\(bench.path("gone.db"))'  # the file is missing",
          "cairn detach 'postgresql://cairn@192.0.2.1/erp'  # apply.erp, was not looked at",
        ], "\(listed.output)")
      // The state folder has the trail local.source, of a capture that this conf does not have.
      #expect(listed.errors.contains("trail local.source has no capture in the conf"), "\(listed.errors)")

      // The first word of each line is a command that works.
      for end in ["source", "target"] {
        #expect(try bench.run(Bench.cairn, ["detach", "sqlite:\(bench.path(end + ".db"))"]).status == 0)
      }
      let after = try list(bench)
      #expect(after.output.split(separator: "\n").count == 2 && !after.output.contains("source.db"), "\(after.output)")
      let facts = try list(bench, ["--json"]).output
      #expect(facts.contains("\"found\":false") && facts.contains("\"found\":null"), "\(facts)")
    }

    @Test func `a conf with errors is read as far as it goes`() throws {
      let bench = try Bench()
      try bench.makeSample()
      #expect(try bench.replicateOnce().status == 0)
      try conf(bench, more: "[capture.extra]\ndatabse = \"pos\"\n")
      let listed = try list(bench)
      #expect(listed.status == 0 && listed.output.contains("source.db'  # capture.pos"), "\(listed.output)")
    }

    @Test func `without a conf there is nothing to name`() throws {
      let bench = try Bench()
      try FileManager.default.createDirectory(atPath: bench.path("conf"), withIntermediateDirectories: true)
      let listed = try list(bench)
      #expect(listed.status == 0 && !listed.output.contains("cairn detach"), "\(listed.output)\(listed.errors)")
    }

    @Test func `it takes no URL, and nothing that would change something`() throws {
      let bench = try Bench()
      for words in [["sqlite:a.db"], ["--slot", "x"], ["--trail", "a.b"], ["--reader"], ["--state", "x"]] {
        #expect(try bench.run(Bench.cairn, ["detach", "--list"] + words).status == 64, "\(words)")
      }
    }
  }
}
