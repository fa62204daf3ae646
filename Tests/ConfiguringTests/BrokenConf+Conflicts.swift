extension BrokenConf {
  static let conflicts = [
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nconflict = \"newst\"", at: "12:12", .confValue,
      "conflict is \"newst\", which is not known", "write \"newest\"; there are newest, oldest,",
      mend: ("newst", "newest")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nconflict = \"priority\"", at: "12:12", .confValue,
      "which is incomplete", "write it as in \"priority:hq,store-1\"", mend: ("\"priority\"", "\"priority:hq,store-1\"")
    ),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nconflict = \"priority:hq,Store 1\"", at: "12:12", .confValue,
      "'Store 1' is not the name of a node", "a-z, 0-9", mend: ("Store 1", "store-1")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nconflict = \"newest:hq\"", at: "12:12", .confValue,
      "newest takes no value", "write \"newest\"", mend: ("newest:hq", "newest")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nconflict = \"delta\"", at: "12:12", .confValue,
      "a rule for single columns, not for rows", "write conflicts = { COLUMN = \"delta\" }",
      mend: ("conflict = \"delta\"", "conflicts = { stock = \"delta\" }")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nconflicts = \"delta\"", at: "12:13", .confValue,
      "it takes a table of columns and rules", "write conflicts = { COLUMN = \"delta\" }",
      mend: ("\"delta\"", "{ stock = \"delta\" }")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\nconflicts = {}\n", at: "14:13", .confValue, "is empty",
      "leave it out", mend: ("conflicts = {}\n", "")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\nconflicts = { stock = 1 }\n", at: "14:23", .confValue,
      "the rule of column stock is the number 1", "write stock = \"newest\"", mend: ("= 1", "= \"newest\"")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\nconflicts = { stock = \"insert-only\" }\n", at: "14:23", .confValue,
      "which is a rule for whole rows", "such as \"target\"", mend: ("insert-only", "target")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\nconflicts = { stock = \"max\", Stock = \"min\" }\n", at: "14:30",
      .confTwice, "column Stock has a rule already, at cairn.toml:14:15", "take one of the two out",
      mend: (", Stock = \"min\"", "")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\nconflicts = { stock = \"combine:\" }\n", at: "14:23", .confValue,
      "which is incomplete", "write it as in \"combine: / \"", mend: ("combine:", "combine:,")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ntracking = \"cell\"\n", at: "14:12", .confValue, "which is not known",
      "allowed: row, column", mend: ("cell", "row")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\ndeletes = \"updates\"", at: "12:11", .confValue, "which is not known",
      "write deletes = \"update\"", mend: ("updates", "update")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\ndecides = \"Head Office\"", at: "12:11", .confValue,
      "it takes the name of a node", "write the name of a node", mend: ("Head Office", "hq")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nconflict = \"function:public.settle\"", at: "12:12", .confValue,
      "does not name the node that calls the function", "add decides = \"NODE\"",
      mend: ("\"function:public.settle\"", "\"function:public.settle\"\ndecides = \"hq\"")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\nconflicts = { stock = \"function:public.settle\" }\n", at: "14:13",
      .confValue, "does not name the node that calls the function", "add decides = \"NODE\"",
      mend: ("function:public.settle\" }", "function:public.settle\" }\ndecides = \"hq\"")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nmax_clock_skew = \"2 days\"", at: "12:18", .confValue,
      "it may be from 1 ms to 1 d", "write max_clock_skew = \"1 d\"", mend: ("2 days", "1 d")),
    BrokenConf(
      "sqlite:///srv/shop.db\"", "sqlite:///srv/shop.db\"\nkeys = \"own\"", at: "5:8", .confValue, "which is not known",
      "write keys = \"shared\"", mend: ("\"own\"", "\"shared\"")),
  ]
}
