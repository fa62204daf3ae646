extension BrokenConf {
  static let texts = [
    BrokenConf(
      "name = \"hq\"", "name = \"Head Quarter\"", at: "2:8", .confValue, "a name is made of a-z, 0-9, _ and -",
      "write name = \"head-quarter\"", mend: ("\"Head Quarter\"", "\"hq\"")),
    BrokenConf(
      "name = \"hq\"", "name = \"hq\"\nstate = \"var/lib/cairn\"", at: "3:9", .confValue,
      "which is not an absolute path",
      "write state = \"/var/lib/cairn\"", mend: ("\"var", "\"/var")),
    BrokenConf(
      "sqlite:///srv/shop.db", "sqlite:shop.db", at: "4:7", .confValue, "the path is relative",
      "write url = \"sqlite:///shop.db\"", mend: ("sqlite:shop.db", "sqlite:///shop.db")),
    BrokenConf(
      "sqlite:///srv/shop.db", "sqlite://srv/shop.db", at: "4:7", .confValue, "a host has no meaning for a file",
      "write url = \"sqlite:///srv/shop.db\"", mend: ("sqlite://srv", "sqlite:///srv")),
    BrokenConf(
      "sqlite:///srv/shop.db", "/srv/shop.db", at: "4:7", .confValue, "it has no scheme",
      "write url = \"sqlite:///srv/shop.db\"", mend: ("\"/srv", "\"sqlite:///srv")),
    BrokenConf(
      "postgresql://cairn@db/erp", "postgre://cairn@db/erp", at: "6:7", .confValue, "no kind of database 'postgre'",
      "postgresql://user@host/db", mend: ("postgre:", "postgresql:")),
    BrokenConf(
      "postgresql://cairn@db/erp", "postgresql://cairn:geheim@db/erp", at: "6:7", .confSecret,
      "url contains a password",
      "credential database.NAME", mend: (":geheim@", "@")),
    BrokenConf(
      "postgresql://cairn@db/erp", "postgresql://cairn@db/erp?sslmode=require&password=geheim", at: "6:7", .confSecret,
      "url contains a password", "remove it from the url", mend: ("&password=geheim", "")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nnames = \"fould\"", at: "12:9", .confValue,
      "\"fould\", which is not known",
      "write names = \"fold\"; allowed: fold, keep", mend: ("fould", "fold")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nexisting = \"Merge\"", at: "12:12", .confValue, "which is not known",
      "write existing = \"merge\"", mend: ("Merge", "merge")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\nmisfits = [\"stop\", \"orders=null\"]", at: "12:20", .confValue,
      "'orders' in 'orders=null' does not name a column", "table.column", mend: ("orders=null", "orders.*=null")),
    BrokenConf(
      "database = \"erp\"", "database = \"erp\"\naudit = \"fast\"", at: "12:9", .confValue, "which is not a rate",
      "write audit = \"10MiB/s\"", mend: ("fast", "10MiB/s")),
    BrokenConf(
      "trail = \"hq.shop\"", "trail = \"shop\"", at: "10:9", .confValue, "a trail is named NODE.NAME",
      "with the names of a node and a capture",
      mend: ("\"shop\"\ndatabase = \"erp\"", "\"hq.shop\"\ndatabase = \"erp\"")),
    BrokenConf(
      "", "[metrics]\nlisten = \"7421\"\n", at: "13:10", .confValue, "it takes an IP address or localhost",
      "write listen = \"127.0.0.1:7421\"", mend: ("\"7421\"", "\"127.0.0.1:7421\"")),
    BrokenConf(
      "", "[metrics]\nlisten = \"127.0.0.1:74210\"\n", at: "13:10", .confValue, "it takes an IP address or localhost",
      "write listen = \"127.0.0.1:7421\"", mend: (":74210", ":7421")),
    BrokenConf(
      "", "[control]\nsocket = \"/run/" + String(repeating: "x", count: 110) + "\"\n", at: "13:10", .confValue,
      "the system takes 107", "choose a shorter path", mend: (String(repeating: "x", count: 110), "x")),
    BrokenConf(
      "", "[control]\ngroup = \"opera tors\"\n", at: "13:9", .confValue, "which is not the name of a group",
      "write group = \"cairn\"", mend: ("opera tors", "cairn")),
    BrokenConf(
      "", "[log]\nlevel = \"warn\"\n", at: "13:9", .confValue, "which is not known", "write level = \"warning\"",
      mend: ("\"warn\"", "\"warning\"")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"log_a\"\nto = \"log_*\"\n", at: "14:6", .confValue,
      "names one table, not a pattern",
      "leave it out", mend: ("to = \"log_*\"\n", "")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"log_*\"\nto = \"logs\"\n", at: "14:6", .confValue,
      "the rule is for all tables that match log_*", "remove 'to'", mend: ("to = \"logs\"\n", "")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ncolumns = { s = { expr = \"1\", share = \"no\" } }\n", at: "14:39",
      .confValue, "share of column s is the text \"no\"", "write share = false", mend: ("\"no\"", "false")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ndelete = \"mark\"\n", at: "14:10", .confValue,
      "it takes apply, keep or mark",
      "write delete = \"mark:deleted_at\"", mend: ("\"mark\"", "\"mark:deleted_at\"")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\nwhere = \" \"\n", at: "14:9", .confValue, "where is empty",
      "leave it out",
      mend: ("where = \" \"\n", "")),
    BrokenConf(
      "name = \"hq\"", "name = \"${UNSET_NODE}\"", at: "2:8", .confMissing, "variable UNSET_NODE is not set",
      "Environment=UNSET_NODE=", mend: ("${UNSET_NODE}", "hq")),
    BrokenConf(
      "name = \"hq\"", "name = \"${HOST NAME}\"", at: "2:8", .confValue, "not a valid name of a variable",
      "write ${NAME}",
      mend: ("${HOST NAME}", "hq")),
  ]

  static let references = [
    BrokenConf(
      "database = \"shop\"", "database = \"shp\"", at: "8:12", .confReference, "there is no [database.shp]",
      "write database = \"shop\", or add a section [database.shp]", mend: ("shp", "shop")),
    BrokenConf(
      "trail = \"hq.shop\"", "trail = \"hq.shap\"", at: "10:9", .confReference,
      "no capture writes trail hq.shap: there is no [capture.shap]", "write trail = \"hq.shop\"", mend: ("shap", "shop")
    ),
    BrokenConf(
      "database = \"erp\"", "database = \"shop\"", at: "11:12", .confReference,
      "would write the database that its trail hq.shop comes from", "name another database",
      mend: ("trail = \"hq.shop\"\ndatabase = \"shop\"", "trail = \"hq.shop\"\ndatabase = \"erp\"")),
    BrokenConf(
      "", "[capture.again]\ndatabase = \"shop\"\n", at: "13:12", .confReference,
      "captured already, by [capture.shop] at cairn.toml:7:1", "remove [capture.again]",
      mend: ("[capture.again]\ndatabase = \"shop\"\n", "")),
    BrokenConf(
      "", "[database.same]\nurl = \"sqlite:/srv//shop.db\"\n[capture.again]\ndatabase = \"same\"\n", at: "15:12",
      .confReference, "captured already, by [capture.shop]", "remove [capture.again]",
      mend: ("[capture.again]\ndatabase = \"same\"\n", "")),
    BrokenConf(
      "", "[apply.again]\ntrail = \"hq.shop\"\ndatabase = \"erp\"\n", at: "13:9", .confReference,
      "brought into database erp already, by [apply.erp] at cairn.toml:9:1", "remove [apply.again]",
      mend: ("[apply.again]\ntrail = \"hq.shop\"\ndatabase = \"erp\"\n", "")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\nto = \"c\"\n[[apply.erp.table]]\nfrom = \"b\"\nto = \"public.C\"\n",
      at: "17:6",
      .confTwice, "tables a and b would both become public.C; the other rule is at cairn.toml:14:6",
      "give one of them another 'to'", mend: ("public.C", "d")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\n[[apply.erp.table]]\nfrom = \"A\"\n", at: "15:8", .confTwice,
      "table A has a rule already, at cairn.toml:13:8", "combine the two rules",
      mend: ("[[apply.erp.table]]\nfrom = \"A\"\n", "")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\nmode = \"history\"\ndelete = \"keep\"\n", at: "15:10", .confValue,
      "has no meaning in mode \"history\"", "remove delete", mend: ("delete = \"keep\"\n", "")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\nmode = \"history\"\nlocal_writes = \"allow\"\n", at: "15:16", .confValue,
      "has no meaning in mode \"history\"", "remove local_writes", mend: ("local_writes = \"allow\"\n", "")),
    BrokenConf(
      "", "[[apply.erp.table]]\nfrom = \"a\"\ncolumns = { id = \"id\", gone = \"0\" }\ndelete = \"mark:gone\"\n",
      at: "15:10",
      .confValue, "column gone is the delete mark", "remove it from columns", mend: (", gone = \"0\"", "")),
  ]
}
