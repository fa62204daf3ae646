import Changes

/// The treatment of rows that an application has changed in the target, in one-way replication.
package enum LocalWrites: String, CaseIterable, Sendable {
  /// Apply stops at a change if the target's row is not equal to the source's row from before that change.
  case stop
  /// Changes of applications stay until the source changes the same row.
  case allow
  /// Applications that write to the table get an error.
  case refuse
  /// Changes of applications stay until the next refresh, which restores the rows of the source.
  case undo

  /// Whether apply continues at a change if the target's row is not equal to the source's row from before that change.
  package var areSettled: Bool { self == .allow || self == .undo }
}

/// The configured treatment of applications' changes at the target, for all tables and for single ones.
///
///     let plan = LocalWritesPlan(.stop, tables: [.init(from: "log", .allow)])
///     plan.writes(forTarget: "log")   // .allow
package struct LocalWritesPlan: Equatable, Sendable {
  /// The treatment of applications' changes for one source table, or for all source tables that match a pattern.
  ///
  ///     LocalWritesPlan.Table(from: "log", .allow)
  package struct Table: Equatable, Sendable {
    @ByBytes package var from: String
    /// The name of the table at the target; nil if unchanged.
    @ByBytes package var to: String? = nil
    package var writes: LocalWrites

    package init(from: String, to: String? = nil, _ writes: LocalWrites) {
      (self.from, self.to, self.writes) = (from, to, writes)
    }
  }

  package var whole: LocalWrites
  package var tables: [Table]

  package init(_ whole: LocalWrites = .stop, tables: [Table] = []) { (self.whole, self.tables) = (whole, tables) }

  /// Returns the treatment of applications' changes in a target table.
  /// - Parameter name: The name of the table, with its schema unless that is `public`.
  package func writes(forTarget name: String) -> LocalWrites {
    TablePatterns.first(of: tables, forTarget: name) { $0.to ?? $0.from }?.writes ?? whole
  }

  /// Returns whether any treatment in the plan satisfies the condition.
  package func has(_ condition: (LocalWrites) -> Bool) -> Bool {
    condition(whole) || tables.contains { condition($0.writes) }
  }
}

extension TablePatterns {
  /// Returns the setting for a table; nil if there is none. A setting with the exact name has precedence over patterns,
  /// and an earlier pattern over a later pattern.
  /// - Parameter name: The table's name at the target, in the form of either engine.
  /// - Parameter meant: A function that returns the name or pattern of a setting.
  static func first<Said>(of all: [Said], forTarget name: String, meant: (Said) -> String) -> Said? {
    func isMeant(_ text: String) -> Bool {
      let bare = "public."
      // The table's name has no `public.`, which the setting may have.
      if text.utf8.starts(with: bare.utf8), TablePatterns([String(text.dropFirst(bare.count))]).includes(name) {
        return true
      }
      let joined = String(decoding: text.utf8.map { $0 == UInt8(ascii: ".") ? UInt8(ascii: "_") : $0 }, as: UTF8.self)
      return TablePatterns([text]).includes(name) || TablePatterns([joined]).includes(name)
    }
    return all.first { !isPattern(meant($0)) && isMeant(meant($0)) }
      ?? all.first { isPattern(meant($0)) && isMeant(meant($0)) }
  }
}
