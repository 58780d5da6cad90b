//! ListTransactions (66), versions 0-2 (KIP-664, KIP-994, KIP-1152): those whose coordinator is the node asked.

use regex::Regex;
use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::list_transactions_request::ListTransactionsRequest;
use sharemark_protocol::messages::list_transactions_response::{ListTransactionsResponse, TransactionState};
use sharemark_txn_coordinator::ListFilter;

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

impl Broker {
    pub(super) fn handle_list_transactions(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &ListTransactionsRequest,
    ) {
        let response = match whole_pattern(request.transactional_id_pattern.as_deref().unwrap_or_default()) {
            Ok(pattern) => self.list_transactions(now, origin, request, pattern.as_ref()),
            Err(error) => {
                ListTransactionsResponse { error_code: error.code(), ..ListTransactionsResponse::default() }
            }
        };
        self.answer(origin, ResponseMessage::ListTransactions(response));
    }

    fn list_transactions(
        &self,
        now: Now,
        origin: &Origin,
        request: &ListTransactionsRequest,
        pattern: Option<&Regex>,
    ) -> ListTransactionsResponse {
        let mut filter = ListFilter::default();
        let unknown = request.state_filters.iter().filter(|name| !filter.add_state(name)).cloned().collect();
        for producer_id in &request.producer_id_filters {
            filter.add_producer_id(*producer_id);
        }
        filter.set_longer_than_ms(request.duration_filter);
        let mut listings = Vec::new();
        for shard in self.nodes.get(&origin.node).into_iter().flat_map(|node| node.transactions.values()) {
            shard.list(now.clock, &filter, &mut listings);
        }
        let shown = listings.iter().filter(|listing| {
            let id = &*listing.transactional_id;
            pattern.is_none_or(|pattern| pattern.is_match(id))
                && authorize(&origin.principal, Operation::Describe, Resource::TransactionalId(id))
        });
        ListTransactionsResponse {
            unknown_state_filters: unknown,
            transaction_states: shown
                .map(|listing| TransactionState {
                    transactional_id: (&*listing.transactional_id).into(),
                    producer_id: listing.producer.id.get(),
                    transaction_state: listing.state.name().into(),
                })
                .collect(),
            ..ListTransactionsResponse::default()
        }
    }
}

/// Reads a pattern that a whole transactional id has to match; the empty one lets all through.
fn whole_pattern(pattern: &str) -> Result<Option<Regex>, ErrorCode> {
    if pattern.is_empty() {
        return Ok(None);
    }
    // By itself first, so that no bracket in it closes the one around it.
    let whole = Regex::new(pattern).and_then(|_| Regex::new(&format!("^(?:{pattern})$")));
    whole.map(Some).map_err(|_| ErrorCode::InvalidRegularExpression)
}
