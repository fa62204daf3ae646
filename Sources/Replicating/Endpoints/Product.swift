package enum Product {
  package static let version = "0.2.0"
}
