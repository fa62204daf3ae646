import Changes
import SystemKit

/// A file that says whether a statement of the trail is being executed at the target.
///
/// If the file says so at the start of an apply, the process or the server ended during the statement. The file is not
/// synced to the disk: it must survive the end of the process, not of the machine.
///
///     let mark = try StatementMark("/var/lib/cairn/applies/copy.statement")
///     try mark.set(true)
struct StatementMark {
  private let file: File
  /// Whether a statement was being executed when the file was last written.
  let wasSet: Bool

  /// Opens or creates the file.
  init(_ path: String) throws {
    do {
      try Folder.create(Folder.parent(of: path))
      let file = try File(path, .openOrCreate)
      var byte: UInt8 = 0
      let count = try withUnsafeMutableBytes(of: &byte) { try file.read(into: $0, at: 0) }
      self.file = file
      wasSet = count == 1 && byte == UInt8(ascii: "1")
    } catch let error as FileError { throw error.asCairnError(doing: "read the state of an apply") }
  }

  func set(_ isSet: Bool) throws {
    do {
      try withUnsafeBytes(of: UInt8(ascii: isSet ? "1" : "0")) { try file.write($0, at: 0) }
    } catch let error as FileError { throw error.asCairnError(doing: "write the state of an apply") }
  }
}
