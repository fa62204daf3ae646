import Changes

extension ErrorCode {
  var confExplanation: Explanation {
    switch self {
    case .confSyntax:
      Explanation(
        "a conf file cannot be read as TOML",
        why: """
          The text breaks the rules of TOML at the place that the message names. Examples are text without quotes, an \
          open bracket, or a word in the place of a value. Nothing of that file was read, so that there may be more \
          to find; the other files were.
          """,
        what: [
          "Go to the file, line and column of the message; the hint says what to write there.",
          "Put text, durations and sizes into quotes: `disk = \"20 GiB\"`. Booleans and integers have none.",
          "Run `cairn check --config DIR` again.",
        ])
    case .confUnknown:
      Explanation(
        "a section or an option of the conf is unknown",
        why: """
          The message names the word and the place; the hint names the nearest that there is. An unknown option is \
          refused rather than ignored, since it was written for some purpose.
          """,
        what: [
          "Take the word of the hint, or take the line out.",
          "`man cairn.toml` and `docs/reference/configuration.md` list all sections and options.",
        ])
    case .confValue:
      Explanation(
        "an option of the conf has a value that it cannot have",
        why: """
          The value is of another type, out of range, without a unit, or none of the words that are allowed. The \
          message says what was found and what is allowed.
          """,
        what: [
          "Write what the hint says, or another value of the kind that the message names.",
          "`cairn config --markdown` prints what every option takes.",
        ])
    case .confTwice:
      Explanation(
        "the conf sets something twice",
        why: """
          An option appears twice in one section, in one file or in two, or two rules are for one table. The message \
          has both places. Neither of the two is taken, since Cairn cannot know which one is meant.
          """,
        what: [
          "Remove one of the two.",
          "Files are read in this order: `cairn.toml`, then `conf.d/*.toml` by name. A later one adds, it never replaces.",
        ])
    case .confMissing:
      Explanation(
        "something that the conf needs is missing",
        why: """
          A file cannot be read, an option without a default is left out, or a variable in `${...}` is not set for \
          the program.
          """,
        what: [
          "Add what the message names; the hint has an example.",
          """
          Variables of the daemon are those of its unit: `Environment=` or `EnvironmentFile=` in a drop-in. They \
          differ from those of your shell, in which `cairn check` runs.
          """,
          "Let the user of the daemon read the files and their folder.",
        ])
    case .confReference:
      Explanation(
        "two parts of the conf do not go together",
        why: """
          Sections do not fit together. A capture or an apply names a database without a section, or an apply names a \
          trail that no capture of this node makes. Or a database is captured twice, or one trail is applied to one \
          database twice.
          """,
        what: [
          "Compare the names: `[database.pos]` is named by `database = \"pos\"`, `[capture.pos]` makes `NODE.pos`.",
          "For several targets, give each an `[apply.NAME]` of its own with the same `trail`.",
        ])
    case .confSecret:
      Explanation(
        "a conf file holds a password",
        why: """
          Conf files are read by many, copied, and kept in repositories. So a password in a URL is refused, also one \
          that comes from a variable. The message does not repeat it.
          """,
        what: [
          "Remove the password from the URL.",
          """
          Give it to the service as a credential: \
          `LoadCredential=database.NAME:/etc/cairn/credentials/database.NAME`, a file that only root can read, with \
          the password as its only line.
          """,
          "Or use what libpq offers: a passfile (`?passfile=/...`), a service file, or a client certificate.",
          "Change the password if the file was readable for others.",
        ])
    case .confUnsafe:
      Explanation(
        "every user of the machine may write the conf",
        why: """
          A conf file, or a file with a password, has a mode that lets every user change it. The conf decides which \
          databases the daemon reads and writes, so the daemon does not start from such a file.
          """,
        what: [
          "Check that the file is still what you wrote.",
          "Remove the right: `chmod o-w FILE`. A conf has mode 644 or 640, a password 600.",
        ])
    default:
      Explanation(
        "the conf asks for something that this version does not have",
        why: """
          The word is right, but the feature comes with a later version. It is refused rather than ignored, so that \
          no conf relies on a missing feature.
          """,
        what: ["Take it out, or write what the hint says.", "`CHANGELOG.md` names the version that brings it."])
    }
  }
}
