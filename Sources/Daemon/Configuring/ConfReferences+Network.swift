import Changes

// Checks of the trails in [pump], [receive] and [peer], and of references between these sections.
extension ConfReferences {
  mutating func checkNetwork() {
    for pump in pumps { checkPump(pump) }
    checkPumpsTwice()
    if let receive { checkReceive(receive) }
    for trail in trails { checkHistory(trail) }
    for peer in peers {
      guard let may = peer.grants("may") else { continue }
      for name in TrailPatterns(may.pull).names { checkSource(name, peer.place("may"), for: peer.source.title) }
    }
    if receive == nil, let peer = peers.first {
      notices.append(
        "\(peer.source.place): \(peer.source.title) has no effect, as there is no [receive]")
    }
  }

  mutating func checkOwn(_ trail: TrailName, _ node: String, at place: ConfPlace, as key: String) {
    guard isWhole, !captures.contains(where: { $0.source.name == trail.name }) else { return }
    let names = captures.map(\.source.name)
    let near = trail.name.nearest(in: names) ?? (names.count == 1 ? names[0] : nil)
    let mend = near.map { "write \(key) = \"\(node).\($0)\", or add" } ?? "add"
    add(
      place, "no capture writes trail \(trail): there is no [capture.\(trail.name)]",
      "\(mend) a section [capture.\(trail.name)]")
  }

  /// Adds a problem unless this node receives the trail: a pump of this node fetches it, or a peer may push it.
  mutating func checkComes(_ trail: TrailName, _ place: ConfPlace, for title: String) {
    guard isWhole, !awaitsPeers else { return }
    let isFetched = pumps.contains { pump in
      pump.text("from") != nil && TrailPatterns(pump.list("trail") ?? []).includes(trail)
    }
    // The section's own check reports problems within it.
    let isUnread = pumps.contains { !$0.wrong.isEmpty } || peers.contains { !$0.wrong.isEmpty }
    let isPushed = peers.contains { TrailPatterns($0.grants("may")?.push ?? []).includes(trail) }
    guard !isFetched, !isPushed, !isUnread else { return }
    add(
      place, "trail \(trail) comes from node \(trail.origin), and nothing brings it to this one",
      "add [pump.NAME] with trail = \"\(trail)\" and from = URL, or [peer.\(trail.origin)] with may = { push = [\"\(trail)\"] }"
    )
  }

  // A section [trail.NAME] of a trail that is not here would have no effect.
  private mutating func checkHistory(_ section: ReadSection) {
    guard let node else { return }
    let (name, place) = (section.source.name, section.source.place)
    guard let trail = TrailName(name) else {
      guard isWhole, !captures.contains(where: { $0.source.name == name }) else { return }
      let near = name.nearest(in: captures.map(\.source.name)).map { "write [trail.\($0)], or " } ?? ""
      add(
        place, "no capture writes trail \(node).\(name): there is no [capture.\(name)]",
        "\(near)write [trail.\"NODE.\(name)\"] for a received trail")
      return
    }
    if trail.origin == node {
      add(.confValue, place, "trail \(trail) is written on this node", "write [trail.\(trail.name)]")
    } else {
      checkComes(trail, place, for: section.source.title)
    }
  }

  private mutating func checkSource(_ name: String, _ place: ConfPlace, for title: String) {
    guard let trail = TrailName(name), let node else { return }
    if trail.origin == node {
      checkOwn(trail, node, at: place, as: "trail")
    } else {
      checkComes(trail, place, for: title)
    }
  }

  private mutating func checkPump(_ pump: ReadSection) {
    let (to, from) = (pump.text("to"), pump.text("from"))
    let isUnread = pump.wrong["to"] != nil || pump.wrong["from"] != nil
    let title = pump.source.title
    if to != nil, from != nil {
      add(
        .confTwice, pump.place("from"), "\(title) has both 'to' and 'from'",
        "remove one of them; the other direction needs its own [pump.NAME]")
    } else if to == nil, from == nil, !isUnread {
      add(
        .confMissing, pump.source.place, "\(title) has neither 'to' nor 'from'",
        "add to = \"https://hq.example:7420\", or from")
    }
    guard let url = (to ?? from).flatMap({ PeerURL($0) }) else { return }
    let place = pump.place(to != nil ? "to" : "from")
    if !url.isTLS, !url.isLoopback, pump.flag("insecure") != true {
      add(
        .confValue, place, "\(url) is plain HTTP to another machine",
        "write https://, or insecure = true if the network in between is protected by other means")
    }
    if !url.isTLS, pump.values["tls"] != nil {
      add(
        .confValue, pump.place("tls"), "\(title) has certificates, but its URL is http://",
        "write https://, or remove tls")
    }
    for name in TrailPatterns(pump.list("trail") ?? []).names {
      let isOwn = TrailName(name).map { $0.origin == node } ?? false
      if to != nil {
        checkSource(name, pump.place("trail"), for: title)
      } else if isOwn {
        add(
          pump.place("trail"), "trail \(name) is written on this node, so it cannot be pulled",
          "write 'to' instead of 'from', or name a trail of the other node")
      }
    }
  }

  private mutating func checkPumpsTwice() {
    var first: [String: ReadSection] = [:]
    for pump in pumps {
      let way = pump.text("to") != nil ? "to" : "from"
      guard let url = pump.text(way).flatMap({ PeerURL($0) }) else { continue }
      for name in TrailPatterns(pump.list("trail") ?? []).names {
        guard let other = first.updateValue(pump, forKey: "\(way) \(url) \(name)") else { continue }
        add(
          .confTwice, pump.place("trail"),
          "trail \(name) is already transferred this way by \(other.source.title) at \(other.source.place)",
          "take one of the two out")
      }
    }
  }

  private mutating func checkReceive(_ receive: ReadSection) {
    if receive.flag("insecure") == true, receive.values["tls"] != nil {
      add(
        .confValue, receive.place("insecure"), "[receive] has certificates, and insecure = true would not use them",
        "remove insecure, or tls")
    }
    guard let listen = receive.text("listen"), let other = metrics?.text("listen"), listen == other else { return }
    add(
      .confTwice, receive.place("listen"),
      "[metrics] listens on \(listen) already, at \(metrics?.place("listen").description ?? "")",
      "give one of the two another port: 7420 is usual here, and 7421 for [metrics]")
  }
}
