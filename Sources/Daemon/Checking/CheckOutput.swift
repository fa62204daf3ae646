import Changes

/// The receiver of what a check finds.
///
///     let output = CheckOutput(say: { text, _ in print(text) }, report: { print($0.message) })
package struct CheckOutput {
  /// Reports one fact: as text, and as members of a JSON object. Without members, the fact is text only.
  package let say: (_ text: String, _ members: [(String, JSONObject.Value)]) -> Void
  /// Reports an error. The other checks still run.
  let report: (CairnError) -> Void

  package init(
    say: @escaping (_ text: String, _ members: [(String, JSONObject.Value)]) -> Void,
    report: @escaping (CairnError) -> Void
  ) {
    (self.say, self.report) = (say, report)
  }
}
