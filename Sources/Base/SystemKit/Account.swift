import CShims
import Glibc

/// A user of this system with the user's groups, to find out which files the user may read and write.
///
///     Account(named: "cairn")?.user
///     Account(user: Account.current)?.name
package struct Account: Equatable, Sendable {
  package let name: String
  package let user: UInt32
  package let groups: Set<UInt32>

  package init(name: String, user: UInt32, groups: Set<UInt32>) {
    (self.name, self.user, self.groups) = (name, user, groups)
  }

  /// Looks up a user by name; nil if there is none: getpwnam(3).
  package init?(named name: String) {
    guard let entry = getpwnam(name) else { return nil }
    self.init(entry.pointee)
  }

  /// Looks up a user by number; nil if the number has no name: getpwuid(3).
  package init?(user: UInt32) {
    guard let entry = getpwuid(user) else { return nil }
    self.init(entry.pointee)
  }

  private init(_ entry: passwd) {
    var count: Int32 = 256
    var list = [gid_t](repeating: 0, count: Int(count))
    getgrouplist(entry.pw_name, entry.pw_gid, &list, &count)
    name = String(cString: entry.pw_name)
    user = entry.pw_uid
    groups = Set(list.prefix(Int(max(0, min(count, 256))))).union([entry.pw_gid])
  }

  /// Gives this process the rights of the account for ever: setuid(2). Returns false if the process is not root.
  package func become() -> Bool {
    guard let entry = getpwnam(name) else { return false }
    let group = entry.pointee.pw_gid
    return initgroups(name, group) == 0 && setgid(group) == 0 && setuid(user) == 0
  }

  package static func hasGroup(_ name: String) -> Bool { getgrnam(name) != nil }

  /// The number of the user whose rights this process has: geteuid(2).
  package static var current: UInt32 { geteuid() }
}

/// The rights on a file: the bits of one octal digit of a mode.
///
///     FileRights([.read, .write]).obstacle(at: path, for: account)   // nil: the user may
package struct FileRights: OptionSet, Sendable {
  package let rawValue: UInt32
  package init(rawValue: UInt32) { self.rawValue = rawValue }

  package static let read = FileRights(rawValue: 4)
  package static let write = FileRights(rawValue: 2)
  package static let enter = FileRights(rawValue: 1)

  /// Returns whether the mode of a file gives an account all of these rights. User 0 has all rights.
  ///
  /// Source: path_resolution(7)
  package func areGiven(by mode: UInt32, owner: UInt32, group: UInt32, to account: Account) -> Bool {
    if account.user == 0 { return true }
    let shift: UInt32 = account.user == owner ? 6 : account.groups.contains(group) ? 3 : 0
    return (mode >> shift) & rawValue == rawValue
  }

  /// Returns the first file or folder on the way to `path` that denies the account these rights; nil if there is none.
  /// A file with an access control list counts as granting all rights.
  package func obstacle(at path: String, for account: Account) -> String? {
    var folders: [String] = []
    var folder = Folder.parent(of: path)
    while folder != "/", folder != "." {
      folders.append(folder)
      folder = Folder.parent(of: folder)
    }
    for folder in folders.reversed() where !Self.enter.isGiven(at: folder, to: account) { return folder }
    return isGiven(at: path, to: account) ? nil : path
  }

  private func isGiven(at path: String, to account: Account) -> Bool {
    var info = stat()
    guard stat(path, &info) == 0, cairn_has_acl(path) == 0 else { return true }
    return areGiven(by: info.st_mode, owner: info.st_uid, group: info.st_gid, to: account)
  }
}

extension Folder {
  /// Returns the owner and the mode of a file or folder; nil if there is none: stat(2).
  package static func owner(_ path: String) -> (user: UInt32, mode: UInt32)? {
    var info = stat()
    return stat(path, &info) == 0 ? (info.st_uid, info.st_mode & 0o7777) : nil
  }

  /// Returns the bytes that users can still write to the file system of a path; nil if unknown: statvfs(3).
  package static func freeBytes(_ path: String) -> Int64? {
    var info = statvfs()
    return statvfs(path, &info) == 0 ? Int64(clamping: UInt64(info.f_bavail) * UInt64(info.f_frsize)) : nil
  }

  /// Returns the size of the file system of a path, in bytes; nil if unknown: statvfs(3).
  package static func totalBytes(_ path: String) -> Int64? {
    var info = statvfs()
    return statvfs(path, &info) == 0 ? Int64(clamping: UInt64(info.f_blocks) * UInt64(info.f_frsize)) : nil
  }
}

extension Account {
  /// Runs `body` with the rights of a file's owner: seteuid(2). If this process is not root, it keeps its own rights.
  /// The process must have only one thread.
  package static func asOwner<T, E: Error>(of path: String, _ body: () throws(E) -> T) throws(E) -> T {
    var info = stat()
    guard geteuid() == 0, stat(path, &info) == 0, info.st_uid != 0 else { return try body() }
    guard setegid(info.st_gid) == 0, seteuid(info.st_uid) == 0 else { return try body() }
    defer { _ = becomeSelf() }
    return try body()
  }

  /// Runs `body` with the process's real user and group as its effective ones: seteuid(2), setegid(2).
  package static func asSelf<T, E: Error>(_ body: () throws(E) -> T) throws(E) -> T {
    let (user, group) = (geteuid(), getegid())
    guard becomeSelf() else { return try body() }
    defer {
      _ = setegid(group)
      _ = seteuid(user)
    }
    return try body()
  }

  private static func becomeSelf() -> Bool { seteuid(getuid()) == 0 && setegid(getgid()) == 0 }
}
