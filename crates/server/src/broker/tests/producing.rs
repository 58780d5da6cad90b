//! Produce and InitProducerId with what no client of good faith sends.

use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ErrorCode, TopicIdPartition};

use super::{BatchBuilder, Core, produce, produce_errors};

#[test]
fn one_request_has_one_transactional_producer() {
    let mut core = Core::new();
    let (one, other) = (core.init_producer("x"), core.init_producer("y"));
    let batch = |producer| BatchBuilder::new().producer(producer, 0).transactional();
    let refused = ErrorCode::InvalidProducerIdMapping.code();
    let answer = core.call(12, produce(vec![(0, batch(one)), (1, batch(other))], Some("x")));
    assert_eq!(produce_errors(answer), [refused, refused]);
    let at = TopicIdPartition { topic_id: core.topic_id("t"), partition: 0 };
    assert_eq!(core.broker.cluster.partition(at).unwrap().log.batch_count(), 0);
    // Of a partition that is named twice the last mention counts, so that this is of one producer.
    let answer = core.call(12, produce(vec![(0, batch(other)), (0, batch(one))], Some("x")));
    assert_eq!(produce_errors(answer), [0]);
    assert_eq!(core.broker.cluster.partition(at).unwrap().log.batch_count(), 1);
}

#[test]
fn half_a_producer_is_no_producer() {
    let mut core = Core::new();
    let mut init = |producer_id, producer_epoch| {
        let request = m::init_producer_id_request::InitProducerIdRequest {
            transactional_id: None,
            producer_id,
            producer_epoch,
            ..Default::default()
        };
        let ResponseMessage::InitProducerId(answer) = core.call(5, RequestMessage::InitProducerId(request))
        else {
            panic!("an answer is of its request's kind")
        };
        answer.error_code
    };
    assert_eq!(init(7, -1), ErrorCode::InvalidRequest.code());
    assert_eq!(init(-1, 7), ErrorCode::InvalidRequest.code());
    assert_eq!(init(7, 7), 0);
    assert_eq!(init(-1, -1), 0);
}

fn described(core: &mut Core) -> usize {
    let topic = m::describe_producers_request::TopicRequest { name: "t".into(), partition_indexes: vec![0] };
    let request = m::describe_producers_request::DescribeProducersRequest { topics: vec![topic] };
    let ResponseMessage::DescribeProducers(answer) = core.call(0, RequestMessage::DescribeProducers(request))
    else {
        panic!("an answer is of its request's kind")
    };
    answer.topics[0].partitions[0].active_producers.len()
}

#[test]
fn idle_producers_are_forgotten_by_an_interval_of_their_own() {
    let mut core = Core::with(|config| {
        config
            .property("producer.id.expiration.ms", "5000")
            .property("producer.id.expiration.check.interval.ms", "500")
    });
    let (idle, busy) = (core.init_producer("idle"), core.init_producer("busy"));
    core.call(12, produce(vec![(0, BatchBuilder::new().producer(idle, 0))], None));
    let batch = BatchBuilder::new().producer(busy, 0).transactional();
    let answer = core.call(12, produce(vec![(0, batch)], Some("busy")));
    assert_eq!(produce_errors(answer), [0]);
    core.advance(4_900);
    assert_eq!(described(&mut core), 2);
    core.advance(700);
    assert_eq!(described(&mut core), 1, "who has a transaction open stays");
}
