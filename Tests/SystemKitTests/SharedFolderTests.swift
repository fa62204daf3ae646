import Foundation
import Testing

@testable import SystemKit

/// Folders in which another user may exchange files.
struct SharedFolderTests {
  private func made(_ body: (String) throws -> Void) throws {
    let folder = FileIdentity.canonical(NSTemporaryDirectory()) + "/cairn-shared-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder + "/a/b", withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try body(folder)
  }

  @Test func `a folder on the way that others may write is found, unless it is sticky`() throws {
    try made { folder in
      let file = folder + "/a/b/file"
      #expect(Folder.firstShared(onTheWayTo: file) == nil)
      for mode in [0o777, 0o775, 0o757] as [mode_t] {
        #expect(chmod(folder + "/a", mode) == 0)
        #expect(Folder.firstShared(onTheWayTo: file) == folder + "/a")
        #expect(throws: (any Error).self) { try Folder.checkIsNotShared(onTheWayTo: file, "snapshot") }
      }
      #expect(chmod(folder + "/a", 0o1777) == 0)
      #expect(Folder.firstShared(onTheWayTo: file) == nil)
      // Only the folders count, not the file.
      #expect(FileManager.default.createFile(atPath: file, contents: nil) && chmod(file, 0o666) == 0)
      #expect(Folder.firstShared(onTheWayTo: file) == nil)
    }
  }

  @Test func `a link on the way is no way around a shared folder`() throws {
    try made { folder in
      try FileManager.default.createSymbolicLink(atPath: folder + "/link", withDestinationPath: "a/b")
      #expect(Folder.firstShared(onTheWayTo: folder + "/link/file") == nil)
      #expect(chmod(folder + "/a", 0o777) == 0)
      #expect(Folder.firstShared(onTheWayTo: folder + "/link/file") == folder + "/a")
      // Here the link itself may be exchanged.
      #expect(chmod(folder + "/a", 0o755) == 0)
      try FileManager.default.createDirectory(atPath: folder + "/open", withIntermediateDirectories: true)
      try FileManager.default.createSymbolicLink(atPath: folder + "/open/link", withDestinationPath: "../a/b")
      #expect(chmod(folder + "/open", 0o777) == 0)
      #expect(Folder.firstShared(onTheWayTo: folder + "/open/link/file") == folder + "/open")
    }
  }

  @Test(.enabled(if: geteuid() == 0, "needs root")) func `a folder of another user is shared`() throws {
    try made { folder in
      #expect(chown(folder + "/a", 65534, 65534) == 0)
      #expect(Folder.firstShared(onTheWayTo: folder + "/a/b/file") == folder + "/a")
    }
  }

  @Test func `a file that is made is not made through a link`() throws {
    try made { folder in
      try FileManager.default.createSymbolicLink(atPath: folder + "/link", withDestinationPath: "target")
      #expect(throws: FileError.self) { try File(folder + "/link", .openOrCreate) }
      #expect(!Folder.exists(folder + "/target"))
      let file = try File(folder + "/own", .openOrCreate)
      #expect(try file.isOwn)
      #expect(link(folder + "/own", folder + "/other") == 0)
      #expect(try !file.isOwn)
    }
  }
}
