/// Every section and option of a conf: parser, defaults, checks, `cairn config`, `docs/configuration.md`,
/// `cairn.toml(5)` and the reference `conf/cairn.toml` are all made from it.
package enum OptionTable {
  package struct Section: Sendable {
    /// How it is headed.
    package enum Form: Sendable {
      /// `[limits]`
      case single
      /// `[capture.NAME]`
      case named
      /// `[[apply.NAME.table]]`: any number of them, in the order of the conf.
      case list(of: String)
    }

    package let key: String
    package let form: Form
    package var isRequired = false
    package var since = "0.1.0"
    /// One line without a full stop.
    package let help: String
    /// Paragraphs.
    package var details = ""
    /// A name for examples.
    package var example = ""
    /// Lines of the reference behind the section: another of the kind.
    package var more: [String] = []
    package var options: [Option] = []

    /// As people write it: `[capture.NAME]`.
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
    /// As it would be written; nil: what `absence` says.
    package let defaultText: String?
    /// What holds when it is left out and there is no default.
    package let absence: String
    /// Why it is refused, where it is.
    package let isSupported: Bool
    /// The option in whose place it stands, where both would be too much.
    package let alternative: String?
    package let since: String
    /// One line without a full stop.
    package let help: String
    /// Sentences behind it.
    package let details: String
    /// As it would be written, other than the default.
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

  /// In the order of the documents.
  package static let sections: [Section] = [
    node, database, capture, apply, table, pump, receive, peer, limits, metrics, control, log,
  ]

  /// The sections that stand by themselves, by key.
  static func section(_ key: String) -> Section? {
    sections.first { section in
      if case .list = section.form { return false }
      return section.key == key
    }
  }
}
