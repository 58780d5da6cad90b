//! A small client of the wire: a typed request goes out, a typed answer comes in; raw frames too.
//!
//! It keeps no metadata, retries nothing and follows no leader: a test says what is sent, and when.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use sharemark_protocol::messages as m;
use sharemark_protocol::{DecodeError, Message, NEVER_FLEXIBLE, Reader, Writer};

use m::api_versions_request::ApiVersionsRequest;
use m::txn_share_acknowledge_request::TxnShareAcknowledgeRequest;

/// The client id that requests carry.
pub const CLIENT_ID: &str = "testkit";
const API_VERSIONS: i16 = 18;
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
const FRAME_SIZE_MAX: usize = 256 << 20;

/// A request, and what answers it.
pub trait Request: Message {
    /// The answer.
    type Response: Message;
}

macro_rules! requests {
    ($($module:ident $name:ident -> $answer_module:ident $answer:ident,)*) => {
        $(impl Request for m::$module::$name {
            type Response = m::$answer_module::$answer;
        })*
    };
}

requests! {
    add_offsets_to_txn_request AddOffsetsToTxnRequest -> add_offsets_to_txn_response AddOffsetsToTxnResponse,
    add_partitions_to_txn_request AddPartitionsToTxnRequest -> add_partitions_to_txn_response AddPartitionsToTxnResponse,
    add_share_acks_to_txn_request AddShareAcksToTxnRequest -> add_share_acks_to_txn_response AddShareAcksToTxnResponse,
    alter_client_quotas_request AlterClientQuotasRequest -> alter_client_quotas_response AlterClientQuotasResponse,
    alter_configs_request AlterConfigsRequest -> alter_configs_response AlterConfigsResponse,
    alter_partition_reassignments_request AlterPartitionReassignmentsRequest -> alter_partition_reassignments_response AlterPartitionReassignmentsResponse,
    alter_replica_log_dirs_request AlterReplicaLogDirsRequest -> alter_replica_log_dirs_response AlterReplicaLogDirsResponse,
    alter_share_group_offsets_request AlterShareGroupOffsetsRequest -> alter_share_group_offsets_response AlterShareGroupOffsetsResponse,
    alter_user_scram_credentials_request AlterUserScramCredentialsRequest -> alter_user_scram_credentials_response AlterUserScramCredentialsResponse,
    api_versions_request ApiVersionsRequest -> api_versions_response ApiVersionsResponse,
    consumer_group_describe_request ConsumerGroupDescribeRequest -> consumer_group_describe_response ConsumerGroupDescribeResponse,
    consumer_group_heartbeat_request ConsumerGroupHeartbeatRequest -> consumer_group_heartbeat_response ConsumerGroupHeartbeatResponse,
    create_acls_request CreateAclsRequest -> create_acls_response CreateAclsResponse,
    create_partitions_request CreatePartitionsRequest -> create_partitions_response CreatePartitionsResponse,
    create_topics_request CreateTopicsRequest -> create_topics_response CreateTopicsResponse,
    delete_acls_request DeleteAclsRequest -> delete_acls_response DeleteAclsResponse,
    delete_groups_request DeleteGroupsRequest -> delete_groups_response DeleteGroupsResponse,
    delete_records_request DeleteRecordsRequest -> delete_records_response DeleteRecordsResponse,
    delete_share_group_offsets_request DeleteShareGroupOffsetsRequest -> delete_share_group_offsets_response DeleteShareGroupOffsetsResponse,
    delete_share_group_state_request DeleteShareGroupStateRequest -> delete_share_group_state_response DeleteShareGroupStateResponse,
    delete_topics_request DeleteTopicsRequest -> delete_topics_response DeleteTopicsResponse,
    describe_acls_request DescribeAclsRequest -> describe_acls_response DescribeAclsResponse,
    describe_client_quotas_request DescribeClientQuotasRequest -> describe_client_quotas_response DescribeClientQuotasResponse,
    describe_cluster_request DescribeClusterRequest -> describe_cluster_response DescribeClusterResponse,
    describe_configs_request DescribeConfigsRequest -> describe_configs_response DescribeConfigsResponse,
    describe_groups_request DescribeGroupsRequest -> describe_groups_response DescribeGroupsResponse,
    describe_log_dirs_request DescribeLogDirsRequest -> describe_log_dirs_response DescribeLogDirsResponse,
    describe_producers_request DescribeProducersRequest -> describe_producers_response DescribeProducersResponse,
    describe_quorum_request DescribeQuorumRequest -> describe_quorum_response DescribeQuorumResponse,
    describe_share_group_offsets_request DescribeShareGroupOffsetsRequest -> describe_share_group_offsets_response DescribeShareGroupOffsetsResponse,
    describe_topic_partitions_request DescribeTopicPartitionsRequest -> describe_topic_partitions_response DescribeTopicPartitionsResponse,
    describe_transactions_request DescribeTransactionsRequest -> describe_transactions_response DescribeTransactionsResponse,
    describe_user_scram_credentials_request DescribeUserScramCredentialsRequest -> describe_user_scram_credentials_response DescribeUserScramCredentialsResponse,
    elect_leaders_request ElectLeadersRequest -> elect_leaders_response ElectLeadersResponse,
    end_txn_request EndTxnRequest -> end_txn_response EndTxnResponse,
    fetch_request FetchRequest -> fetch_response FetchResponse,
    find_coordinator_request FindCoordinatorRequest -> find_coordinator_response FindCoordinatorResponse,
    heartbeat_request HeartbeatRequest -> heartbeat_response HeartbeatResponse,
    incremental_alter_configs_request IncrementalAlterConfigsRequest -> incremental_alter_configs_response IncrementalAlterConfigsResponse,
    init_producer_id_request InitProducerIdRequest -> init_producer_id_response InitProducerIdResponse,
    initialize_share_group_state_request InitializeShareGroupStateRequest -> initialize_share_group_state_response InitializeShareGroupStateResponse,
    join_group_request JoinGroupRequest -> join_group_response JoinGroupResponse,
    leave_group_request LeaveGroupRequest -> leave_group_response LeaveGroupResponse,
    list_config_resources_request ListConfigResourcesRequest -> list_config_resources_response ListConfigResourcesResponse,
    list_groups_request ListGroupsRequest -> list_groups_response ListGroupsResponse,
    list_offsets_request ListOffsetsRequest -> list_offsets_response ListOffsetsResponse,
    list_partition_reassignments_request ListPartitionReassignmentsRequest -> list_partition_reassignments_response ListPartitionReassignmentsResponse,
    list_transactions_request ListTransactionsRequest -> list_transactions_response ListTransactionsResponse,
    metadata_request MetadataRequest -> metadata_response MetadataResponse,
    offset_commit_request OffsetCommitRequest -> offset_commit_response OffsetCommitResponse,
    offset_delete_request OffsetDeleteRequest -> offset_delete_response OffsetDeleteResponse,
    offset_fetch_request OffsetFetchRequest -> offset_fetch_response OffsetFetchResponse,
    offset_for_leader_epoch_request OffsetForLeaderEpochRequest -> offset_for_leader_epoch_response OffsetForLeaderEpochResponse,
    produce_request ProduceRequest -> produce_response ProduceResponse,
    read_share_group_state_request ReadShareGroupStateRequest -> read_share_group_state_response ReadShareGroupStateResponse,
    read_share_group_state_summary_request ReadShareGroupStateSummaryRequest -> read_share_group_state_summary_response ReadShareGroupStateSummaryResponse,
    sasl_authenticate_request SaslAuthenticateRequest -> sasl_authenticate_response SaslAuthenticateResponse,
    sasl_handshake_request SaslHandshakeRequest -> sasl_handshake_response SaslHandshakeResponse,
    seed_txn_share_acknowledge_request SeedTxnShareAcknowledgeRequest -> seed_txn_share_acknowledge_response SeedTxnShareAcknowledgeResponse,
    share_acknowledge_request ShareAcknowledgeRequest -> share_acknowledge_response ShareAcknowledgeResponse,
    share_fetch_request ShareFetchRequest -> share_fetch_response ShareFetchResponse,
    share_group_describe_request ShareGroupDescribeRequest -> share_group_describe_response ShareGroupDescribeResponse,
    share_group_heartbeat_request ShareGroupHeartbeatRequest -> share_group_heartbeat_response ShareGroupHeartbeatResponse,
    sync_group_request SyncGroupRequest -> sync_group_response SyncGroupResponse,
    txn_offset_commit_request TxnOffsetCommitRequest -> txn_offset_commit_response TxnOffsetCommitResponse,
    txn_share_acknowledge_k93_request TxnShareAcknowledgeK93Request -> txn_share_acknowledge_response TxnShareAcknowledgeResponse,
    txn_share_acknowledge_request TxnShareAcknowledgeRequest -> txn_share_acknowledge_response TxnShareAcknowledgeResponse,
    unregister_broker_request UnregisterBrokerRequest -> unregister_broker_response UnregisterBrokerResponse,
    update_features_request UpdateFeaturesRequest -> update_features_response UpdateFeaturesResponse,
    write_share_group_state_request WriteShareGroupStateRequest -> write_share_group_state_response WriteShareGroupStateResponse,
    write_txn_markers_request WriteTxnMarkersRequest -> write_txn_markers_response WriteTxnMarkersResponse,
}

