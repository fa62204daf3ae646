import Changes
import Configuring
import Pumping
import SystemKit
import Trails

/// The files of a snapshot that the daemon makes: `snapshots/NAME` of the state folder.
///
///     let shelf = SnapshotShelf(state: "/var/lib/cairn", snapshot, url: database.url)
///     try shelf.files().first?.sha256   // of the newest one
struct SnapshotShelf {
  let folder: String
  // The settings on which the content of the files depends.
  private let rules: String
  private static let rulesName = "rules"
  private static let rulesBytesMax = 1 << 20

  init(state: String, _ snapshot: Configuration.Snapshot, url: String) {
    folder = "\(state)/snapshots/\(snapshot.name)"
    rules =
      JSONObject([
        ("database", .text(url)), ("tables", .list(snapshot.tables.map { .text($0) })),
        ("where", snapshot.condition.map { .text($0) } ?? .null),
      ]).line
  }

  /// Returns the files that are complete, the newest first. Empty if they were made by other rules.
  func files() throws -> [PublishedSnapshot] {
    guard hasRules else { return [] }
    return try names().compactMap { name -> PublishedSnapshot? in
      guard let madeAt = Self.time(ofFile: name) else { return nil }
      let path = "\(folder)/\(name)"
      do throws(FileError) {
        let sum = String(try File.text(path + ".sha256", bytesMax: 4096).prefix(64))
        guard FileSum.isSum(sum) else { return nil }
        return PublishedSnapshot(path: path, sha256: sum, bytes: try File(path, .read).size, madeAt: madeAt)
      } catch { return nil }
    }.sorted { $0.madeAt > $1.madeAt }
  }

  /// The path of a file that is made at a time.
  func path(at now: Int64) -> String { "\(folder)/\(now).db" }

  /// Creates the folder, and removes what is no complete file by these rules.
  func prepare() throws {
    do {
      try Folder.create(folder)
      let keepsFiles = hasRules
      if !keepsFiles { try? Folder.remove("\(folder)/\(Self.rulesName)") }
      let there = try names()
      for name in there where name != Self.rulesName {
        let isFile = Self.time(ofFile: name) != nil && there.contains { $0.hasSameBytes(as: name + ".sha256") }
        let isSum =
          name.hasSuffix(".sha256")
          && there.contains {
            $0.hasSameBytes(as: String(name.dropLast(".sha256".count))) && Self.time(ofFile: $0) != nil
          }
        if !keepsFiles || !(isFile || isSum) { try Folder.remove("\(folder)/\(name)") }
      }
      guard !keepsFiles else { return }
      try Folder.sync(folder)
      try Array(rules.utf8).withUnsafeBytes { try File.replace("\(folder)/\(Self.rulesName)", with: $0) }
    } catch let error as FileError { throw error.asCairnError(doing: "prepare the folder of a snapshot") }
  }

  /// Removes all files but the newest ones.
  func prune(keep: Int) throws {
    do {
      for file in try files().dropFirst(keep) {
        try Folder.remove(file.path)
        try Folder.remove(file.path + ".sha256")
      }
    } catch let error as FileError { throw error.asCairnError(doing: "remove an old snapshot") }
  }

  private var hasRules: Bool {
    guard let there = try? File.text("\(folder)/\(Self.rulesName)", bytesMax: Self.rulesBytesMax) else { return false }
    return there.hasSameBytes(as: rules)
  }

  private func names() throws -> [String] {
    do throws(FileError) { return try Folder.names(folder) } catch {
      if error.isMissing { return [] }
      throw error.asCairnError(doing: "list the files of a snapshot")
    }
  }

  /// Returns the time in the name of a file, such as `1764396900123456.db`; nil for any other name.
  static func time(ofFile name: String) -> Int64? {
    guard name.hasSuffix(".db"), let time = Int64(name.dropLast(3)), time > 0, NumberBounds.isTime(time),
      name.hasSameBytes(as: "\(time).db")
    else { return nil }
    return time
  }
}

extension ServiceContext {
  /// Returns the files of a snapshot of the conf, the newest first.
  func snapshotFiles(_ name: String) throws -> [PublishedSnapshot] {
    let configuration = configuration
    guard let snapshot = configuration.snapshots.first(where: { $0.name.hasSameBytes(as: name) }),
      let database = configuration.database(snapshot.database)
    else { return [] }
    return try SnapshotShelf(state: statePath, snapshot, url: database.url).files()
  }
}

/// Decides when the next file of a snapshot is made.
///
///     SnapshotSchedule.wait(newest: now - 60_000_000, every: .seconds(3600), now: now)   // 59 minutes
enum SnapshotSchedule {
  /// Returns the time until the next file is due; zero if it is due. A file from the future, before a clock was set
  /// back, does not count.
  static func wait(newest: Int64?, every: Duration, now: Int64) -> Duration {
    guard let newest, newest <= now else { return .zero }
    return max(.zero, every - .microseconds(now - newest))
  }
}
