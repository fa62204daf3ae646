import Changes
import Conflicts
import Foundation
import TestServers
import Testing
import Trails

@testable import Versions

/// A database with a capture and an apply of each peer's trail, as far as the window sees them: real trails, rows in
/// memory.
final class SimulatedNode {
  let name: TrailName
  let folder: String
  private let writer: TrailWriter
  private let reader = VersionReader(seen: seenByName)
  private let spillRows: Int
  private let rules: ConflictRules
  private(set) var window: UnstableVersions
  /// By peer.
  private var folders: [TrailName: String] = [:]
  private(set) var rows: [Int64: [Value?]] = [:]
  /// The place up to which each peer's trail has been applied, for good.
  private(set) var applied: [TrailName: (checkpoint: Checkpoint, number: UInt64)] = [:]
  private var clock: UInt64 = 0
  /// All versions that it made, by row.
  private(set) var made: [Int64: [RowVersion]] = [:]
  private(set) var conflictCount = 0

  init(_ temp: TempFolder, _ place: Int, _ rules: ConflictRules, spillRows: Int) throws {
    name = TrailName(origin: "n\(place)", name: "db")
    folder = temp(name.description)
    (self.rules, self.spillRows) = (rules, spillRows)
    var options = TrailOptions()
    (options.segmentBytes, options.blockBytes, options.allocateBytes) = (3000, 512, 4096)
    writer = try TrailWriter.open(folder: folder, name: name, options: options) { 0 }
    window = UnstableVersions(own: name, ownFolder: folder, spillRows: spillRows)
  }

  func meet(_ others: [SimulatedNode]) throws {
    for other in others where other !== self { folders[other.name] = other.folder }
    try start()
  }

  // MARK: Own transactions

  /// Commits a transaction with up to `changes` changes.
  func write(_ changes: Int, _ random: inout Seeded) throws {
    let begun = rows
    clock += UInt64(random.below(15))
    let known = applied.filter { $0.value.number > 0 }.sorted {
      $0.key.description < $1.key.description
    }
    let header = try writer.begin(
      TransactionHeader(
        commitTime: 0, clock: clock + 1,
        dependencies: try known.map {
          .init(
            origin: $0.key.description, number: $0.value.number,
            id: try Trail.info(folder: folders[$0.key] ?? "").id)
        }))
    clock = header.clock
    for _ in 0..<changes { try change(&random) }
    try writer.progress([UInt8(truncatingIfNeeded: header.number)])
    try writer.commit()
    try writer.sync()
    let stamp = VersionStamp(clock: header.clock, origin: name.description, number: header.number)
    let seen = Dictionary(uniqueKeysWithValues: header.dependencies.map { ($0.origin, $0.number) })
    for id in touched {
      if let version = Self.version(stamp, seen, begun[id], rows[id]) {
        made[id, default: []].append(version)
      }
    }
    touched = []
  }

  private var touched: Set<Int64> = []

  private func change(_ random: inout Seeded) throws {
    let id = Int64(random.below(4))
    touched.insert(id)
    guard let before = rows[id] else {
      rows[id] = item(id, "anew \(clock)", Int64(random.below(50)))
      return try writer.change(nil, rows[id])
    }
    var after = before
    switch random.below(8) {
    case 0:
      rows[id] = nil
      return try writer.change(before, nil)
    case 1:
      let other = (id + 1) % 4
      guard rows[other] == nil else { fallthrough }
      after[0] = .integer(other)
      (rows[id], rows[other]) = (nil, after)
      touched.insert(other)
      return try writer.change(before, after)
    case 2: after[1] = .text("name \(clock)")
    case 3: after[3] = .text("\(name) \(clock % 7)")
    default:
      if case .integer(let stock)? = before[2] {
        after[2] = .integer(stock + Int64(random.below(19)) - 9)
      }
    }
    rows[id] = after
    // Values that stay are not always given.
    let given = random.below(2) == 0 ? after : zip(before, after).map { $0 == $1 ? nil : $1 }
    var image = given
    image[0] = after[0]
    try writer.change(before, image)
  }

  static func version(
    _ stamp: VersionStamp, _ seen: [String: UInt64], _ before: [Value?]?, _ after: [Value?]?
  ) -> RowVersion? {
    switch (before, after) {
    case (nil, nil): nil
    case (nil, let row?): RowVersion(stamp, seen: seen, .insert(row))
    case (let was?, nil): RowVersion(stamp, seen: seen, .delete(before: was))
    case (let was?, let row?): RowVersion(stamp, seen: seen, .update(before: was, after: row))
    }
  }

