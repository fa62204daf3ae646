import Changes
import Testing
@testable import Applying

/// The outcome of a change whose row an application of the target has written too, on a way that leads only one way.
@Suite struct SourceWinsTests {
  /// Rows of a key and two values.
  private func steps(_ before: [Value?]?, _ after: [Value?]?, there: [[Value]]) throws -> [SourceWins.Step] {
    try #require(SourceWins(before: before, after: after, key: [0]) { key in there.first { $0[0] == key[0] } }).steps
  }

  @Test func `a row that is inserted here too becomes the source's`() throws {
    let step = try #require(steps(nil, [1, 2, 3], there: [[1, 7, 7]]).first)
    #expect(step.kind == .insertExists && step.local == [1, 7, 7] && step.settled == [1, 2, 3])
    #expect(try steps(nil, [1, 2, 3], there: [[1, 2, 3]])[0].kind == nil)
    #expect(try steps(nil, [1, 2, 3], there: [])[0].kind == nil)
  }

  @Test func `an update makes the whole row the source's`() throws {
    let step = try #require(steps([1, 2, 3], [nil, 4, nil], there: [[1, 2, 9]]).first)
    #expect(step.kind == .updateOriginDiffers && step.settled == [1, 4, 3])
    // Columns that the trail does not give stay.
    #expect(try steps([1, nil, nil], [1, 4, nil], there: [[1, 2, 9]])[0].settled == [1, 4, 9])
    // Both have made the same of it.
    #expect(try steps([1, 2, 3], [nil, 4, nil], there: [[1, 4, 3]])[0].kind == nil)
  }

  @Test func `an update brings back a row that is known wholly`() throws {
    let whole = try #require(steps([1, 2, 3], [nil, 4, nil], there: []).first)
    #expect(whole.kind == .updateMissing && whole.settled == [1, 4, 3] && !whole.isPassedOver)
    let part = try #require(steps([1, nil, nil], [1, 4, nil], there: []).first)
    #expect(part.kind == .updateMissing && part.settled == nil && part.isPassedOver)
  }

  @Test func `a delete deletes what is there, and passes over what is not`() throws {
    let changed = try #require(steps([1, 2, 3], nil, there: [[1, 2, 9]]).first)
    #expect(changed.kind == .deleteOriginDiffers && changed.settled == nil && changed.local == [1, 2, 9])
    let gone = try #require(steps([1, 2, 3], nil, there: []).first)
    #expect(gone.kind == .deleteMissing && !gone.isPassedOver)
  }

  @Test func `a row that moves leaves one key and takes the other`() throws {
    let both = try steps([1, 2, 3], [5, nil, nil], there: [[1, 2, 9], [5, 7, 7]])
    #expect(both.map(\.key) == [[1], [5]])
    #expect(both.map(\.kind) == [.updateOriginDiffers, .updateExists])
    #expect(both.map(\.settled) == [nil, [5, 2, 3]])
    let taken = try steps([1, 2, 3], [5, nil, nil], there: [[1, 2, 3], [5, 7, 7]])
    #expect(taken.map(\.kind) == [nil, .updateExists])
    let gone = try steps([1, nil, nil], [5, 2, nil], there: [])
    #expect(gone.count == 1 && gone[0].kind == .updateMissing && gone[0].isPassedOver)
  }

  @Test func `a row that the trail does not name meets nothing`() {
    #expect(SourceWins(before: [nil, 2], after: nil, key: [0]) { _ in nil } == nil)
    #expect(SourceWins(before: [1, 2], after: nil, key: []) { _ in nil } == nil)
  }
}
