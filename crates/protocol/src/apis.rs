//! The table of served APIs. ApiVersions, `docs/protocol.md`, the generated request and response enums
//! and the tests read it; to serve one more API, add its line and run `cargo xtask codegen`.
//!
//! This file names nothing else of the crate, so that the generator can include it.

/// One API that this broker serves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Api {
    /// The API.
    pub key: ApiKey,
    /// The name in the schemas, without `Request` or `Response`.
    pub name: &'static str,
    /// The lowest version that ApiVersions lists.
    pub announced_min: i16,
    /// The highest version that ApiVersions lists, which is also the highest served.
    pub announced_max: i16,
    /// The lowest version served. It is higher than the lowest listed for Produce alone, of which some
    /// clients want to see version 0 although they never send it.
    pub served_min: i16,
    /// The first version with compact lengths and tagged fields.
    pub first_flexible: i16,
    /// When ApiVersions lists it.
    pub listed: Listed,
}

/// Says when ApiVersions lists an API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Listed {
    /// In every profile.
    Always,
    /// Only with `share.version` 3 or higher. Below that it is answered with `UNSUPPORTED_VERSION`.
    WithTxnShareAcknowledge,
}

impl Api {
    /// Returns whether requests of `version` are served.
    pub const fn serves(&self, version: i16) -> bool {
        self.served_min <= version && version <= self.announced_max
    }

    /// Returns the version of the header that a request of `version` has.
    pub const fn request_header_version(&self, version: i16) -> i16 {
        if self.first_flexible <= version { 2 } else { 1 }
    }

    /// Returns the version of the header that an answer of `version` has. ApiVersions keeps the oldest, so
    /// that a client can read the answer to a version that the broker does not know.
    pub const fn response_header_version(&self, version: i16) -> i16 {
        if self.first_flexible <= version && !matches!(self.key, ApiKey::ApiVersions) { 1 } else { 0 }
    }
}

macro_rules! apis {
    ($($key:literal $name:ident $min:literal..$max:literal, served $served:literal, flexible $flexible:literal, $listed:ident;)*) => {
        /// The APIs that this broker serves, each with its number on the wire.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(i16)]
        pub enum ApiKey {
            $(
                #[doc = concat!("The API `", stringify!($name), "`.")]
                $name = $key,
            )*
        }

        /// The served APIs in ascending order of their keys.
        pub const APIS: &[Api] = &[
            $(Api {
                key: ApiKey::$name,
                name: stringify!($name),
                announced_min: $min,
                announced_max: $max,
                served_min: $served,
                first_flexible: $flexible,
                listed: Listed::$listed,
            },)*
        ];

        impl ApiKey {
            /// Returns the API with this number, or `None` if it is not served.
            pub const fn from_wire(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Returns the number on the wire.
            pub const fn to_wire(self) -> i16 {
                self as i16
            }

            /// Returns the API's line in the table.
            pub const fn api(self) -> &'static Api {
                let mut index = 0;
                // Every key has a line: both come from the one list below.
                while APIS[index].key as i16 != self as i16 {
                    index += 1;
                }
                &APIS[index]
            }
        }
    };
}

