import Changes
import PostgresKit
import SQLiteKit
import SystemKit

extension CairnError {
  /// Converts any error of a worker to the error that the operator sees.
  /// - Parameter doing: The failed action, for messages about files, such as "load the conf".
  package init(enveloping error: any Error, doing: String) {
    self =
      (error as? CairnError) ?? (error as? SQLiteError)?.asCairnError ?? (error as? PostgresError)?.asCairnError
      ?? (error as? FileError)?.asCairnError(doing: doing)
      ?? (error as? DecodingError).map {
        CairnError(.trailDamaged, "cannot decode a record: \($0)", hint: "run 'cairn trail verify'")
      }
      ?? CairnError(.bug, "unexpected: \(error)", hint: "please report this", remedy: .bug)
  }
}
