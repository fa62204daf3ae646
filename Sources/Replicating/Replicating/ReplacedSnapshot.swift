import Changes
import Endpoints
import SQLiteKit
import SystemKit

/// The earlier snapshot whose name a new file gets.
///
///     let old = try ReplacedSnapshot(path, ifBusy: "end the program", ifForeign: "name another file").take()
///     try withExtendedLifetime(old) { try Folder.rename(new, to: path) }
struct ReplacedSnapshot {
  private let path: String
  private let busyHint: String
  private let foreignHint: String

  /// - Parameters:
  ///   - ifBusy: The hint for a file that a program uses.
  ///   - ifForeign: The hint for a file that is not a snapshot.
  init(_ path: String, ifBusy busyHint: String, ifForeign foreignHint: String) {
    (self.path, self.busyHint, self.foreignHint) = (path, busyHint, foreignHint)
  }

  /// Locks the file for this process alone, so that no program reads or writes it until it has another name. A log that
  /// an ended program left is moved into the file.
  ///
  /// - Returns: The connection that holds the lock; nil if there is no file.
  /// - Throws: `database-busy` while a program has the file open. `target-differs` if the file is not a snapshot, which
  ///   is then left as it is.
  func take() throws -> Database? {
    guard Folder.exists(path) else { return nil }
    let processes = OpenFiles.processes(of: path)
    guard processes.isEmpty else {
      throw inUse("process \(processes.prefix(5).map(String.init).joined(separator: ", ")) has it open")
    }
    guard try isSnapshot else {
      throw CairnError(
        .targetDiffers, "\(path) is not a snapshot, and is not replaced", hint: foreignHint, remedy: .badInput)
    }
    try moveLog()
    // This connection writes nothing. At its end it removes no journal, which could be one of the new file by then.
    let old = try open { try $0.execute("BEGIN EXCLUSIVE") }
    guard !SideFiles.names(of: path).contains(where: Folder.hasEntry) else { throw inUse("its log is in use") }
    return old
  }

  /// Leaves WAL mode, which moves everything from the log into the file.
  private func moveLog() throws {
    // A connection in WAL mode keeps a lock for as long as it is open: the mode can be left only without others.
    _ = try open { try $0.executeScript("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE") }
  }

  private func open(_ use: (Database) throws -> Void) throws -> Database {
    let (old, mode): (Database, String?)
    do {
      old = try Ends.open(path, mode: .readWrite, checksOwn: false)
      old.setBusyTimeout(milliseconds: 0)
      try use(old)
      mode = try old.text("PRAGMA journal_mode")
    } catch let error as SQLiteError {
      throw error.isBusy ? inUse(error.message) : error.asCairnError
    } catch let error as CairnError where error.code == .databaseBusy { throw inUse(error.message) }
    guard mode?.asciiLowercased == "delete" else { throw inUse("its log is in use") }
    return old
  }

  private var isSnapshot: Bool {
    get throws {
      do {
        return try SnapshotNote.read(from: Ends.open(path, mode: .readOnly)) != nil
      } catch let error as SQLiteError where error.isBusy {
        throw inUse(error.message)
      } catch let error as CairnError where error.code == .databaseBusy { throw inUse(error.message) } catch {
        return false
      }
    }
  }

  private func inUse(_ how: String) -> CairnError {
    CairnError(.databaseBusy, "\(path) is in use, and was not replaced: \(how)", hint: busyHint, remedy: .retry)
  }
}
