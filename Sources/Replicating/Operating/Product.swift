package enum Product {
  package static let version = "0.1.0"
}
