// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .treatAllWarnings(as: .error),
]

func system(_ name: String, _ pkgConfig: String, _ apt: String) -> Target {
  .systemLibrary(
    name: name, path: "Sources/C/\(name)", pkgConfig: pkgConfig, providers: [.apt([apt])])
}

/// The floors of `Sources`, from the ground up: a module imports only modules of its floor or below.
let floors = [
  "Base": ["Changes", "SystemKit", "CodecKit", "NetKit"],
  "Engines": ["SQLiteFormat", "SQLiteKit", "WALKit", "PostgresKit"],
  "Rules": ["Mapping", "Statements", "Conflicts", "Transforming"],
  "Flow": ["Trails", "Versions", "Pumping", "Capturing", "Applying", "Comparing"],
  "Replicating": ["Endpoints", "Replicating", "TrailText"],
  "Daemon": ["Trust", "ServiceKit", "Configuring", "ControlAPI", "Deploying", "Checking", "Daemon"],
  "Programs": ["Explaining", "cairn", "cairnd", "CairnCapture", "CairnC"],
]

func path(_ name: String) -> String? {
  floors.first { $0.value.contains(name) }.map { "Sources/\($0.key)/\(name)" }
}

func module(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, path: path(name), swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .testTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

let package = Package(
  name: "Cairn",
  products: [
    .executable(name: "cairn", targets: ["cairn"]), .executable(name: "cairnd", targets: ["cairnd"]),
    .library(name: "CairnCapture", targets: ["CairnCapture"]),
    // What is installed as libcairn.so.
    .library(name: "CairnC", type: .dynamic, targets: ["CairnC"]),
  ],
  targets: [
    system("CSQLite", "sqlite3", "libsqlite3-dev"),
    system("CZstd", "libzstd", "libzstd-dev"),
    system("CCrypto", "libcrypto", "libssl-dev"),
    system("CPostgres", "libpq", "libpq-dev"),
    system("CSystemd", "libsystemd", "libsystemd-dev"),
    system("CHTTP", "libmicrohttpd", "libmicrohttpd-dev"),
    system("CCurl", "libcurl", "libcurl4-gnutls-dev"),
    system("CTLS", "gnutls", "libgnutls28-dev"),
    .target(name: "CShims", dependencies: ["CSQLite"], path: "Sources/C/CShims"),
    .target(name: "CToml", path: "Sources/C/CToml"),
    .target(name: "CCairn", path: "Sources/C/CCairn", exclude: ["cairn.map", "cairn.pc"]),

    module("Changes", []),
    module("Explaining", ["Changes"]),
    module("SystemKit", ["CShims", "Changes"]),
    module("CodecKit", ["CShims", "CZstd", "CCrypto", "Changes"]),
    module("NetKit", ["CHTTP", "CCurl", "CTLS", "CShims", "Changes", "SystemKit"]),
    module("Trust", ["Changes", "SystemKit", "CodecKit", "NetKit"]),
    module("ServiceKit", ["CSystemd", "Changes", "CodecKit", "NetKit"]),
    module("SQLiteFormat", ["Changes"]),
    module("SQLiteKit", ["CSQLite", "CShims", "Changes", "SystemKit"]),
    module("WALKit", ["Changes", "SystemKit", "SQLiteFormat", "SQLiteKit"]),
    module("PostgresKit", ["CPostgres", "Changes", "SystemKit", "CodecKit"]),
    module("Mapping", ["Changes"]),
    module("Statements", ["Changes", "Mapping"]),
    module("Configuring", ["Changes", "SystemKit", "Mapping", "Conflicts", "CToml"]),
    module("Transforming", ["Changes", "Mapping", "SQLiteKit"]),
    module("Conflicts", ["Changes"]),
    module("Trails", ["Changes", "SystemKit", "CodecKit"]),
    module("Versions", ["Changes", "SystemKit", "SQLiteKit", "Trails", "Conflicts"]),
    module("Pumping", ["Changes", "SystemKit", "CodecKit", "Trails", "NetKit"]),
    module("Capturing", ["Changes", "Mapping", "SystemKit", "CodecKit", "SQLiteKit", "PostgresKit", "Trails"]),
    module(
      "Applying",
      [
        "Changes", "Mapping", "Statements", "Transforming", "Conflicts", "Versions", "SystemKit", "CodecKit",
        "SQLiteKit", "PostgresKit", "Trails",
      ]),
    module(
      "Comparing",
      [
        "Changes", "Mapping", "Transforming", "SystemKit", "CodecKit", "SQLiteKit", "PostgresKit", "Trails",
        "Capturing",
        "Applying",
      ]),
    module(
      "Endpoints",
      [
        "Changes", "Mapping", "Transforming", "Conflicts", "SystemKit", "CodecKit", "SQLiteKit", "PostgresKit",
        "Trails",
        "Capturing", "Applying",
      ]),
    module(
      "Replicating",
      [
        "Changes", "Mapping", "Transforming", "Conflicts", "SystemKit", "SQLiteKit", "PostgresKit", "Trails",
        "Capturing", "Applying", "Comparing", "Endpoints",
      ]),
    module("TrailText", ["Changes", "Mapping", "SQLiteKit", "Comparing"]),
    module(
      "CairnCapture",
      [
        "Changes", "Conflicts", "Mapping", "SystemKit", "SQLiteKit", "Trails", "Capturing", "Applying", "Endpoints",
        "Replicating",
      ]),
    module("CairnC", ["CCairn", "CairnCapture"]),
    module("ControlAPI", ["Changes", "SystemKit"]),
    module(
      "Deploying",
      [
        "Changes", "Mapping", "Transforming", "SystemKit", "PostgresKit", "SQLiteKit", "Trails", "Capturing",
        "Applying",
        "Endpoints", "Configuring", "ControlAPI", "NetKit", "Trust",
      ]),
    module(
      "Checking",
      [
        "Changes", "Mapping", "Transforming", "Conflicts", "SystemKit", "SQLiteKit", "PostgresKit", "Trails",
        "Capturing",
        "Applying", "Configuring", "Endpoints", "Replicating", "Deploying", "ControlAPI", "NetKit", "Trust",
      ]),
    module(
      "Daemon",
      [
        "Changes", "Mapping", "Transforming", "Conflicts", "Versions", "SystemKit", "CodecKit", "SQLiteKit",
        "PostgresKit", "Trails",
        "Capturing", "Applying", "Comparing", "Configuring", "Endpoints", "Replicating", "Deploying", "ControlAPI",
        "ServiceKit",
        "NetKit", "Trust", "Pumping",
      ]),
    .executableTarget(
      name: "cairn",
      dependencies: [
        "Changes", "Explaining", "Conflicts", "Mapping", "Statements", "Transforming", "SystemKit", "SQLiteKit",
        "PostgresKit", "Trails", "Capturing", "Applying", "Comparing", "Configuring", "Endpoints", "Replicating",
        "TrailText", "Deploying",
        "Checking", "ControlAPI", "NetKit", "Trust", "Pumping",
      ], path: path("cairn"),
      swiftSettings: strict),
    .executableTarget(
      name: "cairnd",
      dependencies: [
        "Changes", "SystemKit", "SQLiteKit", "Configuring", "Endpoints", "Deploying", "ServiceKit", "Daemon",
      ], path: path("cairnd"),
      swiftSettings: strict),
    // `make bench`; not installed. A target of this package, as what it measures is not public.
    .executableTarget(
      name: "cairn-bench",
      dependencies: [
        "TestServers", "Changes", "SystemKit", "CodecKit", "SQLiteKit", "WALKit", "PostgresKit", "NetKit", "Trails",
        "Pumping",
        "Capturing", "Conflicts", "Mapping", "Applying", "Endpoints", "Replicating", "CairnCapture",
      ], path: "Tests/Benchmarks",
      swiftSettings: strict),

    // The program of the example, which is a package of its own: so that the tests have it built.
    .executableTarget(
      name: "ExampleTill", dependencies: ["CairnCapture"], path: "docs/examples/till/Sources/till",
      swiftSettings: strict),

    .target(name: "TestServers", path: "Tests/TestServers", swiftSettings: strict),
    .target(
      name: "HostilePeer",
      dependencies: [
        "TestServers", "Applying", "Capturing", "Changes", "CodecKit", "Conflicts", "Mapping", "Replicating",
        "TrailText",
        "PostgresKit", "SQLiteKit", "SystemKit", "Trails",
      ], path: "Tests/HostilePeer", swiftSettings: strict),
    // `make hostile`; not installed.
    .executableTarget(
      name: "cairn-hostile", dependencies: ["HostilePeer", "TestServers"], path: "Tests/HostileRun",
      swiftSettings: strict),
    tests("TestServersTests", ["TestServers"]),
    tests(
      "HostileTests",
      [
        "TestServers", "HostilePeer", "Changes", "NetKit", "Pumping", "SystemKit", "Trails",
      ]),
    tests("ChangesTests", ["TestServers", "Changes", "Explaining"]),
    .testTarget(
      name: "TrailsTests", dependencies: ["TestServers", "Trails", "Changes", "SystemKit", "CodecKit"],
      resources: [.copy("Golden")], swiftSettings: strict),
    tests("PumpingTests", ["TestServers", "Pumping", "Trails", "NetKit", "CodecKit", "Changes", "SystemKit"]),
    tests("SQLiteFormatTests", ["TestServers", "CShims", "CSQLite", "SQLiteFormat", "SQLiteKit", "Changes"]),
    tests("SQLiteKitTests", ["TestServers", "SQLiteKit", "Changes", "SystemKit"]),
    tests("WALKitTests", ["TestServers", "WALKit", "SQLiteFormat", "SQLiteKit", "Changes"]),
    tests("PostgresKitTests", ["TestServers", "PostgresKit", "Changes"]),
    tests("MappingTests", ["TestServers", "Mapping", "Changes", "SQLiteKit"]),
    tests("StatementsTests", ["Statements", "Changes", "Mapping", "SQLiteKit"]),
    tests("SystemKitTests", ["SystemKit"]),
    tests("TrustTests", ["Trust", "NetKit", "Changes", "SystemKit"]),
    tests("NetKitTests", ["TestServers", "NetKit", "Changes", "SystemKit"]),
    tests("ConfiguringTests", ["Configuring", "Changes", "Mapping", "Conflicts"]),
    tests("ConflictsTests", ["TestServers", "Conflicts", "Changes"]),
    tests("VersionsTests", ["TestServers", "Versions", "Conflicts", "Changes", "SystemKit", "Trails"]),
    tests("TransformingTests", ["Transforming", "Changes", "Mapping", "SQLiteKit"]),
    tests(
      "CapturingTests",
      ["TestServers", "Capturing", "Applying", "Changes", "CSQLite", "SQLiteKit", "SystemKit", "Trails"]),
    tests(
      "CairnCaptureTests",
      [
        "TestServers", "CCairn", "CairnCapture", "CairnC", "Capturing", "Applying", "Changes", "Conflicts", "CSQLite",
        "Mapping", "PostgresKit", "SQLiteKit",
        "SystemKit",
        "Trails",
      ]),
    tests(
      "ApplyingTests",
      [
        "TestServers", "Applying", "Changes", "Mapping", "Transforming", "Conflicts", "SQLiteKit", "PostgresKit",
        "Statements", "SystemKit", "Trails",
      ]),
    tests(
      "ComparingTests",
      [
        "TestServers", "Comparing", "Changes", "CodecKit", "Mapping", "SQLiteKit", "PostgresKit", "SystemKit", "Trails",
      ]),
    tests(
      "ReplicatingTests",
      [
        "TestServers", "Endpoints", "Replicating", "TrailText", "Applying", "Capturing", "Conflicts", "Changes",
        "CodecKit",
        "Mapping", "NetKit", "Pumping",
        "SQLiteKit", "PostgresKit", "SystemKit", "Trails",
      ]),
    tests(
      "DaemonTests",
      [
        "TestServers", "Daemon", "Deploying", "ControlAPI", "ServiceKit", "Endpoints", "Replicating", "Comparing",
        "Configuring",
        "Changes", "Applying", "CodecKit",
        "Mapping", "NetKit", "Pumping", "SQLiteKit", "SystemKit", "Trails",
      ]),
    tests(
      "ScenarioTests",
      ["TestServers", "HostilePeer", "Changes", "SQLiteKit", "CairnCapture", "Trails", "SystemKit"]),
  ],
  cxxLanguageStandard: .cxx17
)
