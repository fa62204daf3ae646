extension BrokenConf {
  private static let pump = "[pump.a]\ntrail = \"hq.shop\"\n"
  private static let receive = "[receive]\nlisten = \"[::]:7420\"\n"

  static let network = [
    BrokenConf(
      "", pump, at: "12:1", .confMissing, "has neither 'to' nor 'from'",
      "add to = \"https://hq.example:7420\"", mend: (pump, pump + "to = \"https://hq.example:7420\"\n")),
    BrokenConf(
      "", pump + "to = \"https://b\"\nfrom = \"https://c\"\n", at: "15:8", .confTwice, "has both 'to' and 'from'",
      "remove one of them", mend: ("from = \"https://c\"\n", "")),
    BrokenConf(
      "", pump + "to = \"backup.example:7420\"\n", at: "14:6", .confValue, "which is not the URL of a node",
      "write to = \"https://backup.example:7420\"", mend: ("\"backup", "\"https://backup")),
    BrokenConf(
      "", pump + "to = \"https://hq.example:7420/cairn\"\n", at: "14:6", .confValue, "a node has no path",
      "write to = \"https://hq.example:7420\"", mend: (":7420/cairn", ":7420")),
    BrokenConf(
      "", pump + "to = \"https://me:geheim@hq.example\"\n", at: "14:6", .confValue, "no login in its URL",
      "certificates prove its name", mend: ("me:geheim@", "")),
    BrokenConf(
      "", pump + "to = \"http://10.0.0.7:7420\"\n", at: "14:6", .confValue, "plain HTTP to another machine",
      "write https://, or insecure = true", mend: ("http:", "https:")),
    BrokenConf(
      "",
      pump + "to = \"http://127.0.0.1:7420\"\ntls = { certificate = \"a\", key = \"b\", peers = \"c\" }\n", at: "15:7",
      .confValue, "but its URL is http://", "write https://", mend: ("http:", "https:")),
    BrokenConf(
      "", pump + "to = \"https://b\"\ntls = { certificate = \"a\", key = \"b\" }\n", at: "15:7", .confMissing,
      "tls has no peers", "peers = \"ca.crt\" }", mend: ("\"b\" }", "\"b\", peers = \"ca.crt\" }")),
    BrokenConf(
      "", pump + "to = \"https://b\"\ntls = { certificate = \"a\", key = \"b\", peer = \"c\" }\n", at: "15:39",
      .confUnknown, "'peer' is not a part of 'tls'", "did you mean 'peers'?", mend: ("peer =", "peers =")),
    BrokenConf(
      "", pump + "to = \"https://b\"\npeer = \"head quarter\"\n", at: "15:8", .confValue, "not a name of a certificate",
      "write peer = \"hq\"", mend: ("head quarter", "hq")),
    BrokenConf(
      "", "[pump.a]\ntrail = [\"hq.shop\", \"Shop\"]\nto = \"https://b\"\n", at: "13:21", .confValue,
      "\"Shop\" in trail is neither a trail", "write \"shop.*\"", mend: ("Shop", "shop.*")),
    BrokenConf(
      "", "[pump.a]\ntrail = [\"!hq.shop\"]\nto = \"https://b\"\n", at: "13:9", .confValue,
      "only excludes trails", "write trail = [\"*\", \"!hq.shop\"]",
      mend: ("[\"!hq.shop\"]", "[\"*\", \"!hq.shop\"]")),
    BrokenConf(
      "", "[pump.a]\ntrail = \"hq.shp\"\nto = \"https://b\"\n", at: "13:9", .confReference,
      "no capture writes trail hq.shp", "write trail = \"hq.shop\"", mend: ("hq.shp", "hq.shop")),
    BrokenConf(
      "", pump + "from = \"https://b\"\n", at: "13:9", .confReference,
      "is written on this node, so it cannot be pulled",
      "write 'to' instead of 'from'", mend: ("from =", "to =")),
    BrokenConf(
      "", pump + "to = \"https://b\"\n[pump.b]\ntrail = \"hq.shop\"\nto = \"https://B:7420/\"\n", at: "16:9",
      .confTwice, "is already transferred this way by [pump.a]", "take one of the two out",
      mend: ("https://B", "https://C")),
    BrokenConf(
      "trail = \"hq.shop\"", "trail = \"till.shop\"\ntables = [\"*\"]", at: "10:9", .confReference,
      "comes from node till, and nothing brings it", "add [pump.NAME] with trail = \"till.shop\" and from = URL",
      mend: ("[apply.erp]", "[pump.a]\ntrail = \"till.shop\"\nfrom = \"https://till\"\n[apply.erp]")),
    BrokenConf(
      "[apply.erp]\ntrail = \"hq.shop\"",
      "[pump.a]\ntrail = \"till.shop\"\nfrom = \"https://till\"\n[apply.erp]\ntrail = \"till.shop\"", at: "13:9",
      .confMissing, "[apply.erp] has no 'tables': trail till.shop comes from node till",
      "add tables = [\"*\"] to [apply.erp]", mend: ("[apply.erp]\n", "[apply.erp]\ntables = [\"*\"]\n")),
    BrokenConf(
      "", "[receive]\nlisten = \"7420\"\n", at: "13:10", .confValue, "it takes an IP address",
      "write listen = \"0.0.0.0:7420\"", mend: ("\"7420\"", "\"0.0.0.0:7420\"")),
    BrokenConf(
      "", receive + "connections = 0\n", at: "14:15", .confValue, "connections is 0", "write connections = 1",
      mend: ("= 0", "= 1")),
    BrokenConf(
      "", receive + "insecure = true\ntls = { certificate = \"a\", key = \"b\", peers = \"c\" }\n", at: "14:12",
      .confValue, "insecure = true would not use them", "remove insecure", mend: ("insecure = true\n", "")),
    BrokenConf(
      "", receive + "[metrics]\nlisten = \"[::]:7420\"\n", at: "13:10", .confTwice, "[metrics] listens on [::]:7420",
      "7421 for [metrics]", mend: ("[metrics]\nlisten = \"[::]:7420\"", "[metrics]\nlisten = \"[::]:7421\"")),
    BrokenConf(
      "",
      "[capture.erp]\ndatabase = \"erp\"\napplied = \"include\"\n[apply.back]\ntrail = \"hq.erp\"\ndatabase = \"shop\"\n",
      at: "14:11", .confValue, "rows of [apply.erp] come from database shop", "write applied = \"skip\"",
      mend: ("include", "skip")),
    BrokenConf(
      "", receive + "[peer.b]\nmay = [\"hq.shop\"]\n", at: "15:7", .confValue, "may is a list", "pull = [\"hq.shop\"]",
      mend: ("[\"hq.shop\"]", "{ pull = [\"hq.shop\"] }")),
    BrokenConf(
      "", receive + "[peer.b]\nmay = { push = [] }\n", at: "15:16", .confValue, "push is empty",
      "name a trail or a pattern", mend: ("[]", "[\"b.*\"]")),
    BrokenConf(
      "", receive + "[peer.b]\nmay = { pull = \"hq.shop\" }\n", at: "15:16", .confValue, "not a list of trails",
      "write pull = [\"hq.shop\"]", mend: ("\"hq.shop\" }", "[\"hq.shop\"] }")),
    BrokenConf(
      "", receive + "[peer.b]\nmay = { fetch = [\"hq.shop\"] }\n", at: "15:9", .confUnknown,
      "'fetch' is not a part of 'may'", "there are push, pull", mend: ("fetch", "pull")),
    BrokenConf(
      "", receive + "[peer.b]\n", at: "14:1", .confMissing, "[peer.b] has no 'may'", "add may = {",
      mend: ("[peer.b]\n", "[peer.b]\nmay = { push = [\"b.*\"] }\n")),
    BrokenConf(
      "", "[trail.shop]\n", at: "12:1", .confMissing, "[trail.shop] has no 'keep'", "add keep = \"7 days\"",
      mend: ("[trail.shop]\n", "[trail.shop]\nkeep = \"7 days\"\n")),
    BrokenConf(
      "", "[trail.shop]\nkeep = 7\n", at: "13:8", .confValue, "keep is the number 7", "write keep = \"7 days\"",
      mend: ("7\n", "\"7 days\"\n")),
    BrokenConf(
      "", "[trail.shop]\nkeep = \"7 dais\"\n", at: "13:8", .confValue, "unknown unit 'dais'", "write keep = \"7 d\"",
      mend: ("dais", "d")),
    BrokenConf(
      "", "[trail.shop]\nkeep = \"7 MiB\"\n", at: "13:8", .confValue, "the least is 64 MiB", "\"64 MiB\" or more",
      mend: ("7 MiB", "70 MiB")),
    BrokenConf(
      "", "[trail.shop]\nkeep = [\"7 days\", \"1 h\"]\n", at: "13:19", .confTwice, "keep has two durations",
      "take one of the two out", mend: (", \"1 h\"", ", \"1 GiB\"")),
    BrokenConf(
      "", "[trail.shop]\nkeep = []\n", at: "13:8", .confValue, "keep is empty", "write keep = \"7 days\"",
      mend: ("[]", "\"7 days\"")),
    BrokenConf(
      "", "[trail.shp]\nkeep = \"7 days\"\n", at: "12:1", .confReference, "no capture writes trail hq.shp",
      "write [trail.shop]", mend: ("shp", "shop")),
    BrokenConf(
      "", "[trail.\"hq.shop\"]\nkeep = \"7 days\"\n", at: "12:1", .confValue, "is written on this node",
      "write [trail.shop]", mend: ("trail.\"hq.shop\"", "trail.shop")),
    BrokenConf(
      "", "[trail.b.pos]\nkeep = \"7 days\"\n[peer.b]\nmay = { push = [\"b.*\"] }\n", at: "12:10", .confValue,
      "a section inside of [trail.b]", "[trail.\"b.pos\"]", mend: ("b.pos]", "\"b.pos\"]")),
    BrokenConf(
      "", "[trail.\"b.pos\"]\nkeep = \"7 days\"\n", at: "12:1", .confReference, "nothing brings it to this one",
      "add [pump.NAME]", mend: ("7 days\"\n", "7 days\"\n[peer.b]\nmay = { push = [\"b.*\"] }\n")),
  ]
}
