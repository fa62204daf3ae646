import Changes
import CodecKit
import Testing

/// The memory for large blocks.
@Suite struct ScratchTests {
  @Test func `memory that the system does not have is an error, and the object can be used again`() throws {
    var scratch = Scratch(capacity: 64)
    func request(_ count: Int) -> CairnError? {
      do { _ = try scratch.bytes(count) } catch let error as CairnError { return error } catch {}
      return nil
    }
    for count in [1 << 50, 1 << 20, (1 << 20) + 1, 1 << 60, 100] {
      let error = request(count)
      #expect((error?.code == .busy) == (count >= 1 << 50) && (error == nil) == (count < 1 << 50))
    }
    let buffer = try scratch.bytes(2000)
    buffer.initializeMemory(as: UInt8.self, repeating: 7)
    #expect(scratch.capacity >= 2000 && buffer.allSatisfy { $0 == 7 })
    scratch.shrink(above: 500)
    #expect(scratch.capacity <= 500)
    #expect(try scratch.bytes(10).count == 10)
  }
}
