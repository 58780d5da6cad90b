//! Leaders that move under live sessions: what the old leader's clients are told, and what the new one serves.

use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ErrorCode, NodeId};

use super::isolation::{ACCEPT, RELEASE};
use super::{Core, Output, as_share_fetch};

impl Core {
    /// Has an administrator move `t-0` to another node, and returns the node.
    pub(super) fn move_away(&mut self) -> NodeId {
        let old = self.leader_of("t", 0);
        let new = NodeId::new((old.get() + 1) % 3);
        let partition = m::alter_partition_reassignments_request::ReassignablePartition {
            partition_index: 0,
            replicas: Some(vec![new.get()]),
        };
        let topic = m::alter_partition_reassignments_request::ReassignableTopic {
            name: "t".into(),
            partitions: vec![partition],
        };
        let request = m::alter_partition_reassignments_request::AlterPartitionReassignmentsRequest {
            topics: vec![topic],
            ..Default::default()
        };
        self.call(1, RequestMessage::AlterPartitionReassignments(request));
        assert_eq!(self.leader_of("t", 0), new);
        new
    }

    /// Opens a fetch session over `t-0` with epoch 0 of session 0, or goes on with one, and waits up to 500 ms.
    fn session_fetch(&mut self, session_id: i32, session_epoch: i32) -> Option<Output> {
        let partition = m::fetch_request::FetchPartition {
            current_leader_epoch: -1,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        };
        let topic = m::fetch_request::FetchTopic {
            topic_id: self.topic_id("t"),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = m::fetch_request::FetchRequest {
            max_wait_ms: if session_epoch == 0 { 0 } else { 500 },
            min_bytes: 1,
            max_bytes: 1 << 20,
            session_id,
            session_epoch,
            topics: if session_epoch == 0 { vec![topic] } else { Vec::new() },
            ..Default::default()
        };
        self.send_on(7, 16, RequestMessage::Fetch(request))
    }
}

fn as_fetch(output: &Output) -> &m::fetch_response::FetchResponse {
    let Output::Answer { message, .. } = output else { panic!("a fetch is answered") };
    let ResponseMessage::Fetch(answer) = &**message else { panic!("an answer is of its request's kind") };
    answer
}

#[test]
fn a_share_session_learns_where_its_partition_is() {
    let mut core = Core::of_three();
    let old = core.hold_first();
    let new = core.move_away();
    core.node = old;
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(core.acknowledge_first(3, ACCEPT), Some(unknown), "it does not know the share partition");
    let told = core.share_fetch(2, 4).unwrap();
    let partition = &told.responses[0].partitions[0];
    let leader = &partition.current_leader;
    assert_eq!(partition.error_code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!((leader.leader_id, leader.leader_epoch), (new.get(), 1));
    assert_eq!(told.node_endpoints.iter().map(|it| it.node_id).collect::<Vec<_>>(), [new.get()]);

    core.node = new;
    let told = core.share_fetch(3, 0).unwrap();
    let acquired = &told.responses[0].partitions[0].acquired_records;
    let acquired: Vec<_> = acquired.iter().map(|it| (it.first_offset, it.last_offset)).collect();
    assert_eq!(acquired, [(0, 0)], "the lock is gone with the leader");
    assert_eq!(core.acknowledge_first(1, RELEASE), Some(ErrorCode::None.code()));
}

#[test]
fn a_share_fetch_that_waits_is_told_at_once() {
    let mut core = Core::of_three();
    core.hold_first();
    assert!(core.share_fetch(2, 3).is_none(), "it waits for more");
    let new = core.move_away();
    let told = as_share_fetch(core.broker.poll_output().unwrap());
    let partition = &told.responses[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!(partition.current_leader.leader_id, new.get());
}

#[test]
fn a_fetch_session_is_told_at_once_and_goes_on() {
    let mut core = Core::of_three();
    let old = core.leader_of("t", 0);
    core.node = old;
    let session_id = as_fetch(&core.session_fetch(0, 0).unwrap()).session_id;
    assert!(session_id != 0 && core.session_fetch(session_id, 1).is_none(), "it waits");
    let new = core.move_away();
    let told = core.broker.poll_output().unwrap();
    let partition = &as_fetch(&told).responses[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!((partition.current_leader.leader_id, partition.current_leader.leader_epoch), (new.get(), 1));
    assert_eq!(as_fetch(&told).node_endpoints[0].node_id, new.get());
    let again = core.session_fetch(session_id, 2).unwrap();
    assert_eq!((as_fetch(&again).error_code, as_fetch(&again).session_id), (0, session_id));
}
