import Glibc

/// Other programs that this process runs, such as `usermod`.
///
///     try Program.run(["usermod", "-aG", "pos", "cairn"])
package enum Program {
  /// How a program ended: the exit status (128 plus its number for a signal), and the end of what it printed.
  package struct Outcome: Equatable, Sendable {
    package var status: Int32
    package var output: String
  }

  private static let outputBytesMax = 16 << 10
  private static let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]

  /// Runs a program without a shell, and waits for its end: posix_spawn(3). Its input is empty, its environment has
  /// only `PATH`, with the folders of the system, and `LC_ALL=C`.
  ///
  /// - Parameter words: The name of the program, which is in one of these folders, and its arguments.
  /// - Throws: ENOENT if there is no such program.
  package static func run(_ words: [String]) throws(FileError) -> Outcome {
    func failure(_ code: Int32, _ operation: String) -> FileError {
      FileError(code: code, operation: operation, path: words.first ?? "")
    }
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { throw failure(errno, "pipe for") }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { _ = close(ends[0]) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    for descriptor in Int32(1)...2 { posix_spawn_file_actions_adddup2(&actions, ends[1], descriptor) }
    let file = folders.map { "\($0)/\(words.first ?? "")" }.first(where: Folder.exists) ?? words.first ?? ""
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    var environment: [UnsafeMutablePointer<CChar>?] = [
      strdup("PATH=\(folders.joined(separator: ":"))"), strdup("LC_ALL=C"), nil,
    ]
    defer { (arguments + environment).forEach { free($0) } }
    var process: pid_t = 0
    let code = posix_spawn(&process, file, &actions, nil, &arguments, &environment)
    _ = close(ends[1])
    guard code == 0 else { throw failure(code, "posix_spawn") }
    var output: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = read(ends[0], &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      output += buffer.prefix(count)
      if output.count > outputBytesMax { output.removeFirst(output.count - outputBytesMax) }
    }
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 {
      if errno != EINTR { throw failure(errno, "waitpid for") }
    }
    let signal = status & 0x7f
    return Outcome(
      status: signal == 0 ? (status >> 8) & 0xff : 128 + signal, output: String(decoding: output, as: UTF8.self))
  }
}
