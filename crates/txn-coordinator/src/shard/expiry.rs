//! Transactions that were open too long, and transactional ids that nobody used for long.

use sharemark_protocol::{ErrorCode, Timestamp};

use super::TxnCoordinatorShard;
use crate::producer_ids::ProducerIds;
use crate::record::TransactionRecord;
use crate::version::TransactionVersion;

impl TxnCoordinatorShard {
    /// Returns the next date at which something is due: a sweep, a marker to hand out or an end to record.
    /// It may lie in the past.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let timeout = self.timeouts.first().map(|(date, _)| *date);
        let expiry = self.expiries.first().map(|(date, _)| *date);
        let mut sweep = timeout.into_iter().chain(expiry).min();
        if let Some((until, _)) = self.sweeps_paused {
            sweep = sweep.map(|date| date.max(until));
        }
        sweep.into_iter().chain(self.markers.poll_timeout()).min()
    }

    /// Decides the next step of a sweep that is due by `now`: the abort of a transaction that is too old, with a
    /// bumped epoch that fences its producer, or a tombstone for an id that nobody used. Call, append and replay
    /// until it returns `None`. Changes nothing but `ids`.
    ///
    /// # Errors
    ///
    /// `CoordinatorLoadInProgress` if the epochs are used up and no producer id is at hand.
    pub fn decide_expired(
        &self,
        now: Timestamp,
        version: TransactionVersion,
        ids: &mut ProducerIds,
    ) -> Result<Option<TransactionRecord>, ErrorCode> {
        if self.sweeps_paused.is_some_and(|(until, since)| since <= now && now < until) {
            return Ok(None);
        }
        if let Some((_, id)) = self.timeouts.first().filter(|(date, _)| *date <= now)
            && let Some(transaction) = self.transactions.get(id)
        {
            let value = Some(transaction.value.fenced(version, now, ids)?);
            return Ok(Some(TransactionRecord { transactional_id: id.clone(), value }));
        }
        let expired = self.expiries.first().filter(|(date, _)| *date <= now);
        Ok(expired.map(|(_, id)| TransactionRecord { transactional_id: id.clone(), value: None }))
    }

    /// Notes that what [`Self::decide_expired`] returned was not appended: sweeps rest for a moment.
    pub fn fail_expired(&mut self, now: Timestamp) {
        self.sweeps_paused = Some((now.plus_ms(i64::from(self.config.retry_backoff_ms)), now));
    }
}
