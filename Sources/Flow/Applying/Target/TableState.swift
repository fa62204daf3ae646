import Changes
import Mapping

/// The part of apply's state of a target table that both engines store.
protocol TableState {
  /// Whether Cairn created the table, so that its columns follow the source.
  var isCreated: Bool { get }
  /// The method of the refresh in progress; nil: none.
  var refreshing: Refresh.Method? { get set }
  /// Whether a refresh of the table was requested and has not begun. Until then, apply skips changes that the refresh
  /// will bring.
  var isAwaited: Bool { get set }
  var existing: ExistingRows { get set }
}

extension SQLiteApplyState.Table: TableState {}
extension PostgresApplyState.Table: TableState {}
