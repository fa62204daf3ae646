import Changes

/// The hint for a row of the target that is not as the trail expects it.
enum DifferenceHint {
  /// - Parameter source: The engine of the trail's source, which may be damaged.
  static func text(source: Engine) -> String {
    let test = source == .sqlite ? "PRAGMA integrity_check" : "pg_amcheck"
    return
      "another program wrote to the target, or the source has rows that break its own constraint ('\(test)'); copy the source's rows again: \(CopyHint.either)"
  }
}
