extension BrokenConf {
  static let all = syntax + keys + types + texts + references + network + conflicts

  private static let syntax = [
    BrokenConf(
      "", "[limits]\ndisk = 20 GiB\n", at: "13:11", .confSyntax, "not TOML", "disk = \"20 GiB\"",
      mend: ("20 GiB", "\"20 GiB\"")),
    BrokenConf(
      "name = \"hq\"", "name = hq", at: "2:8", .confSyntax, "not TOML", "name = \"hq\"", mend: ("= hq", "= \"hq\"")),
    BrokenConf(
      "name = \"hq\"", "name = \"hq", at: "2:11", .confSyntax, "not TOML", "close the quotes: name = \"hq\"",
      mend: ("\"hq\n", "\"hq\"\n")),
    BrokenConf(
      "name = \"hq\"", "name: \"hq\"", at: "2:5", .confSyntax, "expected '='", "write name = \"hq\"",
      mend: ("name:", "name =")),
    BrokenConf(
      "name = \"hq\"", "name =", at: "2:7", .confSyntax, "expected value", "write a value after name =",
      mend: ("name =", "name = \"hq\"")),
    BrokenConf("[node]", "[node", at: "1:6", .confSyntax, "expected ']'", "write [node]", mend: ("[node", "[node]")),
    BrokenConf(
      "", "[capture.b]\ndatabase = \"erp\"\ntables = [\"a\" \"b\"]\n", at: "14:15", .confSyntax, "comma",
      "put commas between", mend: ("\"a\" \"b\"", "\"a\", \"b\"")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ncolumns = { id = \"id\"\n", at: "14:22", .confSyntax, "not TOML",
      "close the brace on the same line", mend: ("\"id\"\n", "\"id\" }\n")),
    BrokenConf(
      "", "[capture.b]\ndatabase = \"erp\"\nstatements = True\n", at: "14:14", .confSyntax, "not TOML",
      "write statements = true", mend: ("True", "true")),
    BrokenConf(
      "shop.db\"", "shop\\db\"", at: "4:27", .confSyntax, "escape", "use '...'",
      mend: ("\"sqlite:///srv/shop\\db\"", "'sqlite:///srv/shop\\db'")),
    BrokenConf(
      "name = \"hq\"", "name = \"hq\"\nname = \"b\"", at: "3:1", .confTwice,
      "'name' is there already, at cairn.toml:2:1",
      "take one of the two out", mend: ("name = \"b\"\n", "")),
    BrokenConf(
      "", "[capture.shop]\nstatements = true\n", at: "12:1", .confTwice,
      "section [capture.shop] is there already, at cairn.toml:7:1", "put its options together",
      mend: ("[capture.shop]\nstatements = true\n", "")),
    BrokenConf(
      "name = \"hq\"", "näme = \"hq\"", at: "2:2", .confSyntax, "outside of ASCII", "make names of a-z",
      mend: ("näme", "name")),
    BrokenConf(
      "name = \"hq\"", "name = \"hq\" \"b\"", at: "2:13", .confSyntax, "not TOML", "write one value after name =",
      mend: (" \"b\"", "")),
  ]

  private static let keys = [
    BrokenConf(
      "name = \"hq\"", "nmae = \"hq\"\nname = \"hq\"", at: "2:1", .confUnknown, "'nmae' is not an option of [node]",
      "did you mean 'name'? there are name, state", mend: ("nmae = \"hq\"\n", "")),
    BrokenConf(
      "", "[limit]\ndisk = \"1 GiB\"\n", at: "12:2", .confUnknown, "there is no section [limit]",
      "did you mean [limits]?", mend: ("[limit]", "[limits]")),
    BrokenConf(
      "[node]", "retain = \"14 days\"\n[node]", at: "1:1", .confUnknown, "'retain' is above all sections",
      "write [limits] above it", mend: ("retain", "[limits]\nretain")),
    BrokenConf(
      "", "[capture]\nstatements = true\n", at: "13:1", .confUnknown, "'statements' is in [capture]",
      "write [capture.pos]", mend: ("[capture]\n", "[capture.pos]\ndatabase = \"erp\"\n")),
    BrokenConf(
      "", "[apply.erp.table]\nfrom = \"a\"\n", at: "12:12", .confValue, "not a list of rules",
      "write [[apply.erp.table]]", mend: ("[apply.erp.table]", "[[apply.erp.table]]")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrm = \"a\"\nfrom = \"a\"\n", at: "13:1", .confUnknown,
      "'frm' is not an option of [[apply.NAME.table]]", "did you mean 'from'?", mend: ("frm = \"a\"\n", "")),
    BrokenConf(
      "[node]", "limits = 3\n[node]", at: "1:1", .confValue, "'limits' is the number 3, but [limits] is a section",
      "write [limits] on a line of its own", mend: ("limits = 3", "[limits]")),
    BrokenConf(
      "", "[capture.Büro]\n", at: "12:11", .confSyntax, "outside of ASCII", "make names of a-z",
      mend: ("[capture.Büro]\n", "")),
    BrokenConf(
      "", "[capture.Till]\ndatabase = \"erp\"\n", at: "12:10", .confValue, "'Till' cannot be the name of a capture",
      "[capture.till]", mend: ("Till", "till")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\ntable = \"a\"", at: "12:1", .confValue,
      "the text \"a\", not a list of rules",
      "write [[apply.erp.table]]", mend: ("table = \"a\"", "[[apply.erp.table]]\nfrom = \"a\"")),
    BrokenConf(
      "name = \"hq\"\n", "", at: "1:1", .confMissing, "[node] has no 'name'", "add name =",
      mend: ("[node]\n", "[node]\nname = \"hq\"\n")),
    BrokenConf(
      "[node]\nname = \"hq\"\n", "", at: "", .confMissing, "there is no section [node]", "add [node] with name =",
      mend: ("[database.shop]", "[node]\nname = \"hq\"\n[database.shop]")),
    BrokenConf(
      "", "[[apply.erp.table]]\nto = \"a\"\n", at: "12:1", .confMissing, "has no 'from'", "add from =",
      mend: ("to =", "from = \"orders\"\nto =")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\non_error = \"quarantin\"", at: "12:12", .confValue,
      "quarantin", "quarantine", mend: ("quarantin\"", "quarantine\"")),
  ]

  private static let types = [
    BrokenConf(
      "name = \"hq\"", "name = 42", at: "2:8", .confValue, "name is the number 42; it takes a name",
      "write name = \"42\"",
      mend: ("42", "\"hq\"")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\nstatements = \"yes\"", at: "9:14", .confValue,
      "statements is the text \"yes\"; it takes true or false", "write statements = true", mend: ("\"yes\"", "true")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\ntables = \"orders\"", at: "9:10", .confValue,
      "it takes a list of patterns", "write tables = [\"orders\"]", mend: ("\"orders\"", "[\"orders\"]")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\ntables = [\"a\", 3]", at: "9:16", .confValue,
      "tables is the number 3",
      "write tables = [\"*\"]", mend: ("[\"a\", 3]", "[\"*\"]")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\ntables = []", at: "9:10", .confValue, "tables is empty",
      "write tables = [\"*\"]", mend: ("[]", "[\"*\"]")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\njournal_rows = \"5_000\"", at: "9:16", .confValue,
      "it takes an integer from 1000", "write journal_rows = 5000", mend: ("\"5_000\"", "5000")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\njournal_rows = 5", at: "9:16", .confValue,
      "journal_rows is 5; it may be from 1000 to", "write journal_rows = 1000", mend: ("= 5", "= 1000")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\njournal_rows = 10.5", at: "9:16", .confValue, "is the number 10.5",
      "write journal_rows = 1000", mend: ("10.5", "1000")),
    BrokenConf(
      "", "[limits]\nretain = \"14\"\n", at: "13:10", .confValue, "without a unit", "write retain = \"14 days\"",
      mend: ("\"14\"", "\"14 days\"")),
    BrokenConf(
      "", "[limits]\nretain = 14\n", at: "13:10", .confValue, "it takes a duration", "write retain = \"14 days\"",
      mend: ("14", "\"14 days\"")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\njournal_rows = 1e6", at: "9:16", .confValue, "is the number 1000000",
      "write journal_rows = 1000000", mend: ("1e6", "1000000")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\nheartbeat = 10", at: "9:13", .confValue, "it takes a duration",
      "write heartbeat = \"10 s\"", mend: ("10", "\"10 s\"")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\nheartbeat = \"10\"", at: "9:13", .confValue, "without a unit",
      "write heartbeat = \"10 s\"; units are ms, s, min, h, d, weeks", mend: ("\"10\"", "\"10 s\"")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\nheartbeat = \"10 hors\"", at: "9:13", .confValue,
      "unknown unit 'hors'", "write heartbeat = \"10 h\"", mend: ("10 hors", "10 h")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\nheartbeat = \"1 ms\"", at: "9:13", .confValue,
      "it may be from 100 ms to 1 d", "write heartbeat = \"100 ms\"", mend: ("1 ms", "100 ms")),
    BrokenConf(
      "database = \"shop\"", "database = \"shop\"\nheartbeat = \"soon\"", at: "9:13", .confValue,
      "which is not a duration",
      "write heartbeat = \"10 s\"", mend: ("soon", "10 s")),
    BrokenConf(
      "", "[limits]\nretain = 2026-01-01\n", at: "13:10", .confValue, "retain is a date or time",
      "write retain = \"14 days\"", mend: ("2026-01-01", "\"14 days\"")),
    BrokenConf(
      "", "[limits]\ndisk = \"20 GiBi\"\n", at: "13:8", .confValue, "unknown unit 'GiBi'",
      "write disk = \"20 GiB\"; units are B, KiB", mend: ("GiBi", "GiB")),
    BrokenConf(
      "", "[limits]\ndisk = \"20 MiB\"\n", at: "13:8", .confValue, "the least is 64 MiB", "write disk = \"64 MiB\"",
      mend: ("20 MiB", "64 MiB")),
    BrokenConf(
      "", "[limits]\ndisk = 20000000000\n", at: "13:8", .confValue, "it takes a size", "write disk = \"20000000000 B\"",
      mend: ("20000000000", "\"20000000000 B\"")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ncolumns = [\"id\", \"name\"]\n", at: "14:11", .confValue,
      "it takes a table of columns", "write columns = { id = \"id\", name = \"name\" }",
      mend: ("[\"id\", \"name\"]", "{ id = \"id\", name = \"name\" }")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ncolumns = {}\n", at: "14:11", .confValue, "is empty",
      "leave it out", mend: ("columns = {}\n", "")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ncolumns = { id = 3 }\n", at: "14:18", .confValue,
      "column id is the number 3, not text", "write id = \"id\"", mend: ("= 3", "= \"id\"")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ncolumns = { id = { expr = \"id\", typ = \"int\" } }\n", at: "14:33",
      .confUnknown,
      "'typ' is not a part of a column", "did you mean type?", mend: ("typ =", "type =")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ncolumns = { id = { type = \"int\" } }\n", at: "14:18", .confMissing,
      "column id has no expr", "write id = { expr = \"id\", type = \"int\" }",
      mend: ("{ type", "{ expr = \"id\", type")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ncolumns = { id = \"id\", ID = \"no\" }\n", at: "14:24", .confTwice,
      "column ID is there already, at cairn.toml:14:13", "take one of the two out", mend: (", ID = \"no\"", "")),
  ]
}
