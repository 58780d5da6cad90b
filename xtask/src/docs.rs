//! Writes what `docs/protocol.md` says from the table of served APIs, and `docs/conformance.md` of Kafka's own tests.

use std::fmt::Write as _;

use crate::Failure;
use crate::apis::{APIS, Listed};
use crate::conformance;
use crate::files::{self, Mode};

const PROTOCOL: &str = "docs/protocol.md";
const CONFORMANCE: &str = "docs/conformance.md";

/// What a Kafka 4.4 broker lists in ApiVersions.
const KAFKA_APIS: [(i16, &str); 77] = [
    (0, "Produce"),
    (1, "Fetch"),
    (2, "ListOffsets"),
    (3, "Metadata"),
    (8, "OffsetCommit"),
    (9, "OffsetFetch"),
    (10, "FindCoordinator"),
    (11, "JoinGroup"),
    (12, "Heartbeat"),
    (13, "LeaveGroup"),
    (14, "SyncGroup"),
    (15, "DescribeGroups"),
    (16, "ListGroups"),
    (17, "SaslHandshake"),
    (18, "ApiVersions"),
    (19, "CreateTopics"),
    (20, "DeleteTopics"),
    (21, "DeleteRecords"),
    (22, "InitProducerId"),
    (23, "OffsetForLeaderEpoch"),
    (24, "AddPartitionsToTxn"),
    (25, "AddOffsetsToTxn"),
    (26, "EndTxn"),
    (27, "WriteTxnMarkers"),
    (28, "TxnOffsetCommit"),
    (29, "DescribeAcls"),
    (30, "CreateAcls"),
    (31, "DeleteAcls"),
    (32, "DescribeConfigs"),
    (33, "AlterConfigs"),
    (34, "AlterReplicaLogDirs"),
    (35, "DescribeLogDirs"),
    (36, "SaslAuthenticate"),
    (37, "CreatePartitions"),
    (38, "CreateDelegationToken"),
    (39, "RenewDelegationToken"),
    (40, "ExpireDelegationToken"),
    (41, "DescribeDelegationToken"),
    (42, "DeleteGroups"),
    (43, "ElectLeaders"),
    (44, "IncrementalAlterConfigs"),
    (45, "AlterPartitionReassignments"),
    (46, "ListPartitionReassignments"),
    (47, "OffsetDelete"),
    (48, "DescribeClientQuotas"),
    (49, "AlterClientQuotas"),
    (50, "DescribeUserScramCredentials"),
    (51, "AlterUserScramCredentials"),
    (55, "DescribeQuorum"),
    (57, "UpdateFeatures"),
    (60, "DescribeCluster"),
    (61, "DescribeProducers"),
    (64, "UnregisterBroker"),
    (65, "DescribeTransactions"),
    (66, "ListTransactions"),
    (68, "ConsumerGroupHeartbeat"),
    (69, "ConsumerGroupDescribe"),
    (74, "ListConfigResources"),
    (75, "DescribeTopicPartitions"),
    (76, "ShareGroupHeartbeat"),
    (77, "ShareGroupDescribe"),
    (78, "ShareFetch"),
    (79, "ShareAcknowledge"),
    (80, "AddRaftVoter"),
    (81, "RemoveRaftVoter"),
    (83, "InitializeShareGroupState"),
    (84, "ReadShareGroupState"),
    (85, "WriteShareGroupState"),
    (86, "DeleteShareGroupState"),
    (87, "ReadShareGroupStateSummary"),
    (88, "StreamsGroupHeartbeat"),
    (89, "StreamsGroupDescribe"),
    (90, "DescribeShareGroupOffsets"),
    (91, "AlterShareGroupOffsets"),
    (92, "DeleteShareGroupOffsets"),
    (93, "StreamsGroupTopologyDescriptionUpdate"),
    (94, "UnregisterController"),
];

/// Brings the generated parts of the pages up to date; in `Mode::Check` fails if they are not.
pub(crate) fn run(mode: Mode) -> Result<(), Failure> {
    page(PROTOCOL, &[("served", served()), ("unserved", unserved())], mode)?;
    page(CONFORMANCE, &[("kafka-tests", conformance::tables()?)], mode)
}

/// Brings the parts of one page up to date.
fn page(name: &str, parts: &[(&str, String)], mode: Mode) -> Result<(), Failure> {
    let path = files::root().join(name);
    let mut page = files::read(&path)?;
    for (part, text) in parts {
        replace(&mut page, name, part, text)?;
    }
    let differed = files::update(&path, &page, mode)?;
    if differed && mode == Mode::Check {
        return Err(format!("run `cargo xtask docs`: {name} differs"));
    }
    println!("{name} {}", if differed { "is written" } else { "is up to date" });
    Ok(())
}

/// Replaces what stands between the marks called `part`.
fn replace(page: &mut String, name: &str, part: &str, text: &str) -> Result<(), Failure> {
    let begin = format!("<!-- begin {part}: written by `cargo xtask docs` -->\n");
    let end = format!("<!-- end {part} -->");
    let missing = || format!("{name} lacks the marks of {part:?}");
    let from = page.find(&begin).ok_or_else(missing)? + begin.len();
    let to = from + page[from..].find(&end).ok_or_else(missing)?;
    page.replace_range(from..to, text);
    Ok(())
}

fn served() -> String {
    let mut text = "| key | name | listed | served | first flexible version | |\n".to_owned();
    text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for api in APIS {
        let remark = match api.listed {
            Listed::Always => "",
            Listed::WithTxnShareAcknowledge => "only with `share.version` 3",
        };
        let flexible = match api.first_flexible {
            i16::MAX => "none".to_owned(),
            first => first.to_string(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {}-{} | {}-{} | {flexible} | {remark} |",
            api.key.to_wire(),
            api.name,
            api.announced_min,
            api.announced_max,
            api.served_min,
            api.announced_max,
        );
    }
    text
}

fn unserved() -> String {
    let is_served = |key: i16| APIS.iter().any(|api| api.key.to_wire() == key);
    let mut text = String::new();
    let mut width = 0;
    for (key, name) in KAFKA_APIS.iter().filter(|(key, _)| !is_served(*key)) {
        let entry = format!("{name} ({key})");
        if width == 0 {
            text.push_str(&entry);
        } else if 118 < width + 2 + entry.len() {
            let _ = write!(text, ",\n{entry}");
            width = 0;
        } else {
            let _ = write!(text, ", {entry}");
        }
        width += 2 + entry.len();
    }
    text + ".\n"
}
