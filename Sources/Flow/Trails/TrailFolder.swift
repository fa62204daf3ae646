import Changes
import SystemKit

/// The folder of a trail, with access to its files and errors that name the trail.
struct TrailFolder {
  let path: String
  /// The name of the trail for messages: the last part of the path.
  let label: String

  init(_ path: String) {
    self.path = path
    label = Folder.lastName(of: path)
  }

  var markPath: String { path + "/durable" }
  var newMarkPath: String { path + "/durable.new" }
  var lockPath: String { path + "/lock" }
  func segmentPath(_ number: UInt64) -> String { "\(path)/\(number.hex(8)).seg" }

  func segments() throws(FileError) -> [UInt64] { try segmentsAndIndexes().segments }

  /// Returns the numbers of the segments, in order, and those of the segments that have an index.
  func segmentsAndIndexes() throws(FileError) -> (segments: [UInt64], indexes: Set<UInt64>) {
    var segments: [UInt64] = []
    var indexes: Set<UInt64> = []
    for name in try Folder.names(path) {
      guard let dot = name.utf8.firstIndex(of: UInt8(ascii: ".")), let number = UInt64(name[..<dot], radix: 16),
        NumberBounds.isSegment(number)
      else { continue }
      let stem = number.hex(8)
      if name == stem + ".seg" { segments.append(number) }
      if name == stem + ".idx" { indexes.insert(number) }
    }
    return (segments.sorted(), indexes)
  }

  /// Creates the folder if it is missing, and takes the lock that only one writer can hold.
  ///
  /// - Throws: `trail-busy` if another writer holds the lock.
  func lock() throws -> File {
    try Folder.create(path)
    let lock = try File(lockPath, .openOrCreate)
    guard try lock.tryLock() else {
      throw CairnError(
        .trailBusy, "trail \(label) has a writer already: \(lockPath) is locked",
        hint: "stop the other process: 'fuser \(lockPath)' prints its number", remedy: .retry, context: ["trail": label]
      )
    }
    return lock
  }

  /// Opens the file `durable` and reads the durable mark.
  ///
  /// - Throws: `trail-missing` if there is no such file, `trail-damaged` if it cannot be read.
  func openMark() throws -> (MarkFile, DurableMark) {
    let file: MarkFile
    do throws(FileError) { file = try MarkFile(markPath, .read) } catch {
      if error.isMissing { throw missing() }
      throw error.asCairnError(doing: "read trail \(label)")
    }
    guard let mark = try file.newest() else { throw damaged(nil, "both slots of the durable mark are broken") }
    return (file, mark)
  }

  /// Starts to watch the durable mark. A caller that reads the trail afterwards misses no later change.
  func watch() throws -> FolderWatch {
    do throws(FileError) { return try FolderWatch(markPath) } catch {
      throw error.isMissing ? missing() : error.asCairnError(doing: "wait for trail \(label)")
    }
  }

  func missing() -> CairnError {
    CairnError(
      .trailMissing, "there is no trail \(label): \(markPath) does not exist",
      hint: "start its capture, or check the name and the state folder", context: ["trail": label])
  }

  func removed() -> CairnError {
    CairnError(
      .trailMissing, "trail \(label) was removed, moved or replaced in \(path) while it was written",
      hint:
        "start it again: it begins a new trail with a copy of everything, and the targets of the old trail must be copied again; do not change the state folder while Cairn runs on it",
      context: ["trail": label])
  }

  func damaged(_ position: Position?, _ problem: String) -> CairnError {
    var context = ["trail": label]
    context["position"] = position?.description
    return CairnError(
      .trailDamaged, "cannot read trail \(label)\(position.map { " at \($0)" } ?? ""): \(problem)",
      hint:
        "run 'cairn trail verify \(label)'; put back a good copy of the segment, or remove the folder \(path) and copy again with --existing overwrite",
      context: context)
  }

  func foreign(_ checkpoint: Checkpoint, _ problem: String) -> CairnError {
    CairnError(
      .checkpointForeign, "cannot continue to read trail \(label) at \(checkpoint.position): \(problem)",
      hint:
        "the trail lacks the changes in between, so a refresh is needed: remove the folder \(path) and run again with --existing overwrite",
      context: ["trail": label, "position": checkpoint.position.description])
  }

  /// Returns the error for a missing segment: `checkpoint-foreign` if it has been purged, `trail-damaged` otherwise.
  func missingSegment(_ number: UInt64) throws -> CairnError {
    let position = Position(segment: number, offset: 0)
    guard let oldest = try segments().first, oldest > number else {
      return damaged(position, "segment \(number.hex(8)) is missing")
    }
    return CairnError(
      .checkpointForeign,
      "cannot read trail \(label) at \(position): it is purged, and the oldest segment is \(oldest.hex(8))",
      hint: "run the command again; a target that needs this position must be copied again",
      context: ["trail": label, "position": position.description])
  }

  /// Returns the error for received bytes that fail the checks of a copy.
  func unfit(_ error: any Error) -> CairnError {
    guard let fault = error as? SegmentFault else { return outward(error, "add to") }
    if fault.kind == .version { return outward(fault, "add to") }
    return CairnError(
      .trailDamaged, "cannot add to the copy of trail \(label) at \(fault.position): \(fault.problem)",
      hint: "run 'cairn trail verify \(label)' at the node that sends it",
      context: ["trail": label, "position": fault.position.description])
  }

  func forked(_ problem: String) -> CairnError {
    CairnError(
      .trailForked, "trail \(label) has two histories: \(problem)",
      hint:
        "find out which one to keep ('cairn trail list' at both nodes); to keep the origin's, remove the copy's folder and copy all rows again",
      context: ["trail": label])
  }

  func bug(_ problem: String) -> CairnError {
    CairnError(
      .bug, "trail \(label): \(problem)", hint: "please report this", remedy: .bug, context: ["trail": label])
  }

  /// Converts any error of this module to a ``CairnError``.
  ///
  /// - Parameter doing: The verb for the message "cannot VERB trail NODE.NAME".
  func outward(_ error: any Error, _ doing: String = "read") -> CairnError {
    switch error {
    case let error as CairnError: return error
    case let error as FileError: return error.asCairnError(doing: "\(doing) trail \(label)")
    case let fault as SegmentFault:
      if fault.kind != .version { return damaged(fault.position, fault.problem) }
      return CairnError(
        .trailVersion, "cannot read trail \(label) at \(fault.position): \(fault.problem)",
        hint: "a later version wrote the trail: upgrade this program",
        context: ["trail": label, "position": fault.position.description])
    default: return bug("\(error)")
    }
  }
}
