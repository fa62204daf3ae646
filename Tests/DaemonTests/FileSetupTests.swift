import Changes
import Foundation
import SystemKit
import Testing

@testable import Deploying

/// The steps that make an SQLite file ready to be shared by a group.
@Suite struct FileSetupTests {
  private static let folder = SharedEntry(path: "/srv/pos", user: 0, group: 0, mode: 0o755, kind: .folder)
  private static let database = SharedEntry(path: "/srv/pos/pos.db", user: 1000, group: 1000, mode: 0o644)

  private func facts(_ change: (inout FileSetup.Facts) -> Void = { _ in }) -> FileSetup.Facts {
    var facts = FileSetup.Facts(
      folder: Self.folder, daemon: Account(name: "cairn", user: 990, groups: [990]))
    facts.files = [Self.database]
    facts.programs = [Account(name: "till", user: 1000, groups: [1000])]
    facts.writable = []
    facts.hasSystemd = true
    change(&facts)
    return facts
  }

  private func steps(_ facts: FileSetup.Facts, group: String = "pos") throws -> [SetupStep] {
    try FileSetup(path: "/srv/pos/pos.db", facts).steps(group: group)
  }

  @Test func `a fresh file needs every step, in the order in which they can be done`() throws {
    let commands = try steps(facts()).filter { $0.state == .missing }.map(\.command)
    #expect(
      commands == [
        "groupadd --system pos", "usermod -aG pos cairn", "usermod -aG pos till",
        "chgrp -h pos /srv/pos && chmod g+rwxs /srv/pos", "chgrp -h pos /srv/pos/pos.db && chmod g+rw /srv/pos/pos.db",
        "printf '%s\\n' '[Service]' 'ReadWritePaths=/srv/pos' >>\(FileSetup.dropIn)", "systemctl daemon-reload",
      ])
  }

  @Test func `what is there is not done again`() throws {
    let ready = facts {
      $0.group = 995
      $0.folder = SharedEntry(path: "/srv/pos", user: 0, group: 995, mode: 0o2770, kind: .folder)
      $0.files = ["", "-wal", "-shm"].map {
        SharedEntry(path: "/srv/pos/pos.db" + $0, user: 1000, group: 995, mode: 0o660)
      }
      $0.daemon = Account(name: "cairn", user: 990, groups: [990, 995])
      $0.programs = [Account(name: "till", user: 1000, groups: [995])]
      $0.writable = ["/srv/other", "-/srv"]
    }
    #expect(try steps(ready).allSatisfy { $0.state == .done })
    #expect(FileSetup.present(ready.folder) == 995)
  }

  @Test func `a missing bit, group or companion is one step`() throws {
    func missing(_ change: (inout FileSetup.Facts) -> Void) throws -> [String] {
      let ready = facts {
        $0.group = 995
        $0.folder = SharedEntry(path: "/srv/pos", user: 0, group: 995, mode: 0o2770, kind: .folder)
        $0.files = [SharedEntry(path: "/srv/pos/pos.db", user: 1000, group: 995, mode: 0o660)]
        $0.daemon = Account(name: "cairn", user: 990, groups: [995])
        $0.programs = [Account(name: "till", user: 1000, groups: [995])]
        $0.writable = nil
        change(&$0)
      }
      return try steps(ready).filter { $0.state != .done }.map(\.command)
    }
    #expect(try missing { _ in } == [])
    #expect(try missing { $0.folder.mode = 0o770 } == ["chgrp -h pos /srv/pos && chmod g+rwxs /srv/pos"])
    let companion = SharedEntry(path: "/srv/pos/pos.db-wal", user: 1000, group: 1000, mode: 0o660)
    #expect(
      try missing { $0.files.append(companion) }
        == ["chgrp -h pos /srv/pos/pos.db-wal && chmod g+rw /srv/pos/pos.db-wal"])
    #expect(
      try missing { $0.files = [] } == ["install -m 660 -g pos /dev/null /srv/pos/pos.db"])
    // Another path that begins alike is another folder.
    #expect(try missing { $0.writable = ["/srv/po", "/srv/pos/x"] }.count == 2)
    let closed = facts {
      $0.obstacle = "/srv"
      $0.writable = nil
    }
    #expect(try steps(closed).filter { $0.state == .byHand }.map(\.command) == ["setfacl -m g:pos:x /srv"])
  }

  @Test(
    arguments: [
      "/", "/srv", "/etc", "/etc/app", "/usr/local/share", "/var/lib", "/home/ann", "/root", "/run/lock", "/dev/shm",
      "/boot/x",
    ])
  func `a folder of the system is given to no group`(path: String) throws {
    let taken = facts { $0.folder.path = path }
    let error = try #require(throws: CairnError.self) { try steps(taken) }
    #expect(error.code == .databaseUnsafe)
  }

  @Test func `a folder of all users, a link, a second name and a stranger's file are refused`() throws {
    func code(_ change: (inout FileSetup.Facts) -> Void) throws -> ErrorCode? {
      let found = facts(change)
      do { _ = try steps(found) } catch let error as CairnError { return error.code }
      return nil
    }
    #expect(try code { _ in } == nil)
    #expect(try code { $0.folder.mode = 0o1777 } == .databaseUnsafe)
    #expect(try code { $0.files[0].kind = .other } == .databaseUnsafe)
    #expect(try code { $0.files[0].links = 2 } == .databaseUnsafe)
    #expect(try code { $0.files[0].path += "-wal" } == .databaseUnsafe)
    let strange = SharedEntry(path: "/srv/pos/pos.db-wal", user: 1001, group: 1001, mode: 0o644)
    #expect(try code { $0.files.append(strange) } == .databaseUnsafe)
    #expect(
      try code {
        $0.files.append(strange)
        $0.programs.append(Account(name: "report", user: 1001, groups: [1001]))
      } == nil)
  }

  @Test(arguments: ["", "-pos", "1pos", "po s", "pos;id", "POS", "p\u{301}os", String(repeating: "a", count: 33)])
  func `a name that no group can have is refused`(name: String) throws {
    let error = try #require(throws: CairnError.self) { try steps(facts(), group: name) }
    #expect(error.code == .usage)
  }

  @Test(arguments: ["/srv/a b", "/srv/100%", "/srv/\"x\\", "/srv/plain", "/srv/\u{e9}'s"])
  func `a path in a drop-in is read as it was written`(path: String) throws {
    let root = FileManager.default.temporaryDirectory.path + "/cairn-units-" + UUID().uuidString
    defer { try? FileManager.default.removeItem(atPath: root) }
    let units = root + "/etc/systemd/system"
    try Folder.create(units)
    func list(_ text: String) throws -> [String]? {
      try File.replace(units + "/cairnd.service", text: text, permissions: 0o600)
      return ServiceUnit(root: root)?.list("ReadWritePaths")
    }
    #expect(try list("ReadWritePaths=/before\nReadWritePaths=\(ServiceUnit.word(path))\n") == ["/before", path])
    #expect(try list("ReadWritePaths=/a\nReadWritePaths=\nReadWritePaths=-/b  /c\n") == ["-/b", "/c"])
  }
}