apis! {
    0 Produce 0..13, served 3, flexible 9, Always;
    1 Fetch 4..18, served 4, flexible 12, Always;
    2 ListOffsets 1..11, served 1, flexible 6, Always;
    3 Metadata 0..13, served 0, flexible 9, Always;
    8 OffsetCommit 2..10, served 2, flexible 8, Always;
    9 OffsetFetch 1..10, served 1, flexible 6, Always;
    10 FindCoordinator 0..6, served 0, flexible 3, Always;
    11 JoinGroup 0..9, served 0, flexible 6, Always;
    12 Heartbeat 0..4, served 0, flexible 4, Always;
    13 LeaveGroup 0..5, served 0, flexible 4, Always;
    14 SyncGroup 0..5, served 0, flexible 4, Always;
    15 DescribeGroups 0..6, served 0, flexible 5, Always;
    16 ListGroups 0..5, served 0, flexible 3, Always;
    17 SaslHandshake 0..1, served 0, flexible 32767, Always;
    18 ApiVersions 0..5, served 0, flexible 3, Always;
    19 CreateTopics 2..7, served 2, flexible 5, Always;
    20 DeleteTopics 1..6, served 1, flexible 4, Always;
    21 DeleteRecords 0..2, served 0, flexible 2, Always;
    22 InitProducerId 0..5, served 0, flexible 2, Always;
    23 OffsetForLeaderEpoch 2..4, served 2, flexible 4, Always;
    24 AddPartitionsToTxn 0..5, served 0, flexible 3, Always;
    25 AddOffsetsToTxn 0..4, served 0, flexible 3, Always;
    26 EndTxn 0..5, served 0, flexible 3, Always;
    27 WriteTxnMarkers 1..2, served 1, flexible 1, Always;
    28 TxnOffsetCommit 0..6, served 0, flexible 3, Always;
    29 DescribeAcls 1..3, served 1, flexible 2, Always;
    30 CreateAcls 1..3, served 1, flexible 2, Always;
    31 DeleteAcls 1..3, served 1, flexible 2, Always;
    32 DescribeConfigs 1..4, served 1, flexible 4, Always;
    33 AlterConfigs 0..2, served 0, flexible 2, Always;
    34 AlterReplicaLogDirs 1..2, served 1, flexible 2, Always;
    35 DescribeLogDirs 1..5, served 1, flexible 2, Always;
    36 SaslAuthenticate 0..2, served 0, flexible 2, Always;
    37 CreatePartitions 0..3, served 0, flexible 2, Always;
    42 DeleteGroups 0..3, served 0, flexible 2, Always;
    43 ElectLeaders 0..2, served 0, flexible 2, Always;
    44 IncrementalAlterConfigs 0..1, served 0, flexible 1, Always;
    45 AlterPartitionReassignments 0..1, served 0, flexible 0, Always;
    46 ListPartitionReassignments 0..0, served 0, flexible 0, Always;
    47 OffsetDelete 0..0, served 0, flexible 32767, Always;
    48 DescribeClientQuotas 0..1, served 0, flexible 1, Always;
    49 AlterClientQuotas 0..1, served 0, flexible 1, Always;
    50 DescribeUserScramCredentials 0..0, served 0, flexible 0, Always;
    51 AlterUserScramCredentials 0..0, served 0, flexible 0, Always;
    55 DescribeQuorum 0..2, served 0, flexible 0, Always;
    57 UpdateFeatures 0..2, served 0, flexible 0, Always;
    60 DescribeCluster 0..2, served 0, flexible 0, Always;
    61 DescribeProducers 0..0, served 0, flexible 0, Always;
    64 UnregisterBroker 0..0, served 0, flexible 0, Always;
    65 DescribeTransactions 0..0, served 0, flexible 0, Always;
    66 ListTransactions 0..2, served 0, flexible 0, Always;
    68 ConsumerGroupHeartbeat 0..1, served 0, flexible 0, Always;
    69 ConsumerGroupDescribe 0..1, served 0, flexible 0, Always;
    74 ListConfigResources 0..1, served 0, flexible 0, Always;
    75 DescribeTopicPartitions 0..0, served 0, flexible 0, Always;
    76 ShareGroupHeartbeat 1..1, served 1, flexible 0, Always;
    77 ShareGroupDescribe 1..1, served 1, flexible 0, Always;
    78 ShareFetch 1..2, served 1, flexible 0, Always;
    79 ShareAcknowledge 1..2, served 1, flexible 0, Always;
    83 InitializeShareGroupState 0..0, served 0, flexible 0, Always;
    84 ReadShareGroupState 0..0, served 0, flexible 0, Always;
    85 WriteShareGroupState 0..1, served 0, flexible 0, Always;
    86 DeleteShareGroupState 0..0, served 0, flexible 0, Always;
    87 ReadShareGroupStateSummary 0..1, served 0, flexible 0, Always;
    90 DescribeShareGroupOffsets 0..1, served 0, flexible 0, Always;
    91 AlterShareGroupOffsets 0..0, served 0, flexible 0, Always;
    92 DeleteShareGroupOffsets 0..0, served 0, flexible 0, Always;
    95 TxnShareAcknowledge 0..0, served 0, flexible 0, WithTxnShareAcknowledge;
    32025 AddShareAcksToTxn 0..0, served 0, flexible 0, WithTxnShareAcknowledge;
    32093 SeedTxnShareAcknowledge 0..0, served 0, flexible 0, WithTxnShareAcknowledge;
}
