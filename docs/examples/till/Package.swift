// swift-tools-version: 6.2
import PackageDescription

// A program outside of Cairn: it knows of it what is public.
let package = Package(
  name: "till",
  dependencies: [.package(name: "Cairn", path: "../../..")],
  targets: [
    .executableTarget(
      name: "till", dependencies: [.product(name: "CairnCapture", package: "Cairn")],
      swiftSettings: [.swiftLanguageMode(.v6)])
  ]
)
