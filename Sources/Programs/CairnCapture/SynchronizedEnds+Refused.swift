import Applying
import Capturing
import Changes
import Endpoints
import SystemKit
import Trails

// Transactions of this database that the peer has put into quarantine. The file `refused` lists them, so the state of a
// commit is known without a connection.
extension SynchronizedEnds {
  /// A transaction in quarantine at the peer. Its journal rows come after `behind`, up to and including `through`.
  struct Refused: Equatable {
    var number: UInt64
    var behind: Int64
    var through: Int64

    func contains(_ token: CommitToken) -> Bool { behind < token.sequence && token.sequence <= through }
  }

  func isRefused(_ token: CommitToken) throws -> Bool { try refused().contains { $0.contains(token) } }

  /// Writes to the file `refused` which transactions are in quarantine at the peer.
  /// - Parameter count: The number of transactions in quarantine that apply has counted so far.
  /// - Parameter isWhole: Whether the run ended without an error, so that `count` is complete.
  func noteRefused(_ count: Int, isWhole: Bool) throws {
    let known = try refused()
    guard count > 0, Trail.exists(folder: ownFolder) else {
      if isWhole, !known.isEmpty { try replace("refused", []) }
      return
    }
    let id = try Trail.info(folder: ownFolder).id
    let all = try QuarantineLogs.open(peer).list().filter { $0.trail == trails.own && $0.border.trail == id }
    let now = try all.map { one in try known.first { $0.number == one.number } ?? refused(one) }
    guard now != known else { return }
    try replace("refused", ["\(id)"] + now.map { "\($0.number) \($0.behind) \($0.through)" })
  }

  private func refused() throws -> [Refused] {
    let lines = try lines("refused")
    guard let id = lines.first, let end = try Trail.end(folder: ownFolder), end.id.description == id else { return [] }
    return lines.dropFirst().compactMap { line in
      let words = line.split(at: " ")
      guard words.count == 3, let number = UInt64(words[0]), let behind = Int64(words[1]), let through = Int64(words[2])
      else { return nil }
      return Refused(number: number, behind: behind, through: through)
    }
  }

  private func refused(_ one: QuarantinedTransaction) throws -> Refused {
    let reader = try TrailReader.open(folder: ownFolder, at: one.border)
    let before = try reader.lastSourcePosition.map(Self.journalRow)
    while let record = try reader.next() { if case .commit = record { break } }
    let through = try reader.lastSourcePosition.map(Self.journalRow) ?? 0
    return Refused(number: one.number, behind: try before ?? reached(before: one) ?? through - 1, through: through)
  }

  /// Returns the last journal row in the trail before a transaction in quarantine; nil if that part of the trail was
  /// purged.
  private func reached(before one: QuarantinedTransaction) throws -> Int64? {
    guard one.number > 1 else { return 0 }
    let reader = try TrailReader.open(folder: ownFolder, at: nil)
    while reader.commitPosition < one.border.position, try reader.next() != nil {}
    return try reader.lastSourcePosition.map(Self.journalRow)
  }

  private static func journalRow(_ position: [UInt8]) throws -> Int64 {
    guard case .journal(let row) = try SourceReach(decoding: position, of: .sqlite) else { return 0 }
    return row
  }
}
