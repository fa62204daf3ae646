import Changes
import Glibc
import SystemKit

/// Reads what is there, and does the steps.
extension FileSetup {
  private static let companions = ["-wal", "-shm", "-journal"]

  /// Reads the facts about a database file.
  ///
  /// - Parameter path: The canonical path of the database.
  /// - Parameter group: The common group; nil: the one that the folder hands down.
  /// - Parameter daemon: The name of the daemon's user; nil: that of the unit, else `cairn`.
  /// - Parameter programs: The names of users whose programs write the file; its owner is one as well.
  /// - Parameter mayBeMissing: Whether the database is created if there is none, as a target.
  /// - Parameter unitRoot: A path that is put before the folders of systemd's units.
  /// - Throws: `usage` for users that do not exist, or if no group is known; `database-missing` without a folder or file;
  ///   `database-unsafe` for a link in the place of a file.
  package static func read(
    _ path: String, group: String?, daemon: String?, programs: [String], mayBeMissing: Bool, unitRoot: String = ""
  ) throws -> (setup: FileSetup, group: String) {
    let unit = ServiceUnit(root: unitRoot)
    let folder = Folder.parent(of: path)
    guard let entry = try entry(folder), entry.kind == .folder else {
      throw CairnError(
        .databaseMissing, "there is no folder \(folder)", hint: "create it: mkdir -p \(folder.shellArgument)")
    }
    var facts = Facts(folder: entry, daemon: try account(daemon ?? unit?.value(of: "User") ?? "cairn"))
    for file in try ([""] + companions).compactMap({ try Self.entry(path + $0) }) { facts.files.append(file) }
    guard mayBeMissing || !facts.files.isEmpty else {
      throw CairnError(
        .databaseMissing, "there is no database \(path)",
        hint: "correct the path; or, if an apply is to create it, add --target", context: ["file": path])
    }
    facts.programs = try programs.map(account)
    if let owner = facts.files.first?.user, let account = Account(user: owner) {
      facts.programs.append(account)
    }
    let present = present(entry).flatMap(Account.groupName)
    guard let name = group ?? present else {
      throw CairnError(
        .usage, "\(folder) hands down no group that programs and the daemon share",
        hint: "add --group NAME; the group is created if there is none", remedy: .badInput)
    }
    facts.group = Account.group(named: name)
    facts.writable = unit.map { $0.list("ReadWritePaths") }
    facts.hidesHomes = unit?.value(of: "ProtectHome") == "yes"
    facts.hasSystemd = unitRoot.isEmpty && Folder.exists("/run/systemd/system")
    facts.dropInText = (try? File.text(unitRoot + dropIn)) ?? ""
    facts.obstacle = FileRights.enter.obstacle(at: Folder.parent(of: folder), for: facts.daemon)
    return (FileSetup(path: path, facts), name)
  }

  private static func account(_ name: String) throws(CairnError) -> Account {
    guard let account = Account(named: name) else {
      throw CairnError(
        .usage, "there is no user \(name)",
        hint: "for the daemon's user, install cairnd first or add --user USER; for a program, correct --program",
        remedy: .badInput)
    }
    return account
  }

  private static func entry(_ path: String) throws(CairnError) -> SharedEntry? {
    do throws(FileError) { return try SharedEntry(path) } catch { throw error.asCairnError(doing: "look at \(path)") }
  }

  /// Does one step.
  ///
  /// - Throws: `io-failed` with what a program printed.
  package static func perform(_ deed: SetupStep.Deed, unitRoot: String = "") throws {
    switch deed {
    case .program(let words): try run(words)
    case .share(let entry, let group, let bits):
      do throws(FileError) { try entry.share(group: try number(of: group), adding: bits) } catch {
        throw error.asCairnError(doing: "share \(entry.path)")
      }
    case .create(let path, let group):
      do throws(FileError) {
        try File(path, .create, permissions: 0o600).close()
        try SharedEntry(path)?.share(group: try number(of: group), adding: 0o060)
      } catch { throw error.asCairnError(doing: "create \(path)") }
    case .write(let path, let text):
      do throws(FileError) {
        try Folder.create(Folder.parent(of: unitRoot + path))
        try File.replace(unitRoot + path, text: text, permissions: 0o644)
      } catch { throw error.asCairnError(doing: "write \(path)") }
    case .statement, .eventTriggers, .nothing: break
    }
  }

  private static func number(of group: String) throws(FileError) -> UInt32 {
    guard let number = Account.group(named: group) else {
      throw FileError(code: ENOENT, operation: "getgrnam \(group) for", path: group)
    }
    return number
  }

  private static func run(_ words: [String]) throws {
    let outcome: Program.Outcome
    do throws(FileError) { outcome = try Program.run(words) } catch {
      throw error.asCairnError(doing: "run \(words.first ?? "")")
    }
    guard outcome.status == 0 else {
      throw CairnError(
        .ioFailed, "\(words.joined(separator: " ")) ended with status \(outcome.status): \(outcome.output.oneLine)",
        hint: "run it by hand, and then 'cairn setup' again")
    }
  }
}
