import Changes
import SystemKit

/// The index of a segment that can be asked for stretches: a file whose pages are read one by one, or an index
/// in memory.
struct OpenIndex {
  private enum Store {
    case file(File)
    case memory([UInt8])
  }

  let index: SegmentIndex
  private let store: Store
  var isFile: Bool { if case .file = store { true } else { false } }
  private static let startLength = 16 << 10

  /// Opens the index file of a segment; nil if it is missing, damaged, of another segment, or has no stretches.
  init?(_ folder: TrailFolder, _ identity: SegmentIndex.Identity) {
    guard let file = try? File(folder.indexPath(identity.segment), .read) else { return nil }
    guard let start = Self.read(file, 0, Self.startLength, atLeast: 20), let length = SegmentIndex.length(of: start)
    else { return nil }
    let header = length <= start.count ? Array(start[..<length]) : Self.read(file, 0, length, atLeast: length)
    guard let header, let index = SegmentIndex(header: header), index.identity == identity,
      !index.stretches.isEmpty
    else { return nil }
    (self.index, store) = (index, .file(file))
  }

  /// Opens an index that has just been built.
  init?(_ bytes: [UInt8]) {
    guard let length = SegmentIndex.length(of: bytes), length <= bytes.count,
      let index = SegmentIndex(header: Array(bytes[..<length]))
    else { return nil }
    (self.index, store) = (index, .memory(bytes))
  }

  /// Returns the stretches that may have one of these hashes, in order; nil if the index is damaged. All stretches if
  /// the index has no entries.
  func stretches(of hashes: [UInt64]) -> [Int]? {
    guard index.widths.hash > 0 else { return Array(index.stretches.indices) }
    var found: Set<Int> = []
    for hash in hashes {
      for page in index.pages(of: hash) {
        guard let bytes = read(page), index.add(hash, in: page, bytes, to: &found) else { return nil }
      }
    }
    return found.sorted()
  }

  private func read(_ page: SegmentIndex.Page) -> [UInt8]? {
    switch store {
    case .file(let file): return Self.read(file, page.offset, page.length, atLeast: page.length)
    case .memory(let bytes):
      guard page.offset + UInt64(page.length) <= UInt64(bytes.count) else { return nil }
      return Array(bytes[Int(page.offset)..<Int(page.offset) + page.length])
    }
  }

  private static func read(_ file: File, _ offset: UInt64, _ count: Int, atLeast: Int) -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: count)
    guard let found = try? bytes.withUnsafeMutableBytes({ buffer throws in try file.read(into: buffer, at: offset) }),
      found >= atLeast
    else { return nil }
    bytes.removeLast(count - found)
    return bytes
  }
}
