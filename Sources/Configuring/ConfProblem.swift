import Changes

/// What is wrong at one place of a conf.
package struct ConfProblem: Equatable, Sendable {
  package let place: ConfPlace
  package let code: ErrorCode
  /// Without the place.
  package let message: String
  package let hint: String

  init(_ code: ErrorCode, at place: ConfPlace, _ message: String, hint: String) {
    (self.code, self.place, self.message, self.hint) = (code, place, message, hint)
  }

  package var error: CairnError {
    var context = ["file": place.file]
    if place.line > 0 { (context["line"], context["column"]) = (String(place.line), String(place.column)) }
    return CairnError(code, "\(place): \(message)", hint: hint, remedy: .badInput, context: context)
  }
}
