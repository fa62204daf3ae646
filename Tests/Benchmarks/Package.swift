// swift-tools-version: 6.2
import PackageDescription

/// The name by which Swift knows the package of Cairn: its folder. The benchmark measures what is not public, so it is
/// compiled under that name.
let cairn = Context.packageDirectory.split(separator: "/").dropLast(2).last.map { $0.lowercased() } ?? "cairn"

// `make bench`; not installed. It is built in the folder of Cairn's own build, so nothing is compiled twice.
let package = Package(
  name: "Benchmarks",
  dependencies: [.package(name: "Cairn", path: "../..")],
  targets: [
    .executableTarget(
      name: "cairn-bench", dependencies: [.product(name: "BenchmarkParts", package: "Cairn")], path: "Sources",
      packageAccess: false,
      swiftSettings: [
        .swiftLanguageMode(.v6), .enableUpcomingFeature("ExistentialAny"), .treatAllWarnings(as: .error),
        .unsafeFlags(["-package-name", cairn]),
      ])
  ]
)
