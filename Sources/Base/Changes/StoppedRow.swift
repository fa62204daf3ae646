/// The change of one row at which an apply has stopped, as the fields of its error name it.
///
///     StoppedRow(error)?.position   // the place of the change in the trail
package struct StoppedRow: Equatable, Sendable {
  @ByBytes package var table: String
  /// The key of the row in words, such as `id=5`.
  @ByBytes package var key: String
  package var position: Position
  /// The number of the transaction in the trail.
  package var transaction: UInt64
  /// Whether the row is part of a copy, and not a change of an application.
  package var isCopied: Bool

  package init(table: String, key: String, position: Position, transaction: UInt64, isCopied: Bool = false) {
    (self.table, self.key, self.position) = (table, key, position)
    (self.transaction, self.isCopied) = (transaction, isCopied)
  }

  /// Returns the row that an error is about; nil if the error is not about the change of one row.
  package init?(_ error: CairnError) {
    let codes: [ErrorCode] = [.rowMissing, .rowDiffers, .rowExists, .constraintFailed, .valueMisfit]
    guard codes.contains(error.code), let table = error.context["table"], let key = error.context["key"],
      let position = error.context["position"].flatMap({ Position($0) }),
      let transaction = error.context["transaction"].flatMap({ UInt64($0) })
    else { return nil }
    self.init(
      table: table, key: key, position: position, transaction: transaction, isCopied: error.context["copied"] != nil)
  }
}
