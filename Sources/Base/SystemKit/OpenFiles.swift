/// The processes that have a file open, as proc(5) shows them.
///
///     OpenFiles.processes(of: "/srv/prices.db")   // [4711]
package enum OpenFiles {
  /// Returns the numbers of the processes that have a file open, including this one, sorted. Only root sees the files of
  /// the processes of other users.
  package static func processes(of path: String) -> [Int32] {
    guard let wanted = FileIdentity(path: path) else { return [] }
    let processes = ((try? Folder.names("/proc")) ?? []).compactMap { Int32($0) }
    return processes.filter { process in
      let folder = "/proc/\(process)/fd"
      return ((try? Folder.names(folder)) ?? []).contains { FileIdentity(path: "\(folder)/\($0)") == wanted }
    }.sorted()
  }
}
