import Changes

/// The treatment of the target's rows that an application has changed, in one-way replication.
package enum LocalWrites: String, CaseIterable, Sendable {
  /// Apply stops if the target's row differs from what the source expects.
  case stop
  /// Writes of applications stay. If the source changes the same row, the source's row wins.
  case allow
  /// Applications cannot write to the table: they get an error.
  case refuse
  /// Writes of applications stay, as with ``allow``, until the next copy restores the rows of the source.
  case undo

  /// Whether apply continues if a target's row differs from what the source expects.
  package var areSettled: Bool { self == .allow || self == .undo }
}

/// The configured reactions to writes of applications at the target: one for all tables, and others for listed tables.
package struct LocalWritesPlan: Equatable, Sendable {
  package struct Table: Equatable, Sendable {
    @ByBytes package var from: String
    /// The name that the table has at the target; nil if it is not renamed.
    @ByBytes package var to: String? = nil
    package var writes: LocalWrites

    package init(from: String, to: String? = nil, _ writes: LocalWrites) {
      (self.from, self.to, self.writes) = (from, to, writes)
    }
  }

  package var whole: LocalWrites
  package var tables: [Table]

  package init(_ whole: LocalWrites = .stop, tables: [Table] = []) { (self.whole, self.tables) = (whole, tables) }

  /// Returns how apply treats rows of a target table that applications have changed.
  /// - Parameter name: the name of the table, with its schema unless that is `public`.
  package func writes(forTarget name: String) -> LocalWrites {
    TablePatterns.first(of: tables, forTarget: name) { $0.to ?? $0.from }?.writes ?? whole
  }

  /// Returns whether the setting of the whole plan, or of any listed table, satisfies the condition.
  package func has(_ condition: (LocalWrites) -> Bool) -> Bool {
    condition(whole) || tables.contains { condition($0.writes) }
  }
}

extension TablePatterns {
  /// Returns the setting for a table; nil if there is none. A setting with the table's exact name is preferred to a
  /// setting with a pattern. If several settings match equally, the first one counts.
  ///
  /// - Parameter name: The table's name at the target, in the form of either engine.
  /// - Parameter meant: Returns the name or pattern of a setting.
  static func first<Said>(of all: [Said], forTarget name: String, meant: (Said) -> String) -> Said? {
    func isMeant(_ text: String) -> Bool {
      let joined = String(decoding: text.utf8.map { $0 == UInt8(ascii: ".") ? UInt8(ascii: "_") : $0 }, as: UTF8.self)
      return TablePatterns([text]).includes(name) || TablePatterns([joined]).includes(name)
    }
    return all.first { !isPattern(meant($0)) && isMeant(meant($0)) }
      ?? all.first { isPattern(meant($0)) && isMeant(meant($0)) }
  }
}
