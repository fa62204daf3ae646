import Changes
import SystemKit
import Trails

/// The request for a refresh of all tables of a trail, for the target of one apply. It is stored in a file, so that it
/// survives a crash.
///
///     let request = CopyRequest(state: state, apply: "shop")
///     try request.ask()
///     try request.isPending()   // true
package struct CopyRequest {
  /// A request for a refresh of all tables of a trail.
  ///
  ///     let asked = CopyRequest.Asked(try Trail.info(folder: folder))
  package struct Asked: Equatable, Sendable {
    /// The last transaction in the trail when the request was made. A refresh that began before this transaction does
    /// not satisfy the request.
    package var behind: UInt64
    /// The end of the trail when the request was made. Apply starts here if the target has no checkpoint; nil for the
    /// beginning of the trail.
    package var at: Checkpoint?
    /// Whether apply has found a checkpoint in the target since the request. If apply later finds none, the target was
    /// replaced.
    package var isBegun = false

    package init(_ info: TrailInfo) { (behind, at) = (info.lastTransaction, info.end) }
    package init(behind: UInt64, at: Checkpoint? = nil, isBegun: Bool = false) {
      (self.behind, self.at, self.isBegun) = (behind, at, isBegun)
    }
  }

  private let folder: String
  private let path: String
  private static let pending = "pending"
  private static let begun = "begun"

  package init(state: String, apply: String) {
    folder = state + "/applies"
    path = "\(folder)/\(apply)"
  }

  /// Stores the request that the next run of the apply starts with a refresh of all tables.
  package func ask() throws { try write(Self.pending) }

  package func isPending() throws -> Bool { try text() == Self.pending }

  /// Returns the request; nil if there is none for this trail.
  package func asked(of trail: TrailID) throws -> Asked? {
    let words = try text().split(separator: " ").map(String.init)
    guard words.count >= 2, words[0] == trail.description, let behind = UInt64(words[1]), NumberBounds.isNumber(behind)
    else { return nil }
    var asked = Asked(behind: behind)
    if words.count >= 4, let position = Position(words[2]), let chain = ChainHash(hex: words[3]) {
      asked.at = Checkpoint(trail: trail, position: position, chain: chain)
    }
    asked.isBegun = words.last == Self.begun
    return asked
  }

  package func note(_ asked: Asked, of trail: TrailID) throws {
    var words = [trail.description, "\(asked.behind)"]
    if let at = asked.at { words += [at.position.description, at.chain.description] }
    if asked.isBegun { words.append(Self.begun) }
    try write(words.joined(separator: " "))
  }

  private func text() throws -> String { try Self.read(path) }

  private func write(_ text: String) throws {
    do {
      try Folder.create(folder)
      try Array(text.utf8).withUnsafeBytes { try File.replace(path, with: $0) }
    } catch let error as FileError { throw error.asCairnError(doing: "write the state of an apply") }
  }

  private static func read(_ path: String) throws -> String {
    guard Folder.exists(path) else { return "" }
    do throws(FileError) { return try File.text(path) } catch {
      throw error.asCairnError(doing: "read the state of an apply")
    }
  }

  // MARK: Requests to a capture

  private static func capturePath(_ trailFolder: String) -> String { trailFolder + "/copy" }

  /// Stores the request that the next run of the capture starts a refresh of all tables. If PostgreSQL has lost the
  /// slot, that run also creates a new one.
  package static func askCapture(_ trailFolder: String) throws {
    do { try [].withUnsafeBytes { try File.replace(capturePath(trailFolder), with: $0) } } catch let error as FileError
    {
      throw error.asCairnError(doing: "ask for a copy")
    }
  }

  package static func isAskedOfCapture(_ trailFolder: String) -> Bool { Folder.exists(capturePath(trailFolder)) }

  package static func settleCapture(_ trailFolder: String) { try? Folder.remove(capturePath(trailFolder)) }
}
