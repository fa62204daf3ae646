/// Why a statement cannot be replayed as one: a short sentence that goes on from "not as a statement:".
package struct Unreplayable: Error, Equatable, Sendable {
  package let reason: String
  package init(_ reason: String) { self.reason = reason }
}
