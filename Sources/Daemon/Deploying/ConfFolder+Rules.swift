import Applying
import Configuring
import Glibc
import Transforming

extension ConfFolder {
  /// Loads a configuration as the daemon does, with the environment variables of this process. SQLite checks the
  /// expressions of rules.
  package static func load(
    _ path: String, more: [ConfFile] = [], awaitsPeers: Bool = false
  ) -> LoadedConfiguration {
    load(path, more: more, awaitsPeers: awaitsPeers, expressionFault: fault) { name in
      getenv(name).map { String(cString: $0) }
    }
  }

  private static func fault(_ text: String, _ use: LoadedConfiguration.ExpressionUse) -> String? {
    switch use {
    case .ofRow: ExpressionFault.reason(of: text, isColumn: false)
    case .ofColumn: ExpressionFault.reason(of: text, isColumn: true)
    case .ofConflict(let isOfRows): ConflictExpression.fault(text, isOfRows: isOfRows)
    }
  }
}
