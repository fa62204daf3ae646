/// The failure of a program that tests need, for people.
package struct TestFailure: Error, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}
