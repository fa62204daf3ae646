import Changes

/// A problem at one place of the configuration.
package struct ConfProblem: Equatable, Sendable {
  package let place: ConfPlace
  package let code: ErrorCode
  package let message: String
  package let hint: String

  /// Whether the file cannot be read only because the current user lacks the permission. The daemon's user may have it.
  package let isBarred: Bool

  init(_ code: ErrorCode, at place: ConfPlace, _ message: String, hint: String, isBarred: Bool = false) {
    (self.code, self.place, self.message, self.hint) = (code, place, message, hint)
    self.isBarred = isBarred
  }

  package var error: CairnError {
    var context = ["file": place.file]
    if place.line > 0 { (context["line"], context["column"]) = (String(place.line), String(place.column)) }
    return CairnError(code, "\(place): \(message)", hint: hint, remedy: .badInput, context: context)
  }
}