/// TxnShareAcknowledge of the draft with key 94: what key 95 has, under another number.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TxnShareAcknowledgeK94Request(pub TxnShareAcknowledgeRequest);

impl Message for TxnShareAcknowledgeK94Request {
    const NAME: &'static str = "TxnShareAcknowledgeK94Request";
    const API_KEY: i16 = 94;
    const VERSIONS_VALID: RangeInclusive<i16> = TxnShareAcknowledgeRequest::VERSIONS_VALID;
    const FIRST_FLEXIBLE: i16 = TxnShareAcknowledgeRequest::FIRST_FLEXIBLE;

    fn encode(&self, version: i16, out: &mut Writer) {
        self.0.encode(version, out);
    }

    fn decode(version: i16, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        TxnShareAcknowledgeRequest::decode(version, reader).map(Self)
    }
}

impl Request for TxnShareAcknowledgeK94Request {
    type Response = m::txn_share_acknowledge_response::TxnShareAcknowledgeResponse;
}

/// Returns a request with its header, without the length before it.
pub fn encode_request<R: Request>(request: &R, version: i16, correlation_id: i32) -> Bytes {
    let mut frame =
        request_header(R::API_KEY, version, correlation_id, Some(CLIENT_ID), flexible::<R>(version));
    frame.put_slice(&request.to_bytes(version));
    frame.freeze()
}

