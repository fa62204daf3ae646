import Changes
import Configuring
import SystemKit

/// Checks whether the daemon's user can access the files and folders of the configuration.
extension ConfCheck {
  /// Checks the access to the state folder, the control socket, the conf files and the passwords.
  func checkPlaces() {
    attempt(checkState)
    attempt(checkGroup)
    for file in loaded.files {
      guard let account, let place = FileRights.read.obstacle(at: file, for: account) else { continue }
      fail(
        CairnError(
          .confMissing, "user \(account.name) cannot read \(file)\(place == file ? "" : ": \(place) denies access")",
          hint: """
            let a group that \(account.name) is in \(place == file ? "read" : "enter") it: chgrp GROUP \(place) && chmod \
            \(place == file ? "g+r" : "g+x") \(place)
            """))
    }
    for file in loaded.credentialFiles {
      guard let mode = Folder.owner(file)?.mode, mode & 0o077 != 0 else { continue }
      note("\(file) contains a password, and other users than its owner may read it: run chmod 600 \(file)")
    }
  }

  private func checkState() throws {
    let state = configuration.node.state
    guard Folder.exists(state) else {
      note("the state folder \(state) does not exist yet; the daemon creates it at its start if it has the right")
      return try checkRoom(Folder.parent(of: state))
    }
    guard Folder.isFolder(state) else { throw unusable("it is not a folder", "set a folder as state in [node]") }
    if let account, let place = FileRights([.read, .write, .enter]).obstacle(at: state, for: account) {
      throw unusable("user \(account.name) cannot enter \(place)", "run: chown -R \(account.name) \(place)")
    }
    try checkRoom(state)
  }

  private func unusable(_ why: String, _ hint: String) -> CairnError {
    CairnError(.stateUnwritable, "the state folder \(configuration.node.state) cannot be used: \(why)", hint: hint)
  }

  private func checkRoom(_ path: String) throws {
    guard let limit = configuration.limits.diskBytes, let free = Folder.freeBytes(path), free < limit else { return }
    note("[limits] disk is \(limit >> 20) MiB, and the file system of \(path) has \(free >> 20) MiB free")
  }

  private func checkGroup() throws {
    guard let group = configuration.control.group, !Account.hasGroup(group) else { return }
    throw CairnError(
      .confValue, "the group '\(group)' of [control] does not exist",
      hint: "run 'groupadd --system \(group)', or name another group", remedy: .badInput)
  }

  /// Checks that the daemon's user may write an SQLite file, its folder, and the files `-wal` and `-shm`.
  ///
  /// - Parameter mayBeMissing: Whether to check the folder even if the file does not exist yet.
  func checkRights(ofDatabase path: String, mayBeMissing: Bool) throws {
    guard let account else { return }
    let folder = Folder.parent(of: path)
    if let place = FileRights.enter.obstacle(at: folder, for: account) { throw barred(path, place, account) }
    let files = ["", "-wal", "-shm"].map { path + $0 }.filter(Folder.exists)
    if files.isEmpty, !mayBeMissing { return }
    for file in files {
      guard let place = FileRights([.read, .write]).obstacle(at: file, for: account) else { continue }
      throw barred(file, place, account)
    }
    if let place = FileRights([.write, .enter]).obstacle(at: folder, for: account) {
      throw barred(folder, place, account)
    }
  }

  private func barred(_ path: String, _ place: String, _ account: Account) -> CairnError {
    let isWay = place != path
    return CairnError(
      .databaseReadOnly,
      "user \(account.name) cannot write \(path)\(isWay ? ": \(place) denies access" : "")",
      hint: """
        let a group that \(account.name) is in \(isWay ? "enter" : "write") it: chgrp GROUP \(place) && chmod \
        \(isWay ? "g+x" : Folder.isFolder(place) ? "g+rwxs" : "g+rw") \(place)
        """, context: ["file": path])
  }
}
