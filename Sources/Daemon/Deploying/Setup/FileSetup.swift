import Changes
import SystemKit

/// The steps after which programs and the daemon can share an SQLite file. They need a common group with rights on the
/// file and the folder, and a unit that may write there.
///
/// SQLite creates the companions `-wal` and `-shm` with the mode of the database and the group of the folder if that
/// has the setgid bit. Source: https://www.sqlite.org/wal.html, section 4.
///
///     try FileSetup(path: "/srv/pos/pos.db", facts).steps(group: "pos")
package struct FileSetup {
  /// The state of the machine.
  package struct Facts: Sendable {
    package var folder: SharedEntry
    /// The database and its companions that exist, the database first.
    package var files: [SharedEntry] = []
    /// The number of the group that was asked for; nil if there is no such group yet.
    package var group: UInt32?
    /// The user of the daemon.
    package var daemon: Account
    /// The users of the programs that write the file.
    package var programs: [Account] = []
    /// The folders that the unit may write (`ReadWritePaths=`); nil if there is no unit.
    package var writable: [String]?
    package var hidesHomes = false
    /// Whether systemd runs here.
    package var hasSystemd = false
    /// The present text of the drop-in that ``dropIn`` names.
    package var dropInText = ""
    /// The folder on the way to the database that the daemon's user may not enter; nil if there is none.
    package var obstacle: String?

    package init(folder: SharedEntry, daemon: Account) { (self.folder, self.daemon) = (folder, daemon) }
  }

  package static let dropIn = "/etc/systemd/system/cairnd.service.d/cairn-setup.conf"

  private let path: String
  private let facts: Facts

  package init(path: String, _ facts: Facts) { (self.path, self.facts) = (path, facts) }

  /// Returns the group that the folder hands down already; nil if it hands none down, or that of root.
  package static func present(_ folder: SharedEntry) -> UInt32? {
    folder.mode & 0o2000 != 0 && folder.group != 0 ? folder.group : nil
  }

  /// Returns all steps, also those that are done.
  ///
  /// - Parameter group: The name of the common group.
  /// - Throws: `usage` for a name that no group can have; `database-unsafe` for a folder or a file that must not be
  ///   shared.
  package func steps(group: String) throws(CairnError) -> [SetupStep] {
    try checkName(group)
    try checkFolder()
    if let stray = facts.files.first, !stray.path.hasSameBytes(as: path) {
      throw unsafe("\(stray.path) is there without its database", "remove it")
    }
    for entry in facts.files { try check(entry) }
    var steps = [
      SetupStep(
        "group \(group) exists", isDone: facts.group != nil, "groupadd --system \(group)",
        .program(["groupadd", "--system", group]))
    ]
    var seen: Set<UInt32> = []
    for account in [facts.daemon] + facts.programs where account.user != 0 && seen.insert(account.user).inserted {
      let words = ["usermod", "-aG", group, account.name]
      steps.append(
        SetupStep(
          "user \(account.name) is in group \(group)", isDone: facts.group.map(account.groups.contains) ?? false,
          words.map(\.shellArgument).joined(separator: " "), .program(words)))
    }
    if facts.files.isEmpty {
      steps.append(
        SetupStep(
          "\(path) exists", isDone: false,
          "install -m 660 -g \(group) /dev/null \(path.shellArgument)", .create(path: path, group: group)))
    }
    steps += ([facts.folder] + facts.files).map { share($0, group) }
    steps += obstacleStep(group) + unitSteps()
    return steps
  }

  private func share(_ entry: SharedEntry, _ group: String) -> SetupStep {
    let (bits, mode): (UInt32, String) = entry.kind == .folder ? (0o2070, "g+rwxs") : (0o060, "g+rw")
    let isDone = entry.group == facts.group && entry.mode & bits == bits
    let word = entry.path.shellArgument
    return SetupStep(
      "group \(group) writes \(entry.path)\(entry.kind == .folder ? ", and new files there belong to it" : "")",
      isDone: isDone, "chgrp -h \(group) \(word) && chmod \(mode) \(word)",
      .share(entry, group: group, bits: bits))
  }

  private func obstacleStep(_ group: String) -> [SetupStep] {
    guard let place = facts.obstacle, !place.hasSameBytes(as: facts.folder.path) else { return [] }
    return [
      SetupStep(
        "user \(facts.daemon.name) may enter \(place)", isDone: false,
        "setfacl -m g:\(group):x \(place.shellArgument)", .nothing)
    ]
  }

  private func unitSteps() -> [SetupStep] {
    guard let writable = facts.writable else { return [] }
    let folder = facts.folder.path
    let isWritable = writable.contains { given in
      let place = given.utf8.first == UInt8(ascii: "-") ? String(given.dropFirst()) : given
      return folder.hasSameBytes(as: place) || folder.utf8.starts(with: Array((place + "/").utf8))
    }
    var text = facts.dropInText.isEmpty ? Self.head : facts.dropInText
    if text.utf8.last != UInt8(ascii: "\n") { text += "\n" }
    let line = "ReadWritePaths=\(ServiceUnit.word(folder))"
    var steps = [
      SetupStep(
        "the unit cairnd.service may write \(folder)", isDone: isWritable,
        "printf '%s\\n' \("[Service]".shellWord) \(line.shellWord) >>\(Self.dropIn)",
        .write(path: Self.dropIn, text: text + line + "\n"))
    ]
    if !isWritable, facts.hasSystemd {
      steps.append(
        SetupStep(
          "systemd has read the drop-in", isDone: false, "systemctl daemon-reload",
          .program(["systemctl", "daemon-reload"])))
    }
    if facts.hidesHomes, Self.isBelowHome(folder) {
      steps.append(
        SetupStep(
          "the unit sees files below \(folder)", isDone: false,
          "systemctl edit cairnd   # below [Service]: ProtectHome=no", .nothing))
    }
    return steps
  }

  private static let head = "# Written by 'cairn setup': folders with SQLite files that the daemon writes.\n[Service]\n"

  // MARK: Refusals

  private func checkName(_ group: String) throws(CairnError) {
    // Source: useradd(8), CAVEATS.
    let isName =
      group.utf8.count <= 32
      && group.utf8.enumerated().allSatisfy { index, byte in
        (0x61...0x7a).contains(byte) || byte == 0x5f || index > 0 && ((0x30...0x39).contains(byte) || byte == 0x2d)
      }
    guard !group.isEmpty, isName else {
      throw CairnError(
        .usage, "'\(group)' is no name of a group",
        hint: "use up to 32 small letters, digits, '_' and '-', beginning with a letter", remedy: .badInput)
    }
  }

  private static let systemFolders = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run/systemd", "/sbin", "/sys", "/usr",
  ]

  private static func isBelowHome(_ folder: String) -> Bool {
    ["/home/", "/root/", "/run/user/"].contains { folder.utf8.starts(with: $0.utf8) }
  }

  private func checkFolder() throws(CairnError) {
    let folder = facts.folder.path
    let names = folder.split(at: "/")
    let isSystem =
      names.count < 2
      || Self.systemFolders.contains {
        folder.hasSameBytes(as: $0) || folder.utf8.starts(with: Array(($0 + "/").utf8))
      }
      || names.count == 2 && ["var", "home", "run"].contains { $0.hasSameBytes(as: names[0]) }
    guard isSystem || facts.folder.mode & 0o1000 != 0 else { return }
    throw unsafe(
      "folder \(folder) belongs to the system or to all users, so no group may get it",
      "move the database into a folder of its own, such as /srv/\(Folder.lastName(of: path))")
  }

  private func check(_ entry: SharedEntry) throws(CairnError) {
    if entry.kind != .file {
      throw unsafe(
        "\(entry.path) is no file, but a folder, a link or something else",
        "give the path of the file itself, or remove it")
    }
    guard entry.links == 1 else {
      throw unsafe(
        "\(entry.path) has \(entry.links) names, so a group would also get it under the others",
        "find them: find / -xdev -samefile \(entry.path.shellArgument)")
    }
    // Otherwise a user who may write the folder could have another user's file given to the group.
    guard let database = facts.files.first, entry.user != database.user else { return }
    let known = [facts.daemon.user] + facts.programs.map(\.user)
    guard known.contains(entry.user) else {
      throw unsafe(
        "\(entry.path) belongs to user \(entry.user), who is neither the owner of the database nor of a program",
        "if a program of that user writes the database, add --program USER; else remove the file")
    }
  }

  private func unsafe(_ message: String, _ hint: String) -> CairnError {
    CairnError(.databaseUnsafe, message, hint: hint, context: ["file": path])
  }
}
