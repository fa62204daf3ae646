import Changes
import NetKit
import SystemKit
import Trails

// These requests of peers read the snapshots that this node publishes. A name from a request is only compared with the
// names in the conf: it never becomes a part of a path.
extension PumpHandler {
  /// Returns the newest file of each snapshot that the peer may fetch.
  func snapshots(_ peer: String) throws -> HTTPResponse {
    let list = try options.hooks.snapshots(peer).compactMap { name -> JSONObject.Value? in
      guard let newest = try options.hooks.snapshotFiles(name).first else { return nil }
      return .object(
        JSONObject([
          ("name", .text(name)), ("sha256", .text(newest.sha256)), ("bytes", .integer(Int64(clamping: newest.bytes))),
          ("made_at", .integer(newest.madeAt)),
        ]))
    }
    return Self.response(JSONObject([("node", .text(options.node)), ("snapshots", .list(list))]))
  }

  /// Returns the newest file of a snapshot, or the one with the sum that the request names, whole or a range.
  ///
  /// - Throws: `peer-refused` if the peer may not fetch the snapshot, whether it exists or not.
  func snapshot(_ peer: String, _ name: String, _ request: HTTPRequest) throws -> HTTPResponse {
    guard mayFetch(peer, name) else {
      throw CairnError(
        .peerRefused, "peer '\(peer)' may not fetch snapshot '\(name.oneLine)'",
        hint: "grant it at the listener, with peers in [snapshot.NAME]", remedy: .retry, context: ["peer": peer])
    }
    let wanted = request.query["sha256"]
    if let wanted, !FileSum.isSum(wanted) { throw Self.usage("sha256 is not 64 hexadecimal digits") }
    let files = try options.hooks.snapshotFiles(name)
    let found = wanted.map { sum in files.first { $0.sha256.hasSameBytes(as: sum) } } ?? files.first
    guard let found, let file = try openFile(found.path) else {
      throw CairnError(
        .trailMissing, "there is no such file of snapshot \(name)", hint: "wait until it is made", remedy: .retry)
    }
    let headers = [
      ("ETag", PublishedSnapshot.tag(found.sha256)), ("Accept-Ranges", "bytes"),
      ("Cache-Control", wanted == nil ? "private, no-cache" : "private, max-age=31536000, immutable"),
      ("Content-Type", "application/vnd.sqlite3"), ("Cairn-Made-At", String(found.madeAt)),
    ]
    return Self.response(to: request, file, count: try file.size, tag: PublishedSnapshot.tag(found.sha256), headers)
  }

  func mayFetch(_ peer: String, _ name: String) -> Bool {
    options.hooks.snapshots(peer).contains { $0.hasSameBytes(as: name) }
  }

  /// Returns a file, the part of it that the request asks for, or 304 if the client has it.
  static func response(
    to request: HTTPRequest, _ file: File, count: UInt64, tag: String, _ headers: [(String, String)]
  ) -> HTTPResponse {
    if let known = request.header("If-None-Match"), known == "*" || known.contains(tag) {
      return HTTPResponse(status: 304, headers: headers)
    }
    let isSame = request.header("If-Range").map { $0 == tag } ?? true
    switch ByteRange(isSame ? request.header("Range") : nil, count: count) {
    case .all:
      return HTTPResponse(status: 200, headers: headers, body: .file(file, offset: 0, count: count))
    case .part(let range):
      let told = ("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(count)")
      return HTTPResponse(
        status: 206, headers: headers + [told],
        body: .file(file, offset: range.lowerBound, count: UInt64(range.count)))
    case .none:
      return HTTPResponse(status: 416, headers: headers + [("Content-Range", "bytes */\(count)")])
    }
  }
}

/// Opens a file of a snapshot; nil if it was removed.
private func openFile(_ path: String) throws -> File? {
  do throws(FileError) { return try File(path, .read) } catch {
    // Another one has taken its place.
    if error.isMissing { return nil }
    throw error.asCairnError(doing: "read a snapshot")
  }
}
