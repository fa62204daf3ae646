import Changes

extension NodeStatus {
  /// The newest file of a `[snapshot.NAME]`.
  ///
  ///     NodeStatus.Snapshot(sha256: sum, bytes: 4096, ageMilliseconds: 60_000, files: 2)
  package struct Snapshot: Equatable, Sendable {
    @ByBytes package var sha256: String
    package var bytes: UInt64
    /// The time since the file was made, ms.
    package var ageMilliseconds: Int64
    /// The number of files that are kept.
    package var files: Int

    package init(sha256: String, bytes: UInt64, ageMilliseconds: Int64, files: Int) {
      (self.sha256, self.bytes, self.ageMilliseconds, self.files) = (sha256, bytes, ageMilliseconds, files)
    }

    init(_ object: JSONObject) {
      self.init(
        sha256: object.text("sha256") ?? "", bytes: UInt64(clamping: object.integer("bytes") ?? 0),
        ageMilliseconds: object.integer("age_ms") ?? 0, files: Int(clamping: object.integer("files") ?? 0))
    }

    var json: JSONObject {
      JSONObject([
        ("sha256", .text(sha256)), ("bytes", .integer(Int64(clamping: bytes))), ("age_ms", .integer(ageMilliseconds)),
        ("files", .integer(Int64(files))),
      ])
    }
  }
}
