/// The error thrown if bytes of a database file or of its write-ahead log are not what SQLite writes.
///
/// ```swift
/// FormatError(page: 7, offset: 12, what: "cell pointer 3").description   // "cell pointer 3 at byte 12 of page 7"
/// ```
package struct FormatError: Error, Equatable, CustomStringConvertible {
  /// The number of the page, counted from 1; 0 if the bytes belong to no page.
  package let page: UInt32
  /// The offset of the invalid byte in the page or, for a record, in its payload.
  package let offset: Int
  /// The part that is invalid.
  package let what: String

  package init(page: UInt32, offset: Int, what: String) {
    self.page = page
    self.offset = offset
    self.what = what
  }

  package var description: String { "\(what) at byte \(offset)" + (page == 0 ? "" : " of page \(page)") }
}
