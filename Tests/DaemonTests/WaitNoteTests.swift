import Testing

@testable import Daemon

@Suite struct WaitNoteTests {
  @Test func `a wait is reported once it has lasted, once, and when it is over`() {
    var note = WaitNote()
    #expect(note.note("", now: 0) == nil)
    #expect(note.note("waits for the server", now: 1_000) == nil)
    #expect(note.note("waits for the server", now: 2_999) == nil)
    #expect(note.note("waits for the server", now: 3_000) == "waits for the server")
    #expect(note.note("waits for the server", now: 90_000) == nil)
    #expect(note.note("table a waits", now: 91_000) == nil)
    #expect(note.note("table a waits", now: 93_000) == "table a waits")
    #expect(note.note("", now: 94_000) == nil)
    #expect(note.note("", now: 96_000) == "is no longer suspended")
    #expect(note.note("", now: 99_000) == nil)
  }

  @Test func `a wait that passes at once is not reported, nor a gap in one`() {
    var note = WaitNote()
    #expect(note.note("waits", now: 1_000) == nil)
    #expect(note.note("", now: 1_500) == nil)
    #expect(note.note("", now: 9_000) == nil)
    #expect(note.note("waits", now: 10_000) == nil)
    #expect(note.note("waits", now: 12_000) == "waits")
    #expect(note.note("", now: 13_000) == nil)
    #expect(note.note("waits", now: 14_000) == nil)
    #expect(note.note("waits", now: 20_000) == nil)
  }

  @Test func `a note about a table that is suspended no more can be forgotten`() {
    var note = WaitNote()
    #expect(note.isIdle)
    _ = note.note("waits", now: 0)
    #expect(!note.isIdle)
    #expect(note.note("waits", now: 3000) != nil && !note.isIdle)
    #expect(note.note("", now: 4000) == nil && !note.isIdle)
    #expect(note.note("", now: 7000) != nil && note.isIdle)
  }
}
