//! DescribeTransactions (65), version 0 (KIP-664).

use std::collections::BTreeMap;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_transactions_request::DescribeTransactionsRequest;
use sharemark_protocol::messages::describe_transactions_response::{
    DescribeTransactionsResponse, TopicData, TransactionState,
};
use sharemark_protocol::{ErrorCode, StrBytes, Timestamp};
use sharemark_txn_coordinator::TransactionView;

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

impl Broker {
    pub(super) fn handle_describe_transactions(
        &mut self,
        origin: &Origin,
        request: &DescribeTransactionsRequest,
    ) {
        let states = request.transactional_ids.iter().map(|id| match self.describe_transaction(origin, id) {
            Ok(view) => on_wire(id, &view),
            Err(error) => TransactionState {
                error_code: error.code(),
                transactional_id: id.clone(),
                ..TransactionState::default()
            },
        });
        let response =
            DescribeTransactionsResponse { throttle_time_ms: 0, transaction_states: states.collect() };
        self.answer(origin, ResponseMessage::DescribeTransactions(response));
    }

    fn describe_transaction(&self, origin: &Origin, id: &str) -> Result<TransactionView, ErrorCode> {
        if !authorize(&origin.principal, Operation::Describe, Resource::TransactionalId(id)) {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        let (_, shard) = self.txn_shard(origin.node, id)?;
        shard.describe(id)
    }
}

fn on_wire(id: &StrBytes, view: &TransactionView) -> TransactionState {
    let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in &view.partitions {
        by_topic.entry(&partition.topic).or_default().push(partition.partition);
    }
    TransactionState {
        error_code: ErrorCode::None.code(),
        transactional_id: id.clone(),
        transaction_state: view.state.name().into(),
        transaction_timeout_ms: view.timeout_ms,
        transaction_start_time_ms: view.started_at.map_or(-1, Timestamp::ms),
        producer_id: view.producer.id.get(),
        producer_epoch: view.producer.epoch.get(),
        topics: by_topic
            .into_iter()
            .map(|(topic, partitions)| TopicData { topic: topic.into(), partitions })
            .collect(),
    }
}
