import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// The man pages and the completion know what the commands know.
  @Suite struct ManualTests {
    /// The options of each command, as its help lists them.
    private func commands(_ bench: Bench) throws -> [(name: String, options: [String])] {
      let list = try bench.run(Bench.cairn, ["--help"]).output.split(separator: "\n\n")
      let names = try #require(list.dropFirst(2).first).split(separator: "\n").map {
        String($0.split(separator: " ")[0])
      }
      try #require(names.count > 5 && names.contains("replicate"))
      return try (names + ["help"]).map { name in
        let help = try bench.run(Bench.cairn, [name, "--help"])
        try #require(help.status == 0, "\(name)")
        let options = help.output.split(separator: "\n").filter { $0.hasPrefix("  --") }
          .map { String($0.split(separator: " ")[0]) }
        return (name, options.filter { $0 != "--help" })
      }
    }

    @Test func `the man page has every command and every option`() throws {
      let bench = try Bench()
      let page = try bench.run(Bench.cairn, ["help", "--man", "cairn"]).output.filter { $0 != "\\" && $0 != "&" }
      let sections = page.split(separator: "\n.Ss ").dropFirst()
      for (name, options) in try commands(bench) {
        let section: Substring = try #require(sections.first { $0.hasPrefix("cairn \(name)") }, "\(name)")
        let items = section.split(separator: "\n").filter { $0.hasPrefix(".It Fl ") }.map {
          $0.split(separator: " ")[2]
        }
        for option in options { #expect(items.contains(option.dropFirst()), "\(name) \(option)") }
      }
      let codes = try bench.run(Bench.cairn, ["explain", "--json"]).output
        .split(separator: "\n").compactMap { line in
          line.split(separator: "\"code\":")[1].split(separator: "\"").first { $0.contains { $0.isLetter } }
        }
      try #require(codes.count > 30)
      for code in codes { #expect(page.contains(code), "\(code)") }
    }

    @Test(arguments: [("cairn", "1"), ("cairnd", "8"), ("cairn.toml", "5")])
    func `mandoc finds nothing wrong in a page`(page: String, section: String) throws {
      let bench = try Bench()
      let outcome = try bench.run(Bench.cairn, ["help", "--man", page])
      #expect(outcome.status == 0)
      #expect(outcome.output.hasPrefix(".Dd "))
      try Data(outcome.output.utf8).write(to: URL(fileURLWithPath: bench.path("\(page).\(section)")))
      let mandoc = "/usr/bin/mandoc"
      guard FileManager.default.isExecutableFile(atPath: mandoc) else { return }
      let lint = try bench.run(mandoc, ["-T", "lint", "-W", "warning", "\(page).\(section)"])
      #expect(lint.status == 0 && lint.output + lint.errors == "", "\(lint.output)\(lint.errors)")
    }

    @Test func `the page of the conf has every section and every option`() throws {
      let bench = try Bench()
      let page = try bench.run(Bench.cairn, ["config", "--man"]).output
      let lines = Set(page.filter { $0 != "\\" && $0 != "&" }.split(separator: "\n").map(String.init))
      let list = try bench.run(Bench.cairn, ["config", "--markdown"]).output.split(separator: "\n")
      let options = list.filter { $0.hasPrefix("### ") }.map { String($0.dropFirst(4)) }
      try #require(options.count > 30)
      for option in options { #expect(lines.contains(".It Cm \(option)"), "\(option)") }
      #expect(list.count { $0.hasPrefix("## ") } == lines.count { $0.hasPrefix(".Sh [") && $0.hasSuffix(" OPTIONS") })
      #expect(try bench.run(Bench.cairn, ["help", "--man", "cairn.toml"]).output == page)
    }

    @Test(arguments: [("help", "commands"), ("explain", "errors"), ("config", "configuration")])
    func `a page of the reference is what the program prints`(command: String, page: String) throws {
      let path = "docs/reference/\(page).md"
      let printed = try Bench().run(Bench.cairn, [command, "--markdown"])
      let text = try String(contentsOfFile: Bench.root + "/" + path, encoding: .utf8)
      #expect(printed.status == 0 && printed.output == text, "run 'cairn \(command) --markdown > \(path)'")
    }

    @Test func `the page of commands has every command and every option`() throws {
      let bench = try Bench()
      let sections = try bench.run(Bench.cairn, ["help", "--markdown"]).output.split(separator: "\n## ")
      for (name, options) in try commands(bench) {
        let section = try #require(sections.first { $0.hasPrefix("cairn \(name)\n") }, "\(name)")
        for option in options {
          #expect(section.contains("\n| `\(option)` |") || section.contains("\n| `\(option) "), "\(name) \(option)")
        }
      }
      #expect(sections.last?.hasPrefix("Exit status\n") == true)
    }

    @Test func `a topic that is unknown to help is refused`() throws {
      let bench = try Bench()
      for words in [
        ["help", "replicat"], ["help", "--man", "x"], ["help", "--completion", "csh"], ["help", "--man"],
        ["help", "--markdown", "x"],
      ] {
        let outcome = try bench.run(Bench.cairn, words)
        #expect(outcome.status == 64 && outcome.errors.contains("hint: "), "\(words): \(outcome.errors)")
      }
    }

    // MARK: Completion

    /// Returns the completions that bash offers after the line.
    private func completed(_ line: String, _ bench: Bench) throws -> [String] {
      // Readline splits at blanks, and makes words of ':' and '='.
      var words = [""]
      for character in line {
        if character == " " {
          words.append("")
        } else if character == ":" || character == "=" {
          if words.last == "" { words[words.count - 1] = String(character) } else { words.append(String(character)) }
          words.append("")
        } else {
          words[words.count - 1].append(character)
        }
      }
      if words.count > 1, words.last == "", line.hasSuffix(":") || line.hasSuffix("=") { words.removeLast() }
      let quoted = words.map { "'\($0)'" }.joined(separator: " ")
      let script = """
        source <('\(Bench.cairn)' help --completion bash)
        PATH='\(URL(fileURLWithPath: Bench.cairn).deletingLastPathComponent().path)':$PATH
        COMP_LINE='\(line)' COMP_POINT=${#COMP_LINE} COMP_WORDS=(\(quoted)) COMP_CWORD=\(words.count - 1)
        _cairn_complete
        printf '%s\\n' "${COMPREPLY[@]}"
        """
      let outcome = try bench.run("/bin/bash", ["-u", "-c", script])
      #expect(outcome.status == 0 && outcome.errors == "", "\(line): \(outcome.errors)")
      return outcome.output.split(separator: "\n").map(String.init)
    }

    @Test func `bash completes every command and every option`() throws {
      let bench = try Bench()
      let commands = try commands(bench)
      #expect(Set(try completed("cairn ", bench)) == Set(commands.map(\.name) + ["--help", "--version"]))
      for (name, options) in commands {
        #expect(Set(try completed("cairn \(name) --", bench)) == Set(options + ["--help"]), "\(name)")
      }
      #expect(try completed("cairnd --conf", bench) == ["--config"])
      let help = try bench.run(Bench.cairn + "d", ["--help"]).output
      let page = try bench.run(Bench.cairn, ["help", "--man", "cairnd"]).output.filter { $0 != "\\" && $0 != "&" }
      for option in try completed("cairnd --", bench) {
        #expect(help.contains("\n  \(option) ") && page.contains(".It Fl \(option.dropFirst())"), "cairnd \(option)")
      }
    }

    @Test func `bash completes values, files, codes and names of trails`() throws {
      let bench = try Bench()
      try bench.makeSample()
      #expect(try bench.replicateOnce().status == 0)
      for (line, expected) in [
        ("cairn repl", ["replicate"]),
        ("cairn replicate --existing ", ["keep", "merge", "overwrite"]),
        ("cairn replicate --from sqlite:a.db --existing=m", ["merge"]),
        ("cairn replicate --from ", ["postgresql://", "sqlite:"]),
        ("cairn replicate --from sqlite:so", ["source.db"]),
        ("cairn replicate --from=sqlite:so", ["source.db"]),
        ("cairn detach sqlite:./so", ["./source.db"]),
        ("cairn detach s", ["sqlite:"]),
        ("cairn detach --json sqlite:ta", ["target.db"]),
        ("cairn trail sh", ["show"]),
        ("cairn trail --state state show ", ["local.source"]),
        ("cairn trail show --state state --sql ", ["postgres", "sqlite"]),
        ("cairn trail list --state st", ["state"]),
        ("cairn explain trail-d", ["trail-damaged"]),
        ("cairn help chec", ["check"]),
        ("cairn replicate --once ", []),
        ("cairn nonsense ", []),
      ] {
        let found = try completed(line, bench).filter { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") }
        #expect(found.sorted() == expected, "\(line)")
      }
    }
  }
}