/// Returns a request header: version 2 when `flexible`, else version 1.
pub fn request_header(
    api_key: i16,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    flexible: bool,
) -> BytesMut {
    let mut header = BytesMut::new();
    header.put_i16(api_key);
    header.put_i16(version);
    header.put_i32(correlation_id);
    match client_id {
        None => header.put_i16(-1),
        Some(id) => {
            header.put_i16(i16::try_from(id.len()).unwrap_or(i16::MAX));
            header.put_slice(id.as_bytes());
        }
    }
    if flexible {
        header.put_u8(0);
    }
    header
}

/// Splits an answer into its correlation id and its body.
///
/// # Errors
///
/// Returns an error when the bytes are no answer to `R` of this version.
pub fn decode_response<R: Request>(version: i16, frame: &Bytes) -> Result<(i32, R::Response), DecodeError> {
    let header = if flexible::<R>(version) && R::API_KEY != API_VERSIONS { 5 } else { 4 };
    if frame.len() < header || (header == 5 && frame[4] != 0) {
        return Err(DecodeError::UnexpectedEnd);
    }
    let correlation_id = i32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
    Ok((correlation_id, R::Response::from_bytes(version, &frame.slice(header..))?))
}

fn flexible<R: Request>(version: i16) -> bool {
    R::FIRST_FLEXIBLE != NEVER_FLEXIBLE && R::FIRST_FLEXIBLE <= version
}

/// One connection to a broker.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    correlation_id: i32,
    versions: BTreeMap<i16, (i16, i16)>,
}

