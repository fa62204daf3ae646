import Changes
import Glibc
import SystemKit

/// Finds and reads the configuration files: `cairn.toml`, and `conf.d/*.toml` next to it, in byte order of their names.
package enum ConfFolder {
  package static let usual = "/etc/cairn"
  private static let bytesMax: UInt64 = 1 << 20

  /// Loads a configuration. Never throws: an unreadable file becomes a problem in the result.
  ///
  /// - Parameter path: the folder, or a single file.
  /// - Parameter more: files to treat as if they were in the folder.
  package static func load(
    _ path: String, more: [ConfFile] = [], awaitsPeers: Bool = false,
    expressionFault: @escaping LoadedConfiguration.ExpressionFault = { _, _ in nil },
    environment: @escaping (String) -> String?
  ) -> LoadedConfiguration {
    var files: [ConfFile] = []
    var problems: [ConfProblem] = []
    let isFolder = Folder.isFolder(path)
    for path in isFolder ? paths(in: path, &problems) : [path] {
      if let text = text(path, isAlone: !isFolder, &problems) { files.append(ConfFile(path: path, text: text)) }
    }
    let folderOwner = isFolder ? Folder.owner(path)?.user : nil
    let strangers = files.compactMap { strangersNotice($0.path, folderOwner: folderOwner) }
    files += more
    let service = environment("CREDENTIALS_DIRECTORY")
    var barred: [ConfProblem] = []
    let credentials = credentials(in: service ?? path + "/credentials", isService: service != nil, &barred)
    // Only root and the daemon may read passwords: a user that asks for the status does not need them.
    if service != nil { problems += barred }
    return LoadedConfiguration(
      files: files, credentials: credentials, unreadable: problems,
      notices: strangers + (service == nil ? barred.map { "\($0.place): \($0.message)" } : []),
      awaitsPeers: awaitsPeers, fileIdentity: fileIdentity,
      expressionFault: expressionFault, environment: environment)
  }

  // Two paths of one file get equal texts, also before the file exists.
  private static func fileIdentity(_ path: String) -> String {
    var info = stat()
    if stat(path, &info) == 0 { return "inode \(info.st_dev) \(info.st_ino)" }
    guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return path }
    guard let folder = realpath(String(path[..<slash]), nil) else { return path }
    defer { free(folder) }
    return String(cString: folder) + path[slash...]
  }

  private static func paths(in folder: String, _ problems: inout [ConfProblem]) -> [String] {
    let more = folder + "/conf.d"
    let names = names(in: more, &problems).filter { $0.hasSuffix(".toml") && !$0.hasPrefix(".") }
    return [folder + "/cairn.toml"] + names.map { more + "/" + $0 }
  }

  private static func text(_ path: String, isAlone: Bool = false, _ problems: inout [ConfProblem]) -> String? {
    if let problem = barred(path) {
      problems.append(problem)
      return nil
    }
    guard Folder.exists(path) else {
      problems.append(
        ConfProblem(
          .confMissing, at: ConfPlace(file: path), "there is no such file",
          hint: "name the folder of the conf with --config; 'cairn config --toml' prints a conf to begin with"))
      return nil
    }
    guard isRegular(path) else {
      problems.append(unreadable(path, "it is no regular file"))
      return nil
    }
    if let problem = openToAll(path, isAlone: isAlone) {
      problems.append(problem)
      return nil
    }
    do throws(FileError) {
      let bytes = try contents(path)
      guard bytes.count <= bytesMax else {
        problems.append(unreadable(path, "it has more than 1 MiB"))
        return nil
      }
      if let text = String(validating: bytes, as: UTF8.self) { return text }
      let lines = bytes.split(separator: 0x0a, omittingEmptySubsequences: false)
      let line = (lines.firstIndex { String(validating: $0, as: UTF8.self) == nil } ?? 0) + 1
      problems.append(
        ConfProblem(
          .confSyntax, at: ConfPlace(file: path, line: line, column: 1), "this line is not UTF-8",
          hint: "save the file as UTF-8"))
    } catch {
      problems.append(unreadable(path, "\(error)"))
    }
    return nil
  }

  /// Returns a problem if the current user may not read a file, or not even see whether it exists; otherwise nil.
  static func barred(_ path: String) -> ConfProblem? {
    guard faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0, errno == EACCES else { return nil }
    let user = Account(user: Account.current)?.name ?? "number \(Account.current)"
    return ConfProblem(
      .confMissing, at: ConfPlace(file: path), "cannot be read: user \(user) may not",
      hint: "run as root or as the daemon's user, or let a group of \(user) read it and enter its folders",
      isBarred: true)
  }

  // Returns a problem if every user may write the file, or may replace it in its folder.
  private static func openToAll(_ path: String, isAlone: Bool) -> ConfProblem? {
    var info = stat()
    if stat(path, &info) == 0, info.st_mode & S_IWOTH != 0 {
      return ConfProblem(
        .confUnsafe, at: ConfPlace(file: path), "every user of this machine may write this file",
        hint: "look whether it was changed, then: chmod o-w \(path)")
    }
    let folder = Folder.parent(of: path)
    guard stat(folder, &info) == 0, info.st_mode & S_IWOTH != 0 else { return nil }
    // With the sticky bit, as in /tmp, other users cannot replace the file, but they can add one.
    if isAlone, info.st_mode & S_ISVTX != 0 { return nil }
    return ConfProblem(
      .confUnsafe, at: ConfPlace(file: path), "every user of this machine may put another file into its folder",
      hint: "look whether it was changed, then: chmod o-w \(folder)")
  }

  // The owner of a conf file must be root, this user, or the owner of the folder.
  private static func strangersNotice(_ path: String, folderOwner: UInt32?) -> String? {
    guard let owner = Folder.owner(path)?.user, owner != 0, owner != Account.current, owner != folderOwner else {
      return nil
    }
    let name = Account(user: owner)?.name ?? "number \(owner)"
    return
      "\(path): belongs to user \(name), who may change what the daemon does; chown root \(path) if that is not meant"
  }

  // Opening a file such as a pipe would block forever.
  private static func isRegular(_ path: String) -> Bool {
    var info = stat()
    return stat(path, &info) != 0 || info.st_mode & S_IFMT == S_IFREG
  }

  private static func contents(_ path: String) throws(FileError) -> [UInt8] {
    let file = try File(path, .read)
    var bytes = [UInt8](repeating: 0, count: Int(min(try file.size, bytesMax + 1)))
    var failure: FileError?
    let count = bytes.withUnsafeMutableBytes { buffer in
      do throws(FileError) { return try file.read(into: buffer, at: 0) } catch {
        failure = error
        return 0
      }
    }
    if let failure { throw failure }
    return Array(bytes.prefix(count))
  }

  private static func unreadable(_ path: String, _ reason: String) -> ConfProblem {
    ConfProblem(
      .confMissing, at: ConfPlace(file: path), "cannot be read: \(reason)",
      hint: "let the user of the daemon read it, and give it less than 1 MiB")
  }

  /// Returns the name of the database whose password is in a file, such as `database.NAME`; nil for any other file. The
  /// file of the token of `[metrics]` has the name `metrics.token`, which no database can have.
  ///
  /// Source: https://www.freedesktop.org/software/systemd/man/252/systemd.exec.html#LoadCredential=ID:PATH
  private static func database(_ file: String, isService: Bool) -> String? {
    for prefix in ["database.", "database_"] where file.hasPrefix(prefix) {
      return String(file.dropFirst(prefix.count))
    }
    if isService, file == Configuration.Metrics.credential { return file }
    return isService || file.hasPrefix(".") ? nil : file
  }

  /// Returns the passwords in the files of a folder, by database name.
  private static func credentials(
    in folder: String, isService: Bool, _ problems: inout [ConfProblem]
  ) -> [String: ConfCredential] {
    var found: [String: ConfCredential] = [:]
    for file in names(in: folder, &problems) where !Folder.isFolder("\(folder)/\(file)") {
      guard let name = database(file, isService: isService) else { continue }
      let path = folder + "/" + file
      if let problem = openToAll(path, isAlone: false) {
        problems.append(problem)
        continue
      }
      do throws(FileError) {
        var secret = String(decoding: try contents(path), as: UTF8.self)
        if secret.hasSuffix("\n") { secret.removeLast() }
        found[name] = ConfCredential(path: path, secret: secret)
      } catch { problems.append(unreadable(path, "\(error)")) }
    }
    return found
  }

  private static func names(in folder: String, _ problems: inout [ConfProblem]) -> [String] {
    guard Folder.isFolder(folder) else { return [] }
    do throws(FileError) { return try Folder.names(folder) } catch {
      problems.append(unreadable(folder, "\(error)"))
      return []
    }
  }
}
