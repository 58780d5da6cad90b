use std::collections::BTreeSet;

use sharemark_protocol::{APIS, ApiKey};

use super::*;

macro_rules! requests {
    ($($name:ident)*) => { vec![$(RequestMessage::$name(Default::default())),*] };
}

/// One request of each kind that is served.
fn requests() -> Vec<RequestMessage> {
    requests! {
        Produce Fetch ListOffsets Metadata OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat
        LeaveGroup SyncGroup DescribeGroups ListGroups SaslHandshake ApiVersions CreateTopics DeleteTopics
        DeleteRecords InitProducerId OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn EndTxn
        WriteTxnMarkers TxnOffsetCommit DescribeAcls CreateAcls DeleteAcls DescribeConfigs AlterConfigs
        AlterReplicaLogDirs DescribeLogDirs SaslAuthenticate CreatePartitions DeleteGroups ElectLeaders
        IncrementalAlterConfigs AlterPartitionReassignments ListPartitionReassignments OffsetDelete
        DescribeClientQuotas AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials
        DescribeQuorum UpdateFeatures DescribeCluster DescribeProducers UnregisterBroker DescribeTransactions
        ListTransactions ConsumerGroupHeartbeat ConsumerGroupDescribe ListConfigResources DescribeTopicPartitions
        ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge InitializeShareGroupState
        ReadShareGroupState WriteShareGroupState DeleteShareGroupState ReadShareGroupStateSummary
        DescribeShareGroupOffsets AlterShareGroupOffsets DeleteShareGroupOffsets TxnShareAcknowledge
        AddShareAcksToTxn SeedTxnShareAcknowledge
    }
}

#[test]
fn every_request_can_be_refused() {
    let mut refused = BTreeSet::new();
    for request in &requests() {
        let answer = refusal(request, ErrorCode::NotCoordinator);
        assert_eq!(answer.map(|answer| answer.api_key()), Some(request.api_key()));
        refused.insert(request.api_key());
    }
    let served: BTreeSet<ApiKey> = APIS.iter().map(|api| api.key).collect();
    assert_eq!(refused, served);
}
