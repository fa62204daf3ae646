import Glibc

/// A file or folder with its group and mode, which can be changed so that a group shares it. A symbolic link is never
/// followed.
///
///     try SharedEntry("/srv/pos/pos.db")?.share(group: 995, adding: 0o060)
package struct SharedEntry: Equatable, Sendable {
  package enum Kind: Sendable { case file, folder, other }

  package var path: String
  package var user: UInt32
  package var group: UInt32
  package var mode: UInt32
  package var kind: Kind
  /// The number of names of the file.
  package var links: UInt64

  package init(path: String, user: UInt32, group: UInt32, mode: UInt32, kind: Kind = .file, links: UInt64 = 1) {
    (self.path, self.user, self.group, self.mode) = (path, user, group, mode)
    (self.kind, self.links) = (kind, links)
  }

  package static func == (a: Self, b: Self) -> Bool {
    a.path.utf8.elementsEqual(b.path.utf8) && a.user == b.user && a.group == b.group && a.mode == b.mode
      && a.kind == b.kind && a.links == b.links
  }

  private init(path: String, _ info: stat) {
    let kind: Kind =
      switch info.st_mode & S_IFMT {
      case S_IFREG: .file
      case S_IFDIR: .folder
      default: .other
      }
    self.init(
      path: path, user: info.st_uid, group: info.st_gid, mode: info.st_mode & 0o7777, kind: kind,
      links: UInt64(info.st_nlink))
  }

  /// Looks at an entry: lstat(2). Returns nil if there is none.
  package init?(_ path: String) throws(FileError) {
    var info = stat()
    if lstat(path, &info) != 0 {
      if errno == ENOENT { return nil }
      throw FileError(code: errno, operation: "lstat", path: path)
    }
    self.init(path: path, info)
  }

  /// Gives the entry to a group, and adds bits to its mode: fchown(2), fchmod(2).
  ///
  /// - Throws: ESTALE if another file or folder is in its place by now, or if the file has got another owner or name.
  package func share(group: UInt32, adding bits: UInt32) throws(FileError) {
    func failure(_ operation: String) -> FileError { FileError(code: errno, operation: operation, path: path) }
    let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure("open") }
    defer { _ = close(descriptor) }
    var info = stat()
    guard fstat(descriptor, &info) == 0 else { throw failure("fstat") }
    let present = SharedEntry(path: path, info)
    guard kind != .other, present.kind == kind, present.user == user, kind == .folder || present.links == links else {
      throw FileError(code: ESTALE, operation: "share", path: path)
    }
    if present.group != group, fchown(descriptor, .max, group) != 0 { throw failure("fchown") }
    // A change of the group may clear the setgid bit.
    if fchmod(descriptor, present.mode | bits) != 0 { throw failure("fchmod") }
  }
}

extension Account {
  /// The number of a group; nil if there is none: getgrnam(3).
  package static func group(named name: String) -> UInt32? { getgrnam(name)?.pointee.gr_gid }

  /// The name of a group; nil if there is none: getgrgid(3).
  package static func groupName(_ group: UInt32) -> String? {
    getgrgid(group).map { String(cString: $0.pointee.gr_name) }
  }
}
