import Changes

/// A file of a snapshot that this node publishes.
///
///     PublishedSnapshot(path: "/var/lib/cairn/snapshots/erp/1764396900123456.db", sha256: sum, bytes: 4096, madeAt: now)
package struct PublishedSnapshot: Equatable, Sendable {
  package let path: String
  /// The SHA-256 of the file, 64 lower-case hexadecimal digits.
  package let sha256: String
  package let bytes: UInt64
  /// The time at which the file was made, µs since 1970 UTC.
  package let madeAt: Int64

  package init(path: String, sha256: String, bytes: UInt64, madeAt: Int64) {
    (self.path, self.sha256, self.bytes, self.madeAt) = (path, sha256, bytes, madeAt)
  }

  /// The ETag of a file with this sum.
  package static func tag(_ sum: String) -> String { "\"\(sum)\"" }
}