  // MARK: Apply

  /// Applies up to `count` transactions of a peer as one group, and commits it or not.
  func apply(_ peer: SimulatedNode, _ count: Int, commits: Bool) throws {
    let trail = peer.name
    let reader = try TrailReader.open(folder: peer.folder, at: applied[trail]?.checkpoint)
    let (rowsBefore, clockBefore) = (rows, clock)
    var number = applied[trail]?.number ?? 0
    var isInformed = !window.isOwnOnly
    if isInformed { try window.catchUp(rowNames: rowNames) }
    var (header, begin) = (TransactionHeader(commitTime: 0), Position.start)
    var touched: [RowName: Int64] = [:]
    var left = count
    var met: MetTransaction?
    while left > 0, let record = try reader.next() {
      switch record {
      case .begin(let given):
        (header, begin, touched) = (given, reader.position, [:])
        met = window.meet(header, of: trail, at: begin)
      case .change(let change):
        if !isInformed { try window.catchUp(rowNames: rowNames) }
        isInformed = true
        for case .integer(let id)?? in [
          try change.before?.values().first, try change.after?.values().first,
        ] {
          touched[rowName(id)] = id
        }
      case .commit:
        let place = VersionPlace(
          stamp: VersionStamp(clock: header.clock, origin: trail.description, number: header.number),
          begin: begin)
        let seen = Dictionary(
          uniqueKeysWithValues: header.dependencies.map { ($0.origin, $0.number) })
        for (row, id) in touched.sorted(by: { $0.value < $1.value }) {
          try apply(row, id, place, seen, #require(met))
        }
        (clock, number, left) = (max(clock, header.clock), header.number, left - 1)
      default: break
      }
    }
    if commits {
      applied[trail] = (reader.checkpoint, number)
      try window.commit(trail)
    } else {
      (rows, clock) = (rowsBefore, clockBefore)
      window.rollback(trail)
    }
  }

  private func apply(
    _ row: RowName, _ id: Int64, _ place: VersionPlace, _ seen: [String: UInt64], _ met: MetTransaction
  ) throws {
    let incoming = try read(row, place)
    #expect(incoming?.seen ?? seen == seen)
    let isAlone = try window.concurrent(row, with: place.stamp, seen: seen).isEmpty
    #expect(try window.follow([row], met) == isAlone)
    if isAlone {
      if let incoming { rows[id] = incoming.after }
    } else if let incoming {
      conflictCount += 1
      var history = RowHistory(try window.versions(row).compactMap { try read(row, $0) })
      history.add(incoming)
      rows[id] = try ConflictResolution(history, rules, columnCount: 4).row
    }
    try window.note(row, place)
  }

  private func read(_ row: RowName, _ place: VersionPlace) throws -> RowVersion? {
    let origin = place.stamp.origin
    let folder =
      origin == name.description ? folder : folders.first { $0.key.description == origin }?.value
    let found = try reader.read(row, at: place, folder: try #require(folder), rowNames: rowNames)
    #expect(found.count <= 1)
    return found.first.flatMap { Self.version($0.stamp, $0.seen, $0.before, $0.after) }
  }

  // MARK: Restarts and purge

  /// Begins again, as after a crash.
  func start() throws {
    window = UnstableVersions(own: name, ownFolder: folder, spillRows: spillRows)
    for (trail, folder) in folders { window.addPeer(trail, folder: folder) }
    for (trail, folder) in folders.merging([name: folder], uniquingKeysWith: { $1 }) {
      if let id = try Trail.id(folder: folder) { try window.identify(trail, id) }
    }
    #expect(!window.isComplete)
    for trail in folders.keys {
      try window.read(trail, through: applied[trail]?.number ?? 0, rowNames: rowNames)
    }
    if window.isOwnOnly { try window.putOffCatchUp() } else { try window.catchUp(rowNames: rowNames) }
    #expect(window.isComplete)
  }

  /// Deletes of its own trail what neither an apply nor a window needs.
  func purge(_ nodes: [SimulatedNode]) throws {
    var below = try Trail.info(folder: folder).end.position
    for node in nodes {
      if let need = try node.window.needs()[name] { below = min(below, need) }
      if node !== self { below = min(below, node.applied[name]?.checkpoint.position ?? .start) }
    }
    _ = try Trail.purge(folder: folder, below: below)
  }
}

/// Returns the knowledge of the author of a transaction, for trails that are never begun again.
func seenByName(_ header: TransactionHeader) -> [String: UInt64] {
  Dictionary(header.dependencies.map { ($0.origin, $0.number) }) { max($0, $1) }
}
