/// The table of all sections and options of a conf. Parser, defaults, checks and reference documents are made from it.
package enum OptionTable {
  package struct Section: Sendable {
    /// The form of a section's header in the file.
    package enum Form: Sendable {
      case single
      case named
      /// A section that may appear several times, such as `[[apply.NAME.table]]`.
      case list(of: String)
    }

    package let key: String
    package let form: Form
    package var isRequired = false
    package var since = "0.1.0"
    /// The description in one line, without a full stop.
    package let help: String
    /// The description in paragraphs, for the documents.
    package var details = ""
    /// The name of the section in examples.
    package var example = ""
    /// Lines for a second example of the section in the reference configuration.
    package var more: [String] = []
    package var options: [Option] = []

    /// The header of the section, such as `[capture.NAME]`.
    package var title: String {
      switch form {
      case .single: "[\(key)]"
      case .named: "[\(key).NAME]"
      case .list(let parent): "[[\(parent).NAME.\(key)]]"
      }
    }
  }

  package struct Option: Sendable {
    package let key: String
    package let kind: OptionKind
    package let isRequired: Bool
    /// The default as a conf would have it; nil if there is none.
    package let defaultText: String?
    /// The behavior if the option is missing and has no default.
    package let absence: String
    /// Whether this version supports the option. A reserved option of a later version is an error in a conf.
    package let isSupported: Bool
    /// An option that must not be set together with this one; nil if there is none.
    package let alternative: String?
    package let since: String
    /// The description in one line, without a full stop.
    package let help: String
    /// The sentences that follow `help` in the documents.
    package let details: String
    /// An example of the value, other than the default.
    package let example: String

    init(
      _ key: String, _ kind: OptionKind, required: Bool = false, default defaultText: String? = nil,
      absence: String = "", supported: Bool = true, insteadOf alternative: String? = nil, since: String = "0.1.0",
      _ help: String, details: String = "", example: String
    ) {
      (self.key, self.kind, self.isRequired, self.defaultText) = (key, kind, required, defaultText)
      (self.absence, self.isSupported, self.alternative, self.since) = (absence, supported, alternative, since)
      (self.help, self.details, self.example) = (help, details, example)
    }
  }

  /// All sections, in the order of the documents.
  package static let sections: [Section] = [
    node, database, capture, trail, apply, table, snapshot, pump, receive, peer, limits, metrics, control, log,
  ]

  /// Returns the section with this name, such as `capture`; nil if there is none, or if the section may appear several
  /// times.
  static func section(_ key: String) -> Section? {
    sections.first { section in
      if case .list = section.form { return false }
      return section.key == key
    }
  }
}
