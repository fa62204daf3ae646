import Changes

/// The hint in the error about a row of the target that differs from what the trail expects.
enum DifferenceHint {
  /// The hint for a unique value that a row of another trail in the same table has.
  static let shared =
    "if the row is one of another trail: add the column that has the trail's constant to this unique key of the target, or change the value at one of the sources; then run again"

  /// Returns the hint, with the possible causes and what to do.
  ///
  /// - Parameter source: The engine of the trail's source. The hint names the engine's tool that checks the source for
  ///   damage.
  static func text(source: Engine) -> String {
    let test = source == .sqlite ? "PRAGMA integrity_check" : "pg_amcheck"
    return
      "another program wrote to the target, or the source has rows that break its own constraint ('\(test)'); copy the source's rows again: \(CopyHint.either)"
  }
}
