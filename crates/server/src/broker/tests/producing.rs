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
    // The same partition twice, so that only one of them could be looked up.
    let answer = core.call(12, produce(vec![(0, batch(other)), (0, batch(one))], Some("x")));
    assert_eq!(produce_errors(answer), [refused, refused]);
    let answer = core.call(12, produce(vec![(0, batch(one)), (1, batch(other))], Some("x")));
    assert_eq!(produce_errors(answer), [refused, refused]);
    let at = TopicIdPartition { topic_id: core.topic_id("t"), partition: 0 };
    assert_eq!(core.broker.cluster.partition(at).unwrap().log.batch_count(), 0);
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
