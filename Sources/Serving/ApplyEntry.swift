import Applying
import Changes
import Configuring
import Mapping
import Operating
import Reshaping
import SystemKit
import Trails

/// What an apply makes sure of before it begins: that its target goes on where the trail is, and holds nothing that it
/// would overwrite unasked.
struct ApplyEntry {
  let name: String
  let target: DatabaseURL
  let trail: TrailName
  let folder: String
  let existing: ExistingRows?
  let rules: [ReshapeRule]
  let context: ServiceContext

  /// Returns the transaction behind which copies count that were asked for.
  ///
  /// A target whose checkpoint was purged from the trail, since it was away for too long, or of which that was asked, is
  /// told to wait for a copy of everything. Errors: `same-database`, `checkpoint-foreign`,
  /// `target-differs`.
  func prove() throws -> UInt64 {
    let info = try Trail.info(folder: folder)
    let request = CopyRequest(state: context.statePath, apply: name)
    let end = try TargetEnd(target)
    try checkNotItsSource(end)
    let known = try end.checkpoint(of: trail)
    if try request.isPending() || isPurged(known, info) {
      let isLost = known.map { $0.trail != info.id } ?? true || isPurged(known, info)
      try copyAll(end, info, request, forgets: isLost)
      return info.lastTransaction
    }
    if let known, known.trail != info.id {
      throw CairnError(
        .checkpointForeign,
        "the target \(target.place) was fed from a trail \(trail) that is not in \(context.statePath)",
        hint: "put that state folder back, or copy everything again with 'cairn copy \(name)'",
        context: ["trail": trail.description])
    }
    if known == nil, existing == nil { try checkExisting(end) }
    return try request.behind(info.id)
  }

  /// The conf is refused where this can be seen; a link, a file that came later, or another way to a server shows only
  /// here. A source that cannot be reached is another one, since the target was.
  private func checkNotItsSource(_ end: TargetEnd) throws {
    guard let capture = context.capture(of: trail), let database = context.configuration.database(capture.database)
    else { return }
    let source = try database.location().canonical
    guard source.engine == target.engine, let identity = try end.identity(), identity == DatabaseIdentity(source)
    else { return }
    throw CairnError(
      .sameDatabase, "the trail \(trail) comes from the database that it would be applied to, \(target.place)",
      hint: "name another database in [apply.\(name)]", remedy: .badInput)
  }

  private func isPurged(_ known: Checkpoint?, _ info: TrailInfo) -> Bool {
    guard let known, known.trail == info.id else { return false }
    return known.position.segment < info.firstPosition.segment
  }

  /// First the copy is certain to come, then the target forgets where it was, if that is of no use: whatever ends us in
  /// between, it is begun again.
  private func copyAll(_ end: TargetEnd, _ info: TrailInfo, _ request: CopyRequest, forgets: Bool) throws {
    guard let capture = context.capture(of: trail) else {
      throw CairnError(
        .checkpointForeign,
        "the target \(target.place) needs a copy of everything, and trail \(trail) comes from another node",
        hint: "have it copied again where that trail is captured", context: ["trail": trail.description])
    }
    try CopyRequest.askCapture(folder)
    try request.note(behind: info.lastTransaction, of: info.id)
    try end.expectRefresh(of: trail)
    if forgets { try end.forgetCheckpoint(of: trail) }
    context.restart(.init(.capture, capture.name))
    context.tell(.init(.apply, name), "everything is copied again into \(target.place)")
  }

  private func checkExisting(_ end: TargetEnd) throws {
    guard let capture = context.capture(of: trail), let database = context.configuration.database(capture.database)
    else { return }
    do {
      try end.checkHoldsNothingElse(
        SourceEnd(database.location().canonical), TablePatterns(capture.tables), .fold, rules)
    } catch let error as CairnError where error.code == .targetDiffers {
      throw CairnError(
        .targetDiffers, error.message,
        hint:
          "say in [apply.\(name)] what is to become of them: existing = \"keep\" (they stay), \"overwrite\" (the target becomes equal) or \"merge\" (the source's rows win), and reload",
        context: error.context)
    }
  }
}

/// Files by which copies of everything are asked for, so that no crash forgets them.
struct CopyRequest {
  private let folder: String
  private let path: String
  private static let pending = "pending"

  init(state: String, apply: String) {
    folder = state + "/applies"
    path = "\(folder)/\(apply)"
  }

  /// The next run of the apply begins with a copy of everything.
  func ask() throws { try write(Self.pending) }

  func isPending() throws -> Bool { try text() == Self.pending }

  /// Copies that began up to this transaction of the trail are none of those that were asked for; 0: none was.
  func behind(_ trail: TrailID) throws -> UInt64 {
    let words = try text().split(separator: " ")
    guard words.count == 2, words[0] == trail.description else { return 0 }
    return UInt64(words[1]) ?? 0
  }

  func note(behind number: UInt64, of trail: TrailID) throws { try write("\(trail) \(number)") }

  private func text() throws -> String { try Self.read(path) }

  private func write(_ text: String) throws {
    do {
      try Folder.create(folder)
      try Array(text.utf8).withUnsafeBytes { try File.replace(path, with: $0) }
    } catch let error as FileError { throw error.asCairnError(doing: "write the state of an apply") }
  }

  private static func read(_ path: String) throws -> String {
    guard Folder.exists(path) else { return "" }
    do {
      let file = try File(path, .read)
      var bytes = [UInt8](repeating: 0, count: Int(min(try file.size, 4096)))
      let count = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
      return String(decoding: bytes.prefix(count), as: UTF8.self)
    } catch let error as FileError { throw error.asCairnError(doing: "read the state of an apply") }
  }

  // MARK: Of a capture

  private static func capturePath(_ trailFolder: String) -> String { trailFolder + "/copy" }

  /// The next run of the capture copies every table, and makes a lost slot anew.
  static func askCapture(_ trailFolder: String) throws {
    do { try [].withUnsafeBytes { try File.replace(capturePath(trailFolder), with: $0) } } catch let error as FileError
    {
      throw error.asCairnError(doing: "ask for a copy")
    }
  }

  static func isAskedOfCapture(_ trailFolder: String) -> Bool { Folder.exists(capturePath(trailFolder)) }

  static func settleCapture(_ trailFolder: String) { try? Folder.remove(capturePath(trailFolder)) }
}
