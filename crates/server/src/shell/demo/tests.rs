use std::collections::BTreeMap;

use bytes::Bytes;
use sharemark_log::batch::{BatchBuilder, end_transaction_marker};
use sharemark_protocol::Producer;
use sharemark_protocol::messages::fetch_response::AbortedTransaction;
use sharemark_share_coordinator::RecordState;

use super::read_back::{ReadBack, Tally};
use super::states::{KnownState, LEGEND};
use super::*;
use crate::shell::server::Server;

fn order(offset: i64) -> ReadRecord {
    ReadRecord {
        offset,
        key: format!("order-{offset}").into(),
        value: Some(format!("{offset} x tea").into()),
    }
}

fn receipt(order: &ReadRecord) -> ReadRecord {
    let value = receipt_for(order.value.as_deref().unwrap());
    ReadRecord { offset: 100 + order.offset, key: order.key.clone(), value: Some(value.into()) }
}

fn acknowledged(_: i64) -> Option<KnownState> {
    Some(KnownState { state: RecordState::Acknowledged, delivery_count: 1 })
}

fn account(receipts: Vec<ReadRecord>) -> Account {
    let orders: Vec<ReadRecord> = (0..3).map(order).collect();
    Account::new(&orders, &ReadBack::of_records(receipts), acknowledged)
}

#[test]
fn one_receipt_for_each_order_is_right() {
    let account = account((0..3).map(|offset| receipt(&order(offset))).collect());
    assert_eq!(account.fault(), None);
}

#[test]
fn an_account_finds_what_is_wrong() {
    let [zero, one, two] = [0, 1, 2].map(|offset| receipt(&order(offset)));
    let lost = account(vec![zero.clone(), two.clone()]);
    assert_eq!(lost.fault().as_deref(), Some("1 lost"));
    let twice = account(vec![zero.clone(), one.clone(), one.clone(), two.clone()]);
    assert_eq!(twice.fault().as_deref(), Some("1 duplicates"));
    // As many receipts as orders prove nothing.
    let both = account(vec![zero.clone(), one.clone(), one.clone()]);
    assert_eq!(both.fault().as_deref(), Some("1 duplicates, 1 lost"));
    let foreign = ReadRecord { key: "order-7".into(), ..one.clone() };
    let changed = ReadRecord { value: Some("paid: 9 x tea".into()), ..one.clone() };
    for strange in [foreign, changed] {
        let account = account(vec![zero.clone(), one.clone(), two.clone(), strange]);
        assert_eq!(account.fault().as_deref(), Some("1 receipts that fit no order"));
    }
}

#[test]
fn an_order_that_is_not_acknowledged_is_unfinished() {
    let orders: Vec<ReadRecord> = (0..4).map(order).collect();
    let receipts = ReadBack::of_records(orders.iter().map(receipt).collect());
    let states =
        [None, Some(RecordState::TxPending), Some(RecordState::Archived), Some(RecordState::Available)];
    let account = Account::new(&orders, &receipts, |offset| {
        let state = states[usize::try_from(offset).unwrap()]?;
        Some(KnownState { state, delivery_count: 2 })
    });
    assert_eq!(account.fault().as_deref(), Some("4 orders not acknowledged"));
}

/// Batches as they lie in a log, one after the other.
struct LogBytes {
    bytes: Vec<u8>,
    end: i64,
}

impl LogBytes {
    fn push(&mut self, mut batch: Vec<u8>, count: i64) {
        batch[..8].copy_from_slice(&self.end.to_be_bytes());
        self.end += count;
        self.bytes.append(&mut batch);
    }

    fn records(&mut self, producer: Option<Producer>, keys: &[&str]) {
        let mut batch = BatchBuilder::new();
        if let Some(producer) = producer {
            batch = batch.producer(producer, 0).transactional();
        }
        for key in keys {
            batch.push(Timestamp::from_ms(1), Some(key.as_bytes()), None, &[]);
        }
        self.push(batch.build().to_vec(), i64::try_from(keys.len()).unwrap());
    }

    fn marker(&mut self, producer: Producer, committed: bool) {
        let marker = end_transaction_marker(producer, committed, 0, Timestamp::from_ms(1));
        self.push(marker.bytes().to_vec(), 1);
    }
}

#[test]
fn a_read_committed_reader_passes_over_what_was_aborted() {
    let [one, two] = [1, 2].map(|id| Producer::from_wire(id, 0).unwrap());
    let mut log = LogBytes { bytes: Vec::new(), end: 0 };
    log.records(Some(one), &["aborted", "aborted"]); // 0-1
    log.records(Some(two), &["a"]); // 2
    log.records(None, &["b"]); // 3
    log.marker(one, false); // 4
    log.records(Some(one), &["c"]); // 5: another transaction of the same producer
    log.marker(two, true); // 6
    log.marker(two, true); // 7: it ends nothing
    log.marker(one, true); // 8
    let mut read = ReadBack::default();
    let aborted = vec![AbortedTransaction { producer_id: 1, first_offset: 0 }];
    assert_eq!(read.add(&Bytes::from(log.bytes), aborted).unwrap(), Some(9));
    let seen: Vec<(i64, &[u8])> =
        read.records.iter().map(|record| (record.offset, &record.key[..])).collect();
    assert_eq!(seen, [(2, &b"a"[..]), (3, b"b"), (5, b"c")]);
    assert_eq!(read.committed, Tally { transactions: 2, records: 2 });
    assert_eq!(read.aborted, Tally { transactions: 1, records: 2 });
}

#[test]
fn a_mark_shows_the_order_that_is_least_far() {
    use RecordState::{Acknowledged, Archived, Available, TxPending};
    let stored = [
        (10, Acknowledged),
        (11, Acknowledged),
        (12, Acknowledged),
        (13, TxPending),
        (14, TxPending),
        (15, Available),
        (16, Archived),
        (17, Archived),
    ];
    let known: BTreeMap<i64, RecordState> = stored.into();
    let states = States::of_known(10, known);
    let offsets: Vec<i64> = (8..22).collect();
    assert_eq!(states.picture(&offsets, &BTreeSet::from([18, 19, 20]), 2), "##t.x>.");
    let meant: Vec<char> = LEGEND.lines().filter_map(|line| line.chars().next()).collect();
    assert_eq!(meant, ['#', 't', '>', '.', 'x']);
    assert!(states.is_final(8) && states.is_final(17) && !states.is_final(13) && !states.is_final(18));
}

#[test]
fn a_run_ends_well_and_each_run_tells_the_same() {
    let tell = || {
        let mut out = Vec::new();
        assert_eq!(run(Server::builder(), &mut out).unwrap(), None);
        let text = String::from_utf8(out).unwrap();
        let account = text.split_once("read back:\n\n").unwrap().1;
        account.split_once("\n\n").unwrap().0.to_owned()
    };
    let first = tell();
    assert!(first.contains("records in      1000"), "{first}");
    assert_eq!(first, tell());
}
