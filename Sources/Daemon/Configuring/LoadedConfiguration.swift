import Changes

/// A configuration file with its content.
///
///     ConfFile(path: "/etc/cairn/cairn.toml", text: "[node]\nname = \"till\"\n")
package struct ConfFile: Sendable {
  package var path: String
  package var text: String

  package init(path: String, text: String) { (self.path, self.text) = (path, text) }
}

/// A password that was read from a file of its own.
package struct ConfCredential: Sendable {
  package var path: String
  package var secret: String

  package init(path: String, secret: String) { (self.path, self.secret) = (path, secret) }
}

/// All files of a configuration, read and checked, with the resulting configuration or all problems.
package struct LoadedConfiguration: Sendable {
  /// The use of an expression in a rule, which determines the values that the expression can read.
  package enum ExpressionUse: Sendable {
    case ofRow
    /// The expression reads one row, and results in the value of a column.
    case ofColumn
    /// The expression reads two versions of a row, and resolves the conflict of one column, or of the row if
    /// `isOfRows`.
    case ofConflict(isOfRows: Bool)
  }

  /// A function that returns an error if an expression is invalid, whatever its table is; otherwise nil.
  package typealias ExpressionFault = (_ text: String, _ use: ExpressionUse) -> String?

  /// The configuration; nil if there are problems.
  package let configuration: Configuration?
  /// The settings in force, in the order of the table of options.
  package let settings: [Setting]
  package let problems: [ConfProblem]
  /// The paths of the configuration files, without the files of passwords.
  package let files: [String]
  package let credentialFiles: [String]
  /// Warnings about settings that are valid, but probably not intended.
  package let notices: [String]
  /// The options by which a running daemon is found, known even if the conf has problems.
  package let place: DaemonPlace
  /// The databases with the captures and applies that use them, known even if the conf has problems.
  package let databases: [UsedDatabase]

  /// Parses and checks a configuration, without reading from the disk.
  ///
  /// - Parameter files: the files, in the order in which they are merged.
  /// - Parameter credentials: the passwords by the name of the database.
  /// - Parameter unreadable: problems that occurred while reading the files.
  /// - Parameter notices: notices from reading the files.
  /// - Parameter awaitsPeers: whether sections of peers that push trails may be added later.
  /// - Parameter fileIdentity: returns the same text for all paths of one database file.
  /// - Parameter expressionFault: checks the expressions of rules.
  /// - Parameter environment: returns the value of an environment variable.
  package init(
    files: [ConfFile], credentials: [String: ConfCredential] = [:], unreadable: [ConfProblem] = [],
    notices: [String] = [], awaitsPeers: Bool = false, fileIdentity: @escaping (String) -> String = { $0 },
    expressionFault: @escaping ExpressionFault = { _, _ in nil }, environment: @escaping (String) -> String?
  ) {
    var problems = unreadable
    var collector = SectionCollector()
    var isWhole = unreadable.isEmpty
    for file in files {
      do throws(TomlDocument.Failure) { collector.add(try TomlDocument(file.text, file: file.path).root) } catch {
        problems.append(SyntaxProblem.of(error, in: file.text))
        isWhole = false
      }
    }
    var reader = OptionReader(environment: environment, expressionFault: expressionFault)
    let sections = collector.sections.map { ReadSection($0, &reader) }
    problems += collector.problems + reader.problems
    let references = ConfReferences(
      sections, isWhole: isWhole, awaitsPeers: awaitsPeers, fileIdentity: fileIdentity)
    problems += references.problems
    let token = credentials[Configuration.Metrics.credential]
    let listener = sections.first { $0.source.section.key == "metrics" }
    if let token, let problem = MetricsToken.problem(token) { problems.append(problem) }
    for section in OptionTable.sections where section.isRequired && isWhole {
      if !sections.contains(where: { $0.source.section.key == section.key }), let main = files.first {
        let option = section.options[0]
        problems.append(
          ConfProblem(
            .confMissing, at: ConfPlace(file: main.path), "there is no section \(section.title)",
            hint: "add \(section.title) with \(option.key) = \(option.example)"))
      }
    }
    let order = Dictionary(files.enumerated().map { ($1.path, $0) }) { first, _ in first }
    self.problems = problems.sorted { a, b in
      let (x, y) = (order[a.place.file] ?? -1, order[b.place.file] ?? -1)
      return x == y ? a.place < b.place : x < y
    }
    configuration =
      problems.isEmpty ? Configuration(sections, secrets: credentials.mapValues(\.secret)) : nil
    settings = Setting.all(sections, credentials)
    place = DaemonPlace(files, environment: environment)
    databases = UsedDatabase.all(sections)
    self.files = files.map(\.path)
    credentialFiles = credentials.values.map(\.path).sorted()
    let names = sections.filter { $0.source.section.key == "database" }.map(\.source.name)
    let withoutLogin = sections.filter { $0.text("url")?.hasPrefix("sqlite:") == true }.map(\.source.name)
    self.notices =
      notices + references.notices + MetricsToken.notices(token, listener, isWhole: isWhole)
      + credentials.filter { withoutLogin.contains($0.key) }.map(\.value.path).sorted().map {
        "\($0) is a password for an SQLite file, which needs none"
      }
      + credentials.filter { isWhole && !names.contains($0.key) && $0.key != Configuration.Metrics.credential }.map(
        \.value.path
      ).sorted().map {
        "\($0) is a password for a database that the conf does not have"
      }
  }

  /// Returns the configuration, or throws the first problem with the number of all others.
  package func get() throws(CairnError) -> Configuration {
    if let configuration { return configuration }
    guard let first = problems.first?.error else {
      throw CairnError(.bug, "a conf without problems gave no configuration", hint: "please report this", remedy: .bug)
    }
    let more = problems.count - 1
    throw CairnError(
      first.code, first.message + (more == 0 ? "" : "; \(more) more in this conf"),
      hint: first.hint + (more == 0 ? "" : "; 'cairn check --config' lists all"), remedy: .badInput,
      context: first.context)
  }
}
