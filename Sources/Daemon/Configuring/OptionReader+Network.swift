import Changes

// Options of [pump], [receive] and [peer].
extension OptionReader {
  mutating func trails(_ node: TomlNode, _ option: OptionTable.Option) -> OptionValue? {
    switch node.value {
    case .string: return trailPattern(node, option.key, option).map { .list([$0]) }
    case .array: return trailPatterns(node, option.key, option).map { .list($0) }
    default: wrongType(node, option)
    }
    return nil
  }

  private mutating func trailPatterns(_ node: TomlNode, _ key: String, _ option: OptionTable.Option) -> [String]? {
    guard case .array(let elements) = node.value else {
      var mended = "[\"*\"]"
      if case .string(let text) = node.value { mended = "[\"\(text)\"]" }
      refuse(node.place, "\(key) is \(node.value.description), not a list of trails", "write \(key) = \(mended)")
      return nil
    }
    guard !elements.isEmpty else {
      refuse(node.place, "\(key) is empty", "name a trail or a pattern, or leave it out")
      return nil
    }
    let read = elements.map { trailPattern($0, key, option) }
    guard !read.contains(nil) else { return nil }
    let patterns = read.compactMap { $0 }
    guard patterns.contains(where: { !$0.hasPrefix("!") }) else {
      refuse(
        node.place, "\(key) only excludes trails",
        "write \(key) = [\"*\", \(patterns.map { "\"\($0)\"" }.joined(separator: ", "))], or name the trails to include"
      )
      return nil
    }
    return patterns
  }

  private mutating func trailPattern(_ node: TomlNode, _ key: String, _ option: OptionTable.Option) -> String? {
    guard let text = string(node, option, as: "a trail of \(key)", example: "\"store-042.pos\"") else { return nil }
    let pattern = text.hasPrefix("!") ? text.dropFirst() : text[...]
    let isPattern = TrailPatterns.isPattern(text)
    let isTrail = TrailName(String(pattern))?.isConfName ?? false
    let letters = pattern.replacing("*", with: "a").replacing("?", with: "a").replacing(".", with: "a")
    if isTrail || (isPattern && Self.isName(String(letters.prefix(63)))) { return text }
    refuse(
      node.place, "\"\(text)\" in \(key) is neither a trail, NODE.NAME, nor a pattern of trails",
      "write \"\(Self.mendedTrail(text))\", or another name of a node and a capture")
    return nil
  }

  private static func mendedTrail(_ text: String) -> String {
    let letters = text.lowercased().map { isName(String($0)) || ".*?!".contains($0) ? $0 : "-" }
    let name = String(letters)
    return name.contains(".") || TrailPatterns.isPattern(name) ? name : name.isEmpty ? "store-042.pos" : name + ".*"
  }

  /// Reads `{ certificate = "node.crt", key = "node.key", peers = "ca.crt" }`. Paths are relative to the folder of the
  /// conf file.
  mutating func files(_ node: TomlNode, _ option: OptionTable.Option) -> OptionValue? {
    guard let parts = parts(node, option, known: ["certificate", "key", "peers"]) else { return nil }
    var paths: [String: String] = [:]
    for part in parts {
      let name = "\(part.key) of \(option.key)"
      guard let text = string(part.node, option, as: name, example: "\(part.key) = \"\(part.key).pem\""),
        let path = nonEmpty(text, part.node.place, name)
      else { return nil }
      paths[part.key] = Self.absolute(path, beside: part.node.place.file)
    }
    guard let certificate = paths["certificate"], let key = paths["key"], let peers = paths["peers"] else {
      let missing = ["certificate", "key", "peers"].filter { paths[$0] == nil }
      add(
        .confMissing, node.place, "\(option.key) has no \(missing.joined(separator: ", "))",
        "write \(option.key) = \(option.example), or leave it out")
      return nil
    }
    return .files(Configuration.PeerFiles(certificate: certificate, key: key, peers: peers))
  }

  private static func absolute(_ path: String, beside file: String) -> String {
    guard !path.hasPrefix("/"), let slash = file.lastIndex(of: "/") else { return path }
    return file[...slash] + path
  }

  /// Reads grants, such as `{ push = ["store-042.*"], pull = ["hq.erp"] }`.
  mutating func grants(_ node: TomlNode, _ option: OptionTable.Option) -> OptionValue? {
    guard let parts = parts(node, option, known: ["push", "pull"]) else { return nil }
    guard !parts.isEmpty else {
      refuse(node.place, "\(option.key) grants nothing", Self.write(option))
      return nil
    }
    var lists: [String: [String]] = [:]
    for part in parts {
      guard let patterns = trailPatterns(part.node, part.key, option) else { return nil }
      lists[part.key] = patterns
    }
    return .grants(push: lists["push"] ?? [], pull: lists["pull"] ?? [])
  }

  private mutating func parts(
    _ node: TomlNode, _ option: OptionTable.Option, known: [String]
  ) -> [TomlEntry]? {
    guard case .table(let parts) = node.value else {
      wrongType(node, option)
      return nil
    }
    for part in parts where !known.contains(part.key) {
      let near = part.key.lowercased().nearest(in: known).map { "did you mean '\($0)'? " } ?? ""
      add(
        .confUnknown, part.keyPlace, "'\(part.key)' is not a part of '\(option.key)'",
        "\(near)there are \(known.joined(separator: ", "))")
      return nil
    }
    return parts
  }

  static func peerURLFault(_ text: String, _ option: OptionTable.Option) -> (String, String)? {
    if PeerURL(text) != nil { return nil }
    let (key, fault) = (option.key, "\(option.key) is \"\(URLPassword.hidden(in: text))\"")
    let lower = text.lowercased()
    guard lower.hasPrefix("https://") || lower.hasPrefix("http://") else {
      let rest = text.firstRange(of: "://").map { text[$0.upperBound...] } ?? text[...]
      let mended = "https://" + rest.prefix { $0 != "/" }
      let url = PeerURL(mended).map { "\"\($0)\"" } ?? option.example
      return ("\(fault), which is not the URL of a node", "write \(key) = \(url)")
    }
    if text.contains("@") {
      return (
        "\(fault): a node has no login in its URL", "write \(key) = \(option.example); certificates prove its name"
      )
    }
    let address = text.split(separator: "/", maxSplits: 3).prefix(2).joined(separator: "//")
    if let mended = PeerURL(address), mended.description != lower {
      return ("\(fault): a node has no path", "write \(key) = \"\(mended)\"")
    }
    return ("\(fault), which has no host and port", write(option))
  }
}
