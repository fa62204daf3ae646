import Configuring
import Glibc
import Reshaping

extension ConfFolder {
  /// As the daemon loads it, and all who speak of it: with the environment of this process, and with the word of SQLite
  /// on the expressions of rules.
  package static func load(_ path: String, more: [ConfFile] = []) -> LoadedConfiguration {
    load(path, more: more, expressionFault: ExpressionFault.reason) { name in getenv(name).map { String(cString: $0) } }
  }
}
