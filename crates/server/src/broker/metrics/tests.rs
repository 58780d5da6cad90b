use sharemark_protocol::TopicId;
use sharemark_share_coordinator::AcknowledgementBatch;

use super::*;

#[test]
fn a_number_falls_into_the_first_class_that_holds_it() {
    let mut distribution = Distribution::new(&[1, 2, 5]);
    for (value, times) in [(0, 1), (1, 1), (2, 3), (3, 1), (5, 1), (6, 2)] {
        distribution.observe(value, times);
    }
    let classes: Vec<_> = distribution.classes().collect();
    assert_eq!(classes, [(Some(1), 2), (Some(2), 3), (Some(5), 2), (None, 2)]);
    assert_eq!((distribution.count(), distribution.sum()), (9, 27));
    assert_eq!(Distribution::new(&[1]).classes().collect::<Vec<_>>(), [(Some(1), 0), (None, 0)]);
}

#[test]
fn acknowledgements_are_counted_by_record() {
    let batch = |first, last, types| AcknowledgementBatch { first_offset: first, last_offset: last, types };
    let batches = [batch(0, 4, &[1][..]), batch(5, 9, &[1, 2, 3, 4, 0]), batch(10, 10, &[4])];
    let counted = Acknowledged::of(&batches);
    assert_eq!(counted, Acknowledged { accept: 6, release: 1, reject: 1, renew: 2 });
    // What will be refused is counted as well, but not added up.
    let nonsense = [batch(i64::MAX, i64::MIN, &[1][..]), batch(i64::MIN, i64::MAX, &[1]), batch(0, 0, &[])];
    assert_eq!(Acknowledged::of(&nonsense).accept, u64::try_from(i64::MAX).unwrap());
}

#[test]
fn topics_are_counted_once_a_request() {
    let (one, two) = (TopicId::from_bytes([1; 16]), TopicId::from_bytes([2; 16]));
    let mut topics = RequestedTopics::default();
    topics.count([(one, false), (two, true), (one, true), (two, false)].into_iter());
    topics.count([(two, false), (two, false)].into_iter());
    topics.count([].into_iter());
    assert_eq!(topics, RequestedTopics { total: 3, failed: 2 });
}
