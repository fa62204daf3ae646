import Foundation
import TestServers
import Testing

extension Scenarios {
  /// The completion scripts for zsh and fish; `ManualTests` has the script for bash.
  @Suite struct CompletionTests {
    private static func has(_ shell: String) -> Bool {
      FileManager.default.isExecutableFile(atPath: "/usr/bin/" + shell)
    }

    /// The line after completion in zsh, which completes the common beginning of all candidates.
    private func zsh(_ lines: [String], _ bench: Bench) throws -> [String] {
      let script = """
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell "PS1=; PATH='\(programs):$PATH'; autoload -Uz compinit; compinit -u -D
          source <(cairn help --completion zsh); show() { print -r -- \\"\\$BUFFER\\" >>shown; BUFFER=; }
          zle -N show; bindkey '^X' show; bindkey '^I' complete-word; zstyle ':completion:*' insert-tab false
          print REA\\"\\"DY"
        while zpty -r shell line; do [[ $line == *READY* ]] && break; done
        n=0
        for line in ${(f)LINES_TO_COMPLETE}; do
          zpty -w -n shell "$line"$'\\t\\x18'
          n=$((n + 1))
          for i in {1..100}; do
            [[ -e shown && $(wc -l <shown) -ge $n ]] && break
            sleep 0.1
          done
        done
        zpty -d shell
        """
      let outcome = try bench.run(
        "/usr/bin/env", ["LINES_TO_COMPLETE=" + lines.joined(separator: "\n"), "/usr/bin/zsh", "-f", "-c", script])
      #expect(outcome.status == 0, "\(outcome.errors)")
      return bench.text("shown").split(separator: "\n").map(String.init)
    }

    private var programs: String { URL(fileURLWithPath: Bench.cairn).deletingLastPathComponent().path }

    @Test(.enabled(if: has("zsh"), "there is no zsh"))
    func `zsh completes commands, options, values, files and trails`() throws {
      let bench = try Bench()
      try bench.makeSample()
      #expect(try bench.replicateOnce().status == 0)
      let expected = [
        ("cairn repl", "cairn replicate "), ("cairn --vers", "cairn --version "),
        ("cairn replicate --on", "cairn replicate --once "),
        ("cairn replicate --existing m", "cairn replicate --existing merge "),
        ("cairn replicate --existing=m", "cairn replicate --existing=merge "),
        ("cairn replicate --from pos", "cairn replicate --from postgresql://"),
        ("cairn detach sqlite:./tar", "cairn detach sqlite:./target.db "),
        ("cairn trail sh", "cairn trail show "),
        ("cairn trail --state state show lo", "cairn trail --state state show local.source "),
        ("cairn explain trail-d", "cairn explain trail-damaged "), ("cairn help chec", "cairn help check "),
        ("cairn nonsense x", "cairn nonsense x"), ("cairnd --conf", "cairnd --config="),
      ]
      #expect(try zsh(expected.map(\.0), bench) == expected.map(\.1))
    }

    @Test(.enabled(if: has("fish"), "there is no fish"))
    func `fish completes commands, options, values, files and trails`() throws {
      let bench = try Bench()
      try bench.makeSample()
      #expect(try bench.replicateOnce().status == 0)
      for (line, expected) in [
        ("cairn repl", ["replicate"]), ("cairn --vers", ["--version"]),
        ("cairn replicate --on", ["--once"]),
        ("cairn replicate --existing ", ["keep", "merge", "overwrite"]),
        ("cairn replicate --existing=m", ["--existing=merge"]),
        ("cairn replicate --from ", ["postgresql://", "sqlite:"]),
        ("cairn replicate --from sqlite:so", ["sqlite:source.db"]),
        ("cairn detach --json sqlite:./so", ["sqlite:./source.db"]),
        ("cairn trail sh", ["show"]),
        ("cairn trail --state state show ", ["local.source"]),
        ("cairn trail show --state state --sql ", ["postgres", "sqlite"]),
        ("cairn trail list --state st", ["state/"]),
        ("cairn explain trail-d", ["trail-damaged"]), ("cairn help chec", ["check"]),
        ("cairn replicate --once ", []), ("cairn nonsense ", []), ("cairnd --conf", ["--config"]),
      ] {
        let outcome = try bench.run(
          "/usr/bin/env",
          [
            "HOME=\(bench.path("home"))", "LINE=\(line)", "PATH=\(programs):/usr/bin:/bin", "/usr/bin/fish", "-c",
            "cairn help --completion fish | source; complete -C $LINE",
          ])
        #expect(outcome.status == 0 && outcome.errors == "", "\(line): \(outcome.errors)")
        let found = outcome.output.split(separator: "\n").map { String($0.split(separator: "\t")[0]) }
          .filter { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") }
        #expect(found.sorted() == expected, "\(line)")
      }
    }
  }
}
