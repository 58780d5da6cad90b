use sharemark_protocol::Timestamp;

use super::*;

const ONE: ProducerId = ProducerId::new(1);
const TWO: ProducerId = ProducerId::new(2);

/// The offsets of one group for one partition, with a log that counts.
#[derive(Default)]
struct Case {
    offsets: Offsets,
    next: i64,
}

impl Case {
    fn write(&mut self, producer: Option<ProducerId>, offset: Option<i64>) {
        let value = offset.map(|offset| CommittedOffset {
            offset,
            leader_epoch: None,
            metadata: "".into(),
            committed_at: Timestamp::from_ms(0),
            expires_at: None,
            topic_id: TopicId::ZERO,
        });
        let record = Offset::new(self.next).unwrap();
        self.next += 1;
        self.offsets.replay(record, producer, &"g".into(), (&"t".into(), 0), value.as_ref());
        self.offsets.check_invariants();
    }

    fn end(&mut self, producer: ProducerId, committed: bool) {
        self.offsets.replay_end_transaction_marker(producer, committed);
        self.offsets.check_invariants();
    }

    fn committed(&self) -> Option<i64> {
        self.offsets.get("g", "t", 0).map(|value| value.offset)
    }
}

#[test]
fn a_pending_offset_counts_when_its_transaction_commits() {
    for (committed, outcome) in [(true, Some(7)), (false, Some(3))] {
        let mut case = Case::default();
        case.write(None, Some(3));
        case.write(Some(ONE), Some(7));
        assert_eq!(case.committed(), Some(3));
        assert!(case.offsets.is_pending("g", "t", 0));
        assert!(!case.offsets.is_pending("g", "t", 1));
        case.end(TWO, true);
        assert!(case.offsets.has_pending("g"));
        case.end(ONE, committed);
        assert_eq!(case.committed(), outcome);
        assert!(!case.offsets.has_pending("g"));
    }
}

#[test]
fn a_plain_commit_written_after_a_pending_one_stays() {
    let mut case = Case::default();
    case.write(Some(ONE), Some(10));
    case.write(None, Some(20));
    case.end(ONE, true);
    assert_eq!(case.committed(), Some(20));
}

#[test]
fn two_transactions_may_wait_for_the_same_partition() {
    let mut case = Case::default();
    case.write(Some(ONE), Some(1));
    case.write(Some(TWO), Some(2));
    case.end(TWO, true);
    assert!(case.offsets.is_pending("g", "t", 0));
    case.end(ONE, true);
    assert_eq!(case.committed(), Some(2));
}

#[test]
fn a_tombstone_takes_what_is_pending_with_it() {
    let mut case = Case::default();
    case.write(None, Some(1));
    case.write(Some(ONE), Some(2));
    case.write(None, None);
    assert_eq!(case.offsets.count(), 0);
    case.end(ONE, true);
    assert_eq!(case.committed(), None);
    assert_eq!(case.offsets, Offsets::default());
}

#[test]
fn offsets_are_found_by_their_topic() {
    let mut case = Case::default();
    case.write(None, Some(1));
    case.write(Some(ONE), Some(2));
    let of_topic = |name: &str| case.offsets.of_topic(name, TopicId::from_bytes([1; 16]));
    assert_eq!(of_topic("t"), BTreeSet::from([("g".into(), 0)]));
    assert_eq!(of_topic("u"), BTreeSet::new());
}
