import Foundation
import Glibc

/// A child process, without a thread or a descriptor of its own: Foundation's Process keeps some of both, and hundreds of
/// children are started here. For one thread.
package final class Child {
  package let processIdentifier: pid_t
  /// The wait status, once it has ended.
  private var ended: Int32?
  /// The resources that it and its own children used, once it has ended.
  package private(set) var usage = rusage()

  /// Starts `program` in `folder`; its input comes from a file, output and errors go to files.
  package init(
    _ program: String, _ arguments: [String], folder: String, environment: [String: String],
    input: String = "/dev/null",
    output: String, errors: String
  ) throws {
    var actions = posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawnattr_init(&attributes)
    defer {
      posix_spawn_file_actions_destroy(&actions)
      posix_spawnattr_destroy(&attributes)
    }
    posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    // The threads that run tests block signals, and a child would inherit that.
    var (none, all) = (sigset_t(), sigset_t())
    sigemptyset(&none)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
    var process: pid_t = 0
    // env becomes the program, in the folder.
    let code = Self.withArray(["env", "-C", folder, program] + arguments) { words in
      Self.withArray(environment.map { "\($0.key)=\($0.value)" }) { variables in
        posix_spawn(&process, "/usr/bin/env", &actions, &attributes, words, variables)
      }
    }
    guard code == 0 else { throw TestFailure("cannot start \(program): \(String(cString: strerror(code)))") }
    processIdentifier = process
  }

  deinit {
    signal(SIGKILL)
    waitUntilExit()
  }

  private static func withArray<T>(
    _ words: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> T
  ) -> T {
    let array = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: words.count + 1)
    for (index, word) in words.enumerated() { (array + index).initialize(to: strdup(word)) }
    (array + words.count).initialize(to: nil)
    defer {
      for index in words.indices { free(array[index]) }
      array.deallocate()
    }
    return body(array)
  }

  package var isRunning: Bool {
    guard ended == nil else { return false }
    var status: Int32 = 0
    guard wait4(processIdentifier, &status, WNOHANG, &usage) != 0 else { return true }
    ended = status
    return false
  }

  package func signal(_ number: Int32) { if isRunning { kill(processIdentifier, number) } }

  package func waitUntilExit() {
    guard ended == nil else { return }
    var status: Int32 = 0
    while wait4(processIdentifier, &status, 0, &usage) < 0, errno == EINTR {}
    ended = status
  }

  /// Waits for its end; one that takes longer than `seconds` is killed, which shows as its status.
  package func wait(seconds: Double) {
    let limit = Date().addingTimeInterval(seconds)
    while isRunning, Date() < limit { usleep(5000) }
    signal(SIGKILL)
    waitUntilExit()
  }

  /// The exit status, or 128 and the number of the signal that ended it.
  package var terminationStatus: Int32 {
    guard let ended else { return -1 }
    return ended & 0x7f == 0 ? ended >> 8 & 0xff : 128 + ended & 0x7f
  }
}
