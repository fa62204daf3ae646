import Changes
import Configuring
import Trails

/// Decides what leaves the conf with a peer, and what the operator has to remove by hand.
///
/// ```swift
/// let removal = PeerRemoval("store-042", settings: loaded.settings, configuration, trails: ["store-042.pos"])
/// removal.files   // ["/etc/cairn/conf.d/peer-store-042.toml"]
/// ```
package struct PeerRemoval: Equatable, Sendable {
  /// The files of the conf that have the section `[peer.NAME]` and nothing else.
  @ByBytes package private(set) var files: [String]
  /// Sentences about the rest that names the peer.
  @ByBytes package private(set) var left: [String] = []

  /// Decides.
  ///
  /// - Parameter configuration: The conf; nil if it does not load.
  /// - Parameter trails: The trails in the state folder.
  package init(_ name: String, settings: [Setting], _ configuration: Configuration?, trails: [TrailName]) {
    let title = "[peer.\(name)]"
    var sections: [NameKey: [String]] = [:]
    for setting in settings {
      guard let file = setting.file else { continue }
      sections[NameKey(file), default: []].append(setting.section)
    }
    func has(_ titles: [String]) -> Bool { titles.contains { $0.hasSameBytes(as: title) } }
    let named = sections.filter { has($0.value) }
    files = named.filter { $0.value.allSatisfy { $0.hasSameBytes(as: title) } }.keys.sorted().map(\.text)
    for (file, titles) in named.sorted(by: { $0.key < $1.key })
    where !titles.allSatisfy({ $0.hasSameBytes(as: title) }) {
      left.append("remove \(title) from \(file.text), which has other sections too")
    }
    guard let configuration else { return }
    for pump in configuration.pumps where pump.node.hasSameBytes(as: name) {
      left.append("[pump.\(pump.name)] leads to node \(name)")
    }
    let own = trails.filter { $0.origin.hasSameBytes(as: name) }
    for apply in configuration.applies {
      guard let trail = TrailName(apply.trail), trail.origin.hasSameBytes(as: name) else { continue }
      left.append("[apply.\(apply.name)] reads trail \(trail) of the node: rows that it applied stay in the database")
    }
    for trail in own.sorted(by: { $0.description < $1.description }) {
      left.append("trail \(trail) is in the state folder: remove its folder when no apply needs it")
    }
  }
}

extension Setting {
  fileprivate var file: String? {
    switch origin {
    case .file(let place), .wrong(let place): place.file
    case .byDefault, .credential: nil
    }
  }
}