impl Connection {
    /// Connects to a broker. Nothing is sent.
    ///
    /// # Errors
    ///
    /// Returns what the socket says.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
        Ok(Self { stream, correlation_id: 0, versions: BTreeMap::new() })
    }

    /// Connects and asks which APIs there are, for [`Self::call_newest`].
    ///
    /// # Errors
    ///
    /// Returns what the socket says, or that the answer is no answer.
    pub fn open_and_negotiate(address: SocketAddr) -> io::Result<Self> {
        let mut connection = Self::open(address)?;
        let request = ApiVersionsRequest {
            client_software_name: CLIENT_ID.into(),
            client_software_version: "1".into(),
            ..ApiVersionsRequest::default()
        };
        let answer = connection.call(&request, 4)?;
        connection.versions =
            answer.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect();
        Ok(connection)
    }

    /// Returns the versions of an API that the broker announced.
    pub fn announced(&self, api_key: i16) -> Option<(i16, i16)> {
        self.versions.get(&api_key).copied()
    }

    /// Sends a request and returns its correlation id; the answer is not waited for.
    ///
    /// # Errors
    ///
    /// Returns what the socket says.
    pub fn send<R: Request>(&mut self, request: &R, version: i16) -> io::Result<i32> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.send_frame(&encode_request(request, version, self.correlation_id))?;
        Ok(self.correlation_id)
    }

    /// Reads the next answer, which must be one to `R`, and its correlation id.
    ///
    /// # Errors
    ///
    /// Returns what the socket says, or that the bytes are no such answer.
    pub fn receive<R: Request>(&mut self, version: i16) -> io::Result<(i32, R::Response)> {
        let frame = self.read_frame()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        decode_response::<R>(version, &frame).map_err(|error| {
            let text = format!("no answer to {} version {version}: {error}: {frame:?}", R::NAME);
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    /// Sends a request and returns its answer.
    ///
    /// # Errors
    ///
    /// As [`Self::receive`], and when the answer has another correlation id.
    pub fn call<R: Request>(&mut self, request: &R, version: i16) -> io::Result<R::Response> {
        let sent = self.send(request, version)?;
        let (answered, response) = self.receive::<R>(version)?;
        if answered != sent {
            return Err(io::Error::other(format!("asked {sent}, answered {answered}")));
        }
        Ok(response)
    }

    /// Sends a request in the newest version that both sides know; needs [`Self::open_and_negotiate`].
    ///
    /// # Errors
    ///
    /// As [`Self::call`], and when the broker does not have the API.
    pub fn call_newest<R: Request>(&mut self, request: &R) -> io::Result<R::Response> {
        let (_, newest) = self
            .announced(R::API_KEY)
            .ok_or_else(|| io::Error::other(format!("the broker does not announce {}", R::NAME)))?;
        self.call(request, newest.min(*R::VERSIONS_VALID.end()))
    }

    /// Sends one frame: the length, then these bytes.
    ///
    /// # Errors
    ///
    /// Returns what the socket says.
    pub fn send_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        let mut bytes = BytesMut::with_capacity(frame.len() + 4);
        bytes.put_i32(i32::try_from(frame.len()).map_err(io::Error::other)?);
        bytes.put_slice(frame);
        self.send_bytes(&bytes)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    ///
    /// Returns what the socket says.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Reads one frame, or `None` if the broker has closed the connection.
    ///
    /// # Errors
    ///
    /// Returns what the socket says, such as that nothing came in time.
    pub fn read_frame(&mut self) -> io::Result<Option<Bytes>> {
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if is_closed(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = usize::try_from(i32::from_be_bytes(length)).map_err(io::Error::other)?;
        if FRAME_SIZE_MAX < length {
            return Err(io::Error::other(format!("a frame of {length} bytes")));
        }
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(Some(frame.into()))
    }

    /// Says that nothing more will be sent; answers can still be read.
    ///
    /// # Errors
    ///
    /// Returns what the socket says.
    pub fn finish_sending(&mut self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)
    }

    /// Sets how long a read waits.
    ///
    /// # Errors
    ///
    /// Returns what the socket says.
    pub fn set_read_timeout(&mut self, wait_max: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(wait_max))
    }
}

/// Returns whether an error means that the other side has closed the connection.
pub fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}
