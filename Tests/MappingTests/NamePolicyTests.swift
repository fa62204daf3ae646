import Mapping
import Testing

@Suite struct NamePolicyTests {
  @Test func `names are folded or kept`() { #expect(NamePolicy.allCases.map(\.rawValue) == ["fold", "keep"]) }
}
