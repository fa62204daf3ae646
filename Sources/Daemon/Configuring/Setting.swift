import Changes

/// An option with the value in force, and the place where that value was set.
package struct Setting: Equatable, Sendable {
  package enum Origin: Equatable, Sendable {
    case file(ConfPlace)
    case byDefault
    case wrong(ConfPlace)
    /// The value is a password or a token from the file with this path.
    case credential(String)
  }

  /// The header of the section, such as `[capture.pos]`.
  @ByBytes package var section: String
  @ByBytes package var key: String
  /// The value as TOML; nil if the option is not set and has no default.
  @ByBytes package var value: String? = nil
  package var origin: Origin
  /// The behavior of Cairn if the option has no value.
  @ByBytes package var absence: String

  /// Returns all settings: the options of the sections in the files, and the defaults of optional sections that no file
  /// has.
  static func all(_ sections: [ReadSection], _ credentials: [String: ConfCredential]) -> [Setting] {
    OptionTable.sections.flatMap { section -> [Setting] in
      let there = sections.filter { $0.source.section.key == section.key }
      if there.isEmpty, case .single = section.form, section.options.allSatisfy({ !$0.isRequired }) {
        return section.options.map { Setting(section.title, $0, nil) }
      }
      return there.sorted { $0.source.name < $1.source.name }.flatMap { read in
        var list = section.options.filter(\.isSupported).map { option in
          Setting(read.source.title, option, read.values[option.key], wrong: read.wrong[option.key])
        }
        let secrets = [
          "database": ("password", read.source.name), "metrics": ("token", Configuration.Metrics.credential),
        ]
        if let (key, name) = secrets[section.key], let credential = credentials[name] {
          list.append(
            Setting(
              section: read.source.title, key: key, value: "\"********\"", origin: .credential(credential.path),
              absence: ""))
        }
        return list
      }
    }
  }
}

extension Setting {
  fileprivate init(
    _ section: String, _ option: OptionTable.Option, _ entry: ReadSection.Entry?, wrong: ConfPlace? = nil
  ) {
    self.init(
      section: section, key: option.key, value: wrong == nil ? entry?.shown ?? option.defaultText : nil,
      origin: entry.map { .file($0.place) } ?? wrong.map { .wrong($0) } ?? .byDefault, absence: option.absence)
  }
}
