import Changes

/// What becomes of what others than apply write to the target of a way that leads only there.
package enum LocalWrites: String, CaseIterable, Sendable {
  /// Apply stops where the target's row is not what the source says.
  case stop
  /// They stay; where the source writes to the same row, its row stands.
  case allow
  /// Whoever but apply writes gets an error.
  case refuse
  /// As ``allow``, until the next copy makes the table what the source has.
  case undo

  /// Whether apply goes on where a row is not what the source says.
  package var areSettled: Bool { self == .allow || self == .undo }
}

/// What becomes of them in each table: what the conf says.
package struct LocalWritesPlan: Equatable, Sendable {
  package struct Table: Equatable, Sendable {
    @ByBytes package var from: String
    /// Its name at the target, where the conf gives it another one.
    @ByBytes package var to: String? = nil
    package var writes: LocalWrites

    package init(from: String, to: String? = nil, _ writes: LocalWrites) {
      (self.from, self.to, self.writes) = (from, to, writes)
    }
  }

  package var whole: LocalWrites
  package var tables: [Table]

  package init(_ whole: LocalWrites = .stop, tables: [Table] = []) { (self.whole, self.tables) = (whole, tables) }

  /// Of a table by its name at the target, without the schema where that is `public`.
  package func writes(forTarget name: String) -> LocalWrites {
    TablePatterns.first(of: tables, forTarget: name) { $0.to ?? $0.from }?.writes ?? whole
  }

  /// Whether any table may have that.
  package func has(_ condition: (LocalWrites) -> Bool) -> Bool {
    condition(whole) || tables.contains { condition($0.writes) }
  }
}

extension TablePatterns {
  /// The first of what is said of tables by their names or patterns that is of the table which has this name at the
  /// target, in the words of either engine: one that names it counts before those with patterns.
  static func first<Said>(of all: [Said], forTarget name: String, meant: (Said) -> String) -> Said? {
    func isMeant(_ text: String) -> Bool {
      let joined = String(text.map { $0 == "." ? "_" : $0 })
      return TablePatterns([text]).includes(name) || TablePatterns([joined]).includes(name)
    }
    return all.first { !isPattern(meant($0)) && isMeant(meant($0)) }
      ?? all.first { isPattern(meant($0)) && isMeant(meant($0)) }
  }
}
