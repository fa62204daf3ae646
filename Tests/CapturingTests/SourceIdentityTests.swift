import Capturing
import Changes
import Foundation
import SQLiteKit
import SystemKit
import Synchronization
import TestServers
import Testing

/// The source is proved to be where the trail ends, at every start and at every look.
@Suite struct SourceIdentityTests {
  private func started(_ folder: TempFolder) throws -> Replica {
    let replica = Replica(folder)
    try execute(
      replica.source,
      "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1,1),(2,2)")
    try replica.take()
    try write(replica, "INSERT INTO t VALUES (3,3)")
    return replica
  }

  private func write(_ replica: Replica, _ sql: String) throws {
    try execute(replica.source, sql)
    try replica.take()
  }

  @Test func `a source that was restored from an older backup is refused`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    let backup = try FileImage(replica.source, as: folder("backup.db"))
    try write(replica, "INSERT INTO t VALUES (4,4)")
    replica.close()
    try backup.restore()
    var refusal: CairnError?
    do { try replica.take() } catch let error as CairnError { refusal = error }
    #expect(refusal?.code == .sourceWentBack)
    // If both ends are written, the rows of the other end may be the newer ones.
    #expect(refusal?.hint.contains("from the end whose rows to keep") == true)
  }

  @Test func `a source that was restored and then wrote other rows under the same numbers is refused`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    let backup = try FileImage(replica.source, as: folder("backup.db"))
    try write(replica, "INSERT INTO t VALUES (4,4)")
    replica.close()
    try backup.restore()
    try execute(replica.source, "INSERT INTO t VALUES (4,'other'); INSERT INTO t VALUES (5,5)")
    #expect(code { try replica.take() } == .sourceWentBack)
  }

  @Test func `a source that was restored to a much older state is refused`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    let backup = try FileImage(replica.source, as: folder("backup.db"))
    for id in 4..<8 {
      try write(replica, "INSERT INTO t VALUES (\(id),4)")
      replica.close()
    }
    try backup.restore()
    for id in 4..<9 { try execute(replica.source, "INSERT INTO t VALUES (\(id),4)") }
    #expect(code { try replica.take() } == .sourceWentBack)
  }

  @Test(arguments: [false, true])
  func `a source that is restored in place while it is captured is refused`(writesOn: Bool) throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    try runTool("sqlite3", [replica.source, ".backup \(folder("backup.db"))"])
    try write(replica, "INSERT INTO t VALUES (4,4)")
    try write(replica, "INSERT INTO t VALUES (5,5)")
    try runTool("sqlite3", [replica.source, ".restore \(folder("backup.db"))"])
    if writesOn { try execute(replica.source, "INSERT INTO t VALUES (4,'other'); INSERT INTO t VALUES (5,'other')") }
    #expect(code { try replica.take() } == .sourceWentBack)
  }

  @Test func `a source that is restored in place between two runs and then writes as many other rows is refused`()
    throws
  {
    let folder = try TempFolder()
    let replica = try started(folder)
    try runTool("sqlite3", [replica.source, ".backup \(folder("backup.db"))"])
    try write(replica, "INSERT INTO t VALUES (4,4),(5,5)")
    replica.close()
    try runTool("sqlite3", [replica.source, ".restore \(folder("backup.db"))"])
    try execute(replica.source, "INSERT INTO t VALUES (4,'other'),(5,'other'); INSERT INTO t VALUES (6,6)")
    #expect(code { try replica.take() } == .sourceWentBack)
  }

  @Test func `another file that takes the place of the source while it is captured is refused`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    try runTool("sqlite3", [replica.source, ".backup \(folder("other.db"))"])
    let failure = try following(replica) { try FileManager.default.replace(folder("other.db"), replica.source) }
    #expect(failure == .sourceWentBack)
  }

  @Test func `a source that was detached while capture was away is refused`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    #expect(try Journal(try Database(path: replica.source)).detach())
    #expect(code { try replica.take() } == .sourceWentBack)
  }

  @Test func `a trail that was restored from an older backup is refused`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    try runTool("cp", ["-r", replica.trail, folder("older")])
    for id in 4..<7 {
      try write(replica, "INSERT INTO t VALUES (\(id),4)")
      replica.close()
    }
    replica.trail = folder("older")
    #expect(code { try replica.take() } == .sourceWentBack)
  }

  @Test func `a trail that is put back where another was begun meanwhile is refused`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    try runTool("mv", [replica.trail, folder("aside")])
    try write(replica, "INSERT INTO t VALUES (4,4)")
    replica.close()
    try runTool("rm", ["-r", replica.trail])
    try runTool("mv", [folder("aside"), replica.trail])
    let error = #expect(throws: CairnError.self) { try replica.take() }
    #expect(error?.code == .sourceWentBack && error?.message.contains("this state folder is not") == true)
  }

  @Test func `a second capture of one source is refused and names the first`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    let second = Replica(folder, trail: "second")
    second.options.place = folder("elsewhere")
    do {
      try second.take()
      Issue.record("the second capture was let in")
    } catch let error as CairnError {
      #expect(error.code == .sourceCaptured)
      #expect(error.message.contains(folder("state")) && error.hint.contains("cairn detach"))
    }
    try write(replica, "INSERT INTO t VALUES (9,9)")
    try replica.replay()
    #expect(try replica.differences() == [])
  }

  @Test func `a copy of a captured file is another source only after detach`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    try runTool("sqlite3", [replica.source, ".backup \(folder("copy.db"))"])
    let second = Replica(folder, source: "copy.db", target: "target2.db", trail: "second")
    second.options.place = folder("elsewhere")
    #expect(code { try second.take() } == .sourceCaptured)
    #expect(try Journal(try Database(path: second.source)).detach())
    try second.takeAndReplay()
    #expect(try second.differences() == [])
    try write(replica, "INSERT INTO t VALUES (9,9)")
  }

  @Test func `detach says whether there was anything`() throws {
    let folder = try TempFolder()
    try execute(folder("source.db"), "CREATE TABLE t(a)")
    #expect(try !Journal(try Database(path: folder("source.db"))).detach())
  }
}

/// Runs a capture on a thread of its own, and `body` meanwhile. Returns the code of the error that ended it, or nil when
/// it had to be stopped after `seconds`.
func following(_ replica: Replica, seconds: Int = 10, _ body: () throws -> Void) throws -> ErrorCode? {
  let stop = StopSignal()
  let failed = Mutex<ErrorCode?>(nil)
  let isOpen = StopSignal()
  let opened = Opened(replica)
  let thread = try WorkerThread {
    let found = code {
      try opened.replica.take()
      isOpen.set()
      try opened.replica.follow(until: stop)
    }
    isOpen.set()
    opened.replica.close()
    failed.withLock { $0 = found }
    stop.set()
  }
  defer {
    stop.set()
    _ = thread.join()
  }
  for _ in 0..<100 where !isOpen.isSet { _ = isOpen.wait(milliseconds: 100) }
  try body()
  for _ in 0..<seconds * 10 where !stop.isSet { _ = stop.wait(milliseconds: 100) }
  return failed.withLock { $0 }
}

/// Handed to one thread, and used by no other while it runs.
private struct Opened: @unchecked Sendable {
  let replica: Replica
  init(_ replica: Replica) { self.replica = replica }
}

extension FileManager {
  /// Renames a file over another.
  func replace(_ new: String, _ old: String) throws {
    guard rename(new, old) == 0 else { throw ToolFailed(tool: "rename", arguments: [new, old]) }
  }
}
