import Changes
import SQLiteKit
import Trails

/// The result of comparing an SQLite file with the end of its trail.
enum SourceStanding {
  /// The source stores the trail's last journal row as the last captured one.
  case atMark
  /// The source stores an earlier journal row as the last captured one, but its journal has the later rows of the
  /// trail. The value is the CRC-32C of these rows.
  case behind(UInt32)
  /// The journal dropped rows at its size limit, so the trail cannot be compared with the journal.
  case lostRows
  /// The file is another database, or was restored from a backup. The text says how it differs.
  case other(String)

  /// Compares a file with the end of its trail.
  ///
  /// - Parameters:
  ///   - marked: The journal row that the file stores as the last captured one, with the random number stored for it.
  ///   - position: The position at the end of the trail.
  init(_ source: Database, marked: SourcePosition.Mark, _ position: SourcePosition) throws {
    if marked == position.mark {
      self = .atMark
      return
    }
    if try source.integer("SELECT min(seq) FROM cairn_journal") ?? 0 > marked.taken + 1 {
      self = .lostRows
      return
    }
    guard marked == position.previous else {
      self = .other("it is marked at row \(marked.taken), which the trail does not know")
      return
    }
    let statement = try source.prepare("SELECT * FROM cairn_journal WHERE seq > ? AND seq <= ? ORDER BY seq")
    try statement.bind([.integer(marked.taken), .integer(position.mark.taken)])
    let all = try Journal(source).layoutsByID()
    var check = JournalReader()
    var next = marked.taken + 1
    while try statement.step() {
      guard statement.integer(0) == next else { break }
      let code = statement.integer(1)
      check.read(statement, seq: next, code: code, first: 3, count: Journal.valueCount(code, all))
      next += 1
    }
    statement.reset()
    guard next == position.mark.taken + 1, check.checksum == position.checksum else {
      self = .other("its journal rows \(marked.taken + 1) to \(position.mark.taken) differ from the trail")
      return
    }
    self = .behind(check.checksum)
  }
}

extension SourcePosition.Mark {
  /// Reads the journal row that the source stores as the last captured one, with its random number; nil if Cairn did
  /// not write it.
  init?(of source: Database) throws {
    let row = try source.query("SELECT taken, nonce FROM cairn_control WHERE id = 0").first ?? []
    guard row.count == 2, case .integer(let taken) = row[0], case .integer(let nonce) = row[1],
      SourcePosition.places.contains(taken)
    else { return nil }
    self.init(taken: taken, nonce: nonce)
  }
}

extension SQLiteCapture {
  /// Returns why capture of a file cannot continue the trail in `folder`; nil if it can. No capture may be running.
  ///
  /// - Throws: ``SQLiteError``, or an error of a damaged trail.
  package static func fault(of source: Database, folder: String) throws -> String? {
    let before = try SourcePosition.Mark(of: source)
    let last = try Trail.lastSourcePosition(folder: folder)
    guard !last.isEmpty else { return nil }
    guard let marked = try SourcePosition.Mark(of: source) else { return "its table cairn_control is empty" }
    // A capture whose daemon does not answer may be running: it changes the mark.
    guard marked == before else { return nil }
    guard case .other(let how) = try SourceStanding(source, marked: marked, SourcePosition(decoding: last)) else {
      return nil
    }
    return how
  }
}

extension Trail {
  /// Returns the source position of the last transaction in a trail; empty if there is none.
  static func lastSourcePosition(folder: String) throws -> [UInt8] {
    let reader = try TrailReader.open(
      folder: folder, at: segmentStart(folder: folder, of: info(folder: folder).lastTransaction))
    var (open, last): ([UInt8], [UInt8]) = ([], [])
    while let record = try reader.next() {
      switch record {
      case .progress(let position, _): open = position
      case .commit: last = open
      default: break
      }
    }
    return last
  }
}
