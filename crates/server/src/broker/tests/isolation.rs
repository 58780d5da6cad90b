//! Nodes that are cut off from the others and go on: what their clients are told, and what is fenced.

use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ErrorCode, NodeId};
use sharemark_share_coordinator::RecordState;

use super::{BatchBuilder, Core, Output, as_share_fetch, produce, produce_errors};
use crate::broker::{Command, NodeProblem, NodeState};

pub(super) const ACCEPT: i8 = 1;
pub(super) const RELEASE: i8 = 2;

impl Core {
    pub(super) fn isolate(&mut self, id: NodeId) {
        self.command(Command::IsolateNode(id));
    }

    pub(super) fn rejoin(&mut self, id: NodeId) {
        self.command(Command::RejoinNode(id));
    }

    /// Produces one record to `t-0` at the node that is asked, and returns the error code.
    fn produce_one(&mut self) -> i16 {
        produce_errors(self.call(12, produce(vec![(0, BatchBuilder::new())], None)))[0]
    }

    /// Fetches from `t-0` at the node that is asked; returns error code, high watermark and bytes.
    fn fetch_from(&mut self, offset: i64, leader_epoch: i32) -> (i16, i64, usize) {
        let partition = m::fetch_request::FetchPartition {
            fetch_offset: offset,
            current_leader_epoch: leader_epoch,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        };
        let topic = m::fetch_request::FetchTopic {
            topic: "t".into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = m::fetch_request::FetchRequest {
            session_id: 0,
            session_epoch: -1,
            max_bytes: 1 << 20,
            topics: vec![topic],
            ..Default::default()
        };
        let ResponseMessage::Fetch(answer) = self.call(12, RequestMessage::Fetch(request)) else {
            panic!("an answer is of its request's kind")
        };
        let data = &answer.responses[0].partitions[0];
        let bytes = data.records.as_ref().map_or(0, sharemark_protocol::Records::len);
        (data.error_code, data.high_watermark, bytes)
    }

    /// Returns what the node that is asked tells of the end of an epoch in `t-0`: the epoch and the offset.
    fn end_of_epoch(&mut self, leader_epoch: i32) -> (i32, i64) {
        let partition = m::offset_for_leader_epoch_request::OffsetForLeaderPartition {
            leader_epoch,
            current_leader_epoch: -1,
            ..Default::default()
        };
        let topic = m::offset_for_leader_epoch_request::OffsetForLeaderTopic {
            topic: "t".into(),
            partitions: vec![partition],
        };
        let request = m::offset_for_leader_epoch_request::OffsetForLeaderEpochRequest {
            topics: vec![topic],
            ..Default::default()
        };
        let message = RequestMessage::OffsetForLeaderEpoch(request);
        let ResponseMessage::OffsetForLeaderEpoch(answer) = self.call(4, message) else {
            panic!("an answer is of its request's kind")
        };
        let told = &answer.topics[0].partitions[0];
        assert_eq!(told.error_code, 0);
        (told.leader_epoch, told.end_offset)
    }

    /// Returns the nodes and the leader of `t-0` with its epoch, as the node that is asked tells them.
    fn metadata(&mut self) -> (Vec<i32>, (i32, i32)) {
        let topic =
            m::metadata_request::MetadataRequestTopic { name: Some("t".into()), ..Default::default() };
        let request =
            m::metadata_request::MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
        let ResponseMessage::Metadata(answer) = self.call(12, RequestMessage::Metadata(request)) else {
            panic!("an answer is of its request's kind")
        };
        let partition = &answer.topics[0].partitions[0];
        let brokers = answer.brokers.iter().map(|broker| broker.node_id).collect();
        (brokers, (partition.leader_id, partition.leader_epoch))
    }

    /// Acknowledges record 0 of `t-0` as member A of `g` on connection 2; returns the error code if it is told.
    pub(super) fn acknowledge_first(
        &mut self,
        share_session_epoch: i32,
        acknowledge_type: i8,
    ) -> Option<i16> {
        let batch = m::share_acknowledge_request::AcknowledgementBatch {
            first_offset: 0,
            last_offset: 0,
            acknowledge_types: vec![acknowledge_type],
        };
        let partition = m::share_acknowledge_request::AcknowledgePartition {
            partition_index: 0,
            acknowledgement_batches: vec![batch],
        };
        let topic = m::share_acknowledge_request::AcknowledgeTopic {
            topic_id: self.topic_id("t"),
            partitions: vec![partition],
        };
        let request = m::share_acknowledge_request::ShareAcknowledgeRequest {
            group_id: Some("g".into()),
            member_id: Some("A".into()),
            share_session_epoch,
            topics: vec![topic],
            ..Default::default()
        };
        let output = self.send_on(2, 2, RequestMessage::ShareAcknowledge(request))?;
        Some(acknowledged(output))
    }

    /// Has member A of `g` hold record 0 of `t-0`, on connection 2; returns the leader.
    pub(super) fn hold_first(&mut self) -> NodeId {
        assert_eq!(self.join("g", "A"), 0);
        let leader = self.leader_of("t", 0);
        self.node = leader;
        assert!(self.share_fetch(2, 0).is_none(), "it starts at the end, and waits");
        assert_eq!(self.produce_one(), 0);
        assert!(self.broker.poll_output().is_some(), "the fetch is answered");
        assert_eq!(self.acknowledge_first(1, RELEASE), Some(0), "so that its state is stored");
        assert!(self.share_fetch(2, 2).is_some(), "it is delivered again");
        leader
    }
}

fn acknowledged(output: Output) -> i16 {
    let Output::Answer { message, .. } = output else { panic!("it is answered") };
    let ResponseMessage::ShareAcknowledge(answer) = *message else {
        panic!("an answer is of its request's kind")
    };
    answer.responses[0].partitions[0].error_code
}

#[test]
fn a_node_that_is_cut_off_tells_what_it_knew() {
    let mut core = Core::of_three();
    let old = core.leader_of("t", 0);
    core.node = old;
    assert_eq!(core.produce_one(), 0);
    core.isolate(old);
    let new = core.leader_of("t", 0);
    assert!(new != old);
    assert_eq!(core.epoch_of("t", 0), 1);

    core.node = new;
    assert_eq!(core.produce_one(), 0);
    let (nodes, leader) = core.metadata();
    assert_eq!((nodes.len(), leader), (2, (new.get(), 1)));
    assert_eq!(core.fetch_from(0, 0).0, ErrorCode::FencedLeaderEpoch.code());

    core.node = old;
    assert_eq!(core.metadata(), (vec![0, 1, 2], (old.get(), 0)));
    assert_eq!(core.produce_one(), ErrorCode::RequestTimedOut.code(), "its replicas do not follow");
    let (error, end, bytes) = core.fetch_from(0, 0);
    assert!((error, end) == (0, 1) && 0 < bytes, "it has the first record");
    assert_eq!(core.fetch_from(1, 0), (0, 1, 0), "it has not the second");
    assert_eq!(core.fetch_from(0, 1).0, ErrorCode::UnknownLeaderEpoch.code());

    core.rejoin(old);
    assert_eq!(core.metadata(), (vec![0, 1, 2], (new.get(), 1)));
    assert_eq!(core.produce_one(), ErrorCode::NotLeaderOrFollower.code());
    core.node = new;
    assert_eq!(core.fetch_from(0, 1).1, 2, "what the old leader refused is nowhere");
}

#[test]
fn a_node_that_is_cut_off_tells_where_epochs_end_in_its_copy() {
    let mut core = Core::of_three();
    let old = core.leader_of("t", 0);
    core.node = old;
    assert_eq!(core.produce_one(), 0);
    core.isolate(old);
    core.node = core.leader_of("t", 0);
    assert_eq!(core.produce_one(), 0);
    assert_eq!([core.end_of_epoch(0), core.end_of_epoch(1)], [(0, 1), (1, 2)]);
    core.node = old;
    assert_eq!([core.end_of_epoch(0), core.end_of_epoch(1)], [(0, 1), (-1, -1)]);
    core.rejoin(old);
    core.node = core.leader_of("t", 0);
    assert_eq!(core.end_of_epoch(1), (1, 2));
}

#[test]
fn a_fetch_that_waits_there_is_told_when_the_node_is_back() {
    let mut core = Core::of_three();
    let old = core.hold_first();
    assert!(core.share_fetch(2, 3).is_none(), "it waits for more");
    core.isolate(old);
    core.node = core.leader_of("t", 0);
    assert_eq!(core.produce_one(), 0);
    assert!(core.broker.poll_output().is_none(), "it hears of no record of the new leader");
    core.rejoin(old);
    let told = as_share_fetch(core.broker.poll_output().unwrap());
    assert_eq!(told.responses[0].partitions[0].error_code, ErrorCode::NotLeaderOrFollower.code());
}

#[test]
fn an_acknowledgement_there_is_fenced_once_it_gets_through() {
    let mut core = Core::of_three();
    let old = core.hold_first();
    core.isolate(old);
    assert_eq!(core.state_of_first(), Some(RecordState::Acquired), "the new leader delivers it again");
    core.node = old;
    assert_eq!(core.acknowledge_first(3, ACCEPT), None, "the share coordinator is asked again");
    core.rejoin(old);
    core.advance(2_000);
    let told = acknowledged(core.broker.poll_output().unwrap());
    assert_eq!(told, ErrorCode::NotLeaderOrFollower.code(), "its leader epoch is over");
    assert_eq!(core.state_of_first(), Some(RecordState::Acquired), "the new leader's lock stands");
}

#[test]
fn an_acknowledgement_there_is_given_up_in_the_end() {
    let mut core = Core::of_three();
    let old = core.hold_first();
    core.isolate(old);
    core.node = old;
    assert_eq!(core.acknowledge_first(3, ACCEPT), None);
    for _ in 0..30 {
        core.advance(1_000);
    }
    let told = acknowledged(core.broker.poll_output().unwrap());
    let given_up = [ErrorCode::CoordinatorNotAvailable, ErrorCode::UnknownServerError];
    assert!(given_up.iter().any(|error| error.code() == told), "{told}");
}

#[test]
fn a_coordinator_that_is_cut_off_writes_nothing() {
    let mut core = Core::of_three();
    assert_eq!(core.join("g", "A"), 0);
    core.find_coordinator(0, "g");
    let old = core.node;
    core.isolate(old);
    assert_eq!(
        core.join("g", "B"),
        ErrorCode::CoordinatorNotAvailable.code(),
        "it names itself, and refuses"
    );
    assert_eq!(core.node, old);
    core.advance(600_000);
    core.rejoin(old);
    assert_eq!(core.join("g", "B"), 0);
    assert!(core.node != old, "it names the new one now");
}

#[test]
fn what_the_controller_has_to_do_is_not_done_there() {
    let mut core = Core::of_three();
    core.isolate(NodeId::new(1));
    core.node = NodeId::new(1);
    let topic = m::delete_topics_request::DeleteTopicState { name: Some("t".into()), ..Default::default() };
    let request = m::delete_topics_request::DeleteTopicsRequest { topics: vec![topic], ..Default::default() };
    let told = core.send_on(1, 6, RequestMessage::DeleteTopics(request));
    assert!(matches!(told, Some(Output::Close { .. })), "{told:?}");
    assert_eq!(core.metadata().0, [0, 1, 2], "the topic is there");
}

#[test]
fn a_node_is_cut_off_once_and_never_the_last() {
    let mut core = Core::with(|config| config.brokers(2));
    let now = core.clocks();
    let (zero, one) = (NodeId::new(0), NodeId::new(1));
    assert_eq!(core.broker.isolate_node(now, NodeId::new(7)), Err(NodeProblem::Unknown));
    assert_eq!(core.broker.rejoin_node(now, zero), Err(NodeProblem::Connected));
    core.isolate(zero);
    assert_eq!(core.broker.isolate_node(now, zero), Err(NodeProblem::Isolated));
    assert_eq!(core.broker.isolate_node(now, one), Err(NodeProblem::Alone));
    assert_eq!(core.broker.start_node(now, zero), Err(NodeProblem::Running));
    assert_eq!(core.broker.inspect_nodes(), [(zero, NodeState::Isolated), (one, NodeState::Running)]);
    core.stop(zero);
    assert_eq!(core.broker.isolate_node(now, zero), Err(NodeProblem::Stopped));
    assert_eq!(core.broker.rejoin_node(now, zero), Err(NodeProblem::Stopped));
    core.start(zero);
    core.isolate(zero);
    core.stop(one);
    assert_eq!(core.leader_of("t", 0), one, "nobody is there to lead it");
    core.rejoin(zero);
    assert_eq!((core.leader_of("t", 0), core.leader_of("t", 1)), (zero, zero), "whoever comes leads all");
    core.node = zero;
    assert_eq!(core.produce_one(), 0);
    assert_eq!(core.join("g", "A"), 0);
}
