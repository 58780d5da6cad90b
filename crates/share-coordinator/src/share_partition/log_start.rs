//! A log start that moved past records in flight.

use super::word::Word;
use super::{Change, SharePartition};
use crate::RecordState;

impl SharePartition {
    /// Moves the start offset up to `log_start`, below which the log has nothing any more.
    ///
    /// What was available or pending below it is archived. What is locked, or in transition, stays until
    /// it is acknowledged (which changes nothing), lapses, or its change ends; then it is archived too.
    /// Nothing is stored by this; the next write carries the new start.
    pub fn archive_below(&mut self, log_start: sharemark_protocol::Offset) -> Change {
        let log_start = log_start.get();
        if log_start <= self.start {
            return Change::default();
        }
        let below = log_start - 1;
        self.split_at(log_start);
        self.batches.update_runs(i64::MIN, below, |_, _, word| {
            if word.is_available() || word.is_pending() {
                Word::new(RecordState::Archived, word.delivery_count())
            } else {
                word
            }
        });
        // Normally nothing below the start is tracked anew. But a record batch that was not reached yet and that
        // the log start cuts in two is delivered whole, as long as anything is tracked.
        let tracked_end = self.batches.back().map_or(log_start, |back| back.last() + 1);
        self.floor = tracked_end.min(log_start);
        self.start = log_start;
        self.log_start_moved = true;
        self.next = self.next.max(log_start);
        let mut final_count = 0;
        self.batches.each_run(log_start, i64::MAX, |low, high, word| {
            if word.is_final() {
                final_count += high - low + 1;
            }
        });
        self.final_count = final_count;
        self.settle_and_tell(log_start);
        Change { freed_records: false, moved_start: true, archiving: false }
    }

    /// Splits the batch that the log start cuts in two, so that its parts can go different ways.
    fn split_at(&mut self, log_start: i64) {
        let index = self.batches.find(log_start);
        let Some(batch) = self.batches.get_mut(index) else { return };
        let is_done = batch.final_until(batch.first()) == batch.last() + 1;
        if batch.first() < log_start && !is_done {
            batch.split();
        }
    }
}
