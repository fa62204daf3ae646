import Changes

/// A figure of each round.
struct Figures {
  var values: [Double] = []

  var isEmpty: Bool { values.isEmpty }

  /// The median; for an even number of values, the mean of the two in the middle.
  var median: Double {
    let sorted = values.sorted()
    guard !sorted.isEmpty else { return 0 }
    return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
  }

  var json: JSONObject {
    JSONObject([
      ("median", Self.number(median)), ("min", Self.number(values.min() ?? 0)), ("max", Self.number(values.max() ?? 0)),
    ])
  }

  /// Median by median; least and greatest of the rounds' own ratios.
  static func ratio(_ a: Figures, by b: Figures) -> JSONObject {
    let each = zip(a.values, b.values).map { quotient($0, $1) }
    return JSONObject([
      ("median", number(quotient(a.median, b.median))), ("min", number(each.min() ?? 0)),
      ("max", number(each.max() ?? 0)),
    ])
  }

  private static func quotient(_ a: Double, _ b: Double) -> Double { b == 0 ? 0 : a / b }

  /// Returns a number without decimals from 1,000 on, and with three decimals below.
  static func number(_ value: Double) -> JSONObject.Value {
    value.magnitude >= 1000 ? .integer(Int64(value.rounded())) : .real((value * 1000).rounded() / 1000)
  }
}
