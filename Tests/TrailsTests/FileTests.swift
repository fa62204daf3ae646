import Changes
import Foundation
import SystemKit
import TestServers
import Testing

@Suite struct FileTests {
  private let temp: TempFolder
  init() throws { temp = try TempFolder() }

  @Test func `a file is written and read at offsets`() throws {
    let file = try File(temp("a"), .create)
    try Array("hello".utf8).withUnsafeBytes { try file.write($0, at: 3) }
    try file.syncData()
    try file.sync()
    #expect(try file.size == 8)
    var bytes = [UInt8](repeating: 9, count: 6)
    #expect(try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 4) } == 4)
    #expect(bytes == Array("ello".utf8) + [9, 9])
    #expect(try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 100) } == 0)
    try file.truncate(to: 1)
    try file.allocate(from: 1, count: 99)
    #expect(try contents(temp("a")) == [UInt8](repeating: 0, count: 100))
    #expect(try file.isLinked)
    try Folder.remove(temp("a"))
    #expect(try !file.isLinked)
    try file.close()
    #expect(throws: FileError.self) { try file.size }
  }

  @Test func `modes say whether the file must be there`() throws {
    #expect(#expect(throws: FileError.self) { try File(temp("a"), .readWrite) }?.isMissing == true)
    _ = try File(temp("a"), .openOrCreate)
    _ = try File(temp("a"), .openOrCreate)
    #expect(#expect(throws: FileError.self) { try File(temp("a"), .create) }?.code == EEXIST)
    let file = try File(temp("a"), .read)
    #expect(throws: FileError.self) { try [1].withUnsafeBytes { try file.write($0, at: 0) } }
  }

  @Test func `a lock belongs to one open file`() throws {
    var first: File? = try File(temp("lock"), .openOrCreate)
    #expect(try first?.tryLock() == true)
    let second = try File(temp("lock"), .openOrCreate)
    #expect(try !second.tryLock())
    first = nil
    #expect(try second.tryLock())
  }

  @Test(arguments: [
    (ENOSPC, ErrorCode.diskFull), (EDQUOT, .diskFull), (EROFS, .stateUnwritable), (EACCES, .stateUnwritable),
    (ENOENT, .trailMissing), (EIO, .ioFailed), (EMFILE, .ioFailed),
  ])
  func `an error number has a code`(number: Int32, code: ErrorCode) {
    let error = FileError(code: number, operation: "pwrite", path: "/x/y").asCairnError(
      doing: "write a thing", missing: .trailMissing)
    #expect(error.code == code)
    #expect(error.message.hasPrefix("cannot write a thing: pwrite /x/y: "))
    #expect(!error.hint.isEmpty)
  }

  @Test func `folders are made with their parents and listed in order`() throws {
    try Folder.create(temp("a/b/c"))
    try Folder.create(temp("a/b/c/"))
    #expect(Folder.isFolder(temp("a/b/c")))
    for name in ["z", "B", "a"] { try put([], temp("a/\(name)")) }
    #expect(try Folder.names(temp("a")) == ["B", "a", "b", "z"])
    try Folder.rename(temp("a/z"), to: temp("a/y"))
    try Folder.sync(temp("a"))
    #expect(!Folder.exists(temp("a/z")) && Folder.exists(temp("a/y")))
    #expect(throws: FileError.self) { try Folder.remove(temp("a")) }
    #expect(throws: FileError.self) { try Folder.names(temp("none")) }
    #expect(throws: FileError.self) { try Folder.create(temp("a/y/under-a-file")) }
    #expect(Folder.parent(of: "/a/b/") == "/a" && Folder.parent(of: "/a") == "/" && Folder.parent(of: "a") == ".")
    #expect(Folder.lastName(of: "/a/b/") == "b" && Folder.lastName(of: "a") == "a" && Folder.lastName(of: "/") == "/")
  }

  @Test func `a watch reports changes once`() throws {
    let (watch, stop) = (try FolderWatch(temp.path), StopSignal())
    #expect(!watch.drain())
    try put([1], temp("a"))
    #expect(watch.wait(milliseconds: 10_000, stop: stop))
    while watch.wait(milliseconds: 50, stop: stop) {}
    let file = try FolderWatch(temp("a"))
    let others = try FolderWatch(temp.path, names: ["c", "a"])
    try put([1], temp("b"))
    #expect(watch.wait(milliseconds: 10_000, stop: stop))
    #expect(!file.drain() && !others.drain())
    let handle = try File(temp("a"), .readWrite)
    try [2].withUnsafeBytes { try handle.write($0, at: 0) }
    #expect(file.wait(milliseconds: 10_000, stop: stop))
    #expect(others.wait(milliseconds: 10_000, stop: stop))
    #expect(throws: FileError.self) { try FolderWatch(temp("none")) }
  }
}
