import PostgresKit
import Testing

@Suite struct LSNTests {
  @Test func `an LSN is printed as PostgreSQL prints it, and read back`() {
    #expect(LSN(0x16_B374_D848).description == "16/B374D848")
    #expect(LSN("16/B374D848") == LSN(0x16_B374_D848))
    #expect(LSN("0/0") == LSN(0))
    #expect(LSN("16B374D848") == nil)
    #expect(LSN("0/100000000") == nil)
  }
}
