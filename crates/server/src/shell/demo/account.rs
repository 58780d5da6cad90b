//! The account: what the topics say, read back, compared with each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use sharemark_share_coordinator::RecordState;

use super::read_back::{ReadBack, ReadRecord, Tally};
use super::receipt_for;
use super::states::KnownState;

/// What is to be told about a run. All numbers come from the topics.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Account {
    orders: usize,
    committed: Tally,
    aborted: Tally,
    redelivered: usize,
    deliveries_max: i16,
    seen: usize,
    /// Receipts beyond the first one for an order.
    duplicates: usize,
    /// Orders without a receipt.
    lost: usize,
    /// Receipts that fit no order.
    strange: usize,
    /// Orders that are not acknowledged.
    unfinished: usize,
}

impl Account {
    /// Compares the orders with the receipts that a read_committed reader sees, and with the stored states.
    pub(super) fn new(
        orders: &[ReadRecord],
        receipts: &ReadBack,
        state_of: impl Fn(i64) -> Option<KnownState>,
    ) -> Self {
        let wanted: BTreeMap<&Bytes, Vec<u8>> = orders
            .iter()
            .map(|order| (&order.key, receipt_for(order.value.as_deref().unwrap_or_default())))
            .collect();
        let mut account = Self {
            orders: orders.len(),
            committed: receipts.committed,
            aborted: receipts.aborted,
            seen: receipts.records.len(),
            ..Self::default()
        };
        let mut answered: BTreeSet<&Bytes> = BTreeSet::new();
        for receipt in &receipts.records {
            let fits =
                wanted.get(&receipt.key).is_some_and(|wanted| receipt.value.as_deref() == Some(wanted));
            if !fits {
                account.strange += 1;
            } else if !answered.insert(&receipt.key) {
                account.duplicates += 1;
            }
        }
        account.lost = wanted.len() - answered.len();
        for order in orders {
            let known = state_of(order.offset);
            let deliveries = known.map_or(0, |known| known.delivery_count);
            account.redelivered += usize::from(1 < deliveries);
            account.deliveries_max = account.deliveries_max.max(deliveries);
            let is_acknowledged = known.is_some_and(|known| known.state == RecordState::Acknowledged);
            account.unfinished += usize::from(!is_acknowledged);
        }
        account
    }

    /// Returns what is wrong, in words, or `None` if nothing is.
    pub(super) fn fault(&self) -> Option<String> {
        let counts = [
            (self.duplicates, "duplicates"),
            (self.lost, "lost"),
            (self.strange, "receipts that fit no order"),
            (self.unfinished, "orders not acknowledged"),
        ];
        let wrong = counts.iter().filter(|(count, _)| 0 < *count);
        let words: Vec<String> = wrong.map(|(count, what)| format!("{count} {what}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  records in    {:>6}", self.orders)?;
        for (name, tally) in [("committed", self.committed), ("aborted", self.aborted)] {
            writeln!(f, "  {name:<13} {:>6}  in {} transactions", tally.records, tally.transactions)?;
        }
        let most = self.deliveries_max;
        writeln!(
            f,
            "  redelivered   {:>6}  no order was delivered more than {most} times",
            self.redelivered
        )?;
        writeln!(f, "  outputs seen  {:>6}  by a read_committed reader", self.seen)?;
        writeln!(f, "  duplicates    {:>6}", self.duplicates)?;
        write!(f, "  lost          {:>6}", self.lost)?;
        if 0 < self.strange {
            write!(f, "\n  strange       {:>6}  receipts that fit no order", self.strange)?;
        }
        if 0 < self.unfinished {
            write!(f, "\n  unfinished    {:>6}  orders not acknowledged", self.unfinished)?;
        }
        Ok(())
    }
}
