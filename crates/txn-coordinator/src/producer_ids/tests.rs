use super::*;

#[test]
fn ids_come_in_order_and_blocks_of_a_thousand() {
    let mut counter = ProducerIdCounter::new();
    let (mut left, mut right) = (ProducerIds::new(), ProducerIds::new());
    assert_eq!(left.take(), Err(ErrorCode::CoordinatorLoadInProgress));
    left.add_block(counter.allocate_block().unwrap());
    right.add_block(counter.allocate_block().unwrap());
    assert_eq!(left.take_idempotent().unwrap(), Producer::from_wire(0, 0).unwrap());
    assert_eq!(right.take().unwrap().get(), 1000);
    for id in 1..1000 {
        assert_eq!(left.needs_block(), 900 <= id, "{id}");
        assert_eq!(left.take().unwrap().get(), id);
    }
    assert_eq!(left.take(), Err(ErrorCode::CoordinatorLoadInProgress));
    left.add_block(counter.allocate_block().unwrap());
    assert_eq!(left.take().unwrap().get(), 2000);
}

#[test]
fn a_block_added_early_is_used_after_the_rest_of_the_last() {
    let mut counter = ProducerIdCounter::resume(ProducerId::new(5000));
    let mut ids = ProducerIds::new();
    ids.add_block(counter.allocate_block().unwrap());
    while !ids.needs_block() {
        ids.take().unwrap();
    }
    ids.add_block(counter.allocate_block().unwrap());
    assert_eq!(counter.next_id().get(), 7000);
    let taken: Vec<_> = std::iter::from_fn(|| ids.take().ok()).map(ProducerId::get).collect();
    assert_eq!(taken, (5900..7000).collect::<Vec<_>>());
}

#[test]
fn a_counter_goes_on_above_what_was_seen() {
    let mut counter = ProducerIdCounter::default();
    counter.skip_past(ProducerId::new(41));
    counter.skip_past(ProducerId::new(7));
    let block = counter.allocate_block().unwrap();
    assert_eq!((block.first().get(), block.last().get()), (42, 1041));
    counter.skip_past(ProducerId::new(i64::MAX));
    assert_eq!(counter.allocate_block(), Err(ErrorCode::UnknownServerError));
}
